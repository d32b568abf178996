"""Files by which pkg-config and CMake find Poplar's libraries."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

_CMAKE_PACKAGES = ("poplar", "poplibs")
"""What published programs give find_package; each has all libraries."""

_PKG_CONFIG = """\
prefix=${{pcfiledir}}/../..
Name: {name}
Description: {name} of the simulated IPU, with the names of that version
Version: 3.3.0
Requires: {needed}
Cflags: -I${{prefix}}/include
Libs: -L${{prefix}}/lib -Wl,-rpath,${{prefix}}/lib -l{name}
"""

# find_package(poplar) makes a target of each library: target_link_libraries(x poplar popops).
_CMAKE = """\
if(NOT TARGET {name})
  add_library({name} SHARED IMPORTED)
  set_target_properties({name} PROPERTIES
    IMPORTED_LOCATION "${{CMAKE_CURRENT_LIST_DIR}}/../../lib{name}.so"
    INTERFACE_INCLUDE_DIRECTORIES "${{CMAKE_CURRENT_LIST_DIR}}/../../../include"
    INTERFACE_LINK_LIBRARIES "{needed}")
endif()
"""


def write_packages(prefix: Path, libraries: Sequence[str]) -> None:
    """Writes a file for pkg-config for each library, and packages of CMake with all of them.

    Args:
        prefix: The folder of the installation; the files hold no path to it, so it may move.
        libraries: In the order of linking: each needs those before it.
    """
    targets = "".join(
        _CMAKE.format(name=name, needed=";".join(libraries[:place]))
        for place, name in enumerate(libraries)
    )
    for place, name in enumerate(libraries):
        requirements = " ".join(libraries[:place])
        _write(
            prefix / "lib" / "pkgconfig" / f"{name}.pc",
            _PKG_CONFIG.format(name=name, needed=requirements),
        )
    for name in _CMAKE_PACKAGES:
        _write(prefix / "lib" / "cmake" / name / f"{name}-config.cmake", targets)


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
