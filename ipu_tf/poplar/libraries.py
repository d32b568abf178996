"""The headers and libraries of Poplar, built where they are missing."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path

from ipu_tf.poplar.packages import write_packages
from ipu_tf.poplar.toolchain import LIBRARY_FLAGS, Compiler, PoplarBuildError, find_compiler

LIBRARIES = ("poplar", "poputil", "popops", "poprand")
"""In the order of linking: each needs those before it."""

_USER_OPS = "ipu_tf_user_op"
"""The library that builds and runs custom ops of TensorFlow; loading it loads all others."""

_COPIED = ("include", "device", "codelets")
_PACKAGE = Path(__file__).resolve().parent
_SOURCES = (_PACKAGE / "cpp", _PACKAGE.parents[1] / "ops" / "poplar")
"""In an installed package, and in a checkout."""


@dataclass(frozen=True, slots=True)
class Installation:
    """A folder with `include`, `lib`, `bin`, and what codelets are compiled with."""

    prefix: Path

    @property
    def compile_flags(self) -> tuple[str, ...]:
        """What compiles a program."""
        return ("-I", str(self.prefix / "include"))

    @property
    def link_flags(self) -> tuple[str, ...]:
        """What links a program, so that it runs without a variable of the environment."""
        folder = self.prefix / "lib"
        names = [f"-l{name}" for name in reversed(LIBRARIES)]
        return ("-L", str(folder), f"-Wl,-rpath,{folder}", *names)

    @property
    def user_ops(self) -> Path:
        """The library that builds and runs custom ops of TensorFlow."""
        return self.prefix / "lib" / f"lib{_USER_OPS}.so"

    @property
    def environment(self) -> dict[str, str]:
        """Folders by the variable that has to begin with them, for Makefiles of programs."""
        return {
            "CPATH": str(self.prefix / "include"),
            "LIBRARY_PATH": str(self.prefix / "lib"),
            "LD_LIBRARY_PATH": str(self.prefix / "lib"),
            "PATH": str(self.prefix / "bin"),
            "PKG_CONFIG_PATH": str(self.prefix / "lib" / "pkgconfig"),
            "CMAKE_PREFIX_PATH": str(self.prefix),
        }


def sources() -> Path:
    """Returns the folder of the C++ sources.

    Raises:
        PoplarBuildError: It is missing.
    """
    for folder in _SOURCES:
        if (folder / "include" / "poplar").is_dir():
            return folder
    raise PoplarBuildError(
        f"The C++ sources of Poplar are missing: neither {_SOURCES[0]} nor {_SOURCES[1]} is there. "
        "Install the package again."
    )


def installation(
    *, folders: tuple[Path, ...] | None = None, flags: tuple[str, ...] = ()
) -> Installation:
    """Returns the installation, built where it is missing or out of date.

    Args:
        folders: Where it may be, the first that is writable; by default the package's own folder,
            then the user's cache.
        flags: More flags of the compiler and the linker, for tests.

    Raises:
        PoplarBuildError: There is no compiler, it refuses a source, or no folder is writable.
    """
    compiler = find_compiler()
    folder = sources()
    key = _key(folder, compiler, flags)
    places = [place / key for place in folders or _default_folders()]
    for prefix in places:
        if (prefix / "complete").is_file():
            return Installation(prefix)
    writable = [prefix for prefix in places if _is_writable(prefix.parent)]
    if not writable:
        raise PoplarBuildError(
            f"Poplar's libraries cannot be written: {' and '.join(map(str, places))} are not "
            "writable. Set XDG_CACHE_HOME to a folder of yours."
        )
    prefix = writable[0]
    with _locked(prefix.parent):
        if not (prefix / "complete").is_file():
            _build(folder, prefix, compiler, flags)
    return Installation(prefix)


def user_folder() -> Path:
    """Returns the folder of the user's own for what is compiled."""
    cache = os.environ.get("XDG_CACHE_HOME")
    home = Path(cache) if cache and os.path.isabs(cache) else Path.home() / ".cache"
    return home / "ipu_tf"


def _default_folders() -> tuple[Path, ...]:
    return (_PACKAGE / "built", user_folder() / "poplar")


def _is_writable(folder: Path) -> bool:
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError:
        return False
    return os.access(folder, os.W_OK)


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[None]:
    with open(folder / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _key(folder: Path, compiler: Compiler, flags: tuple[str, ...]) -> str:
    """Returns a digest of all that the libraries depend on."""
    words = (compiler.version, *LIBRARY_FLAGS, *flags, *_helper())
    digest = hashlib.sha256("\0".join(words).encode())
    digest.update((_PACKAGE / "packages.py").read_bytes())
    for file in sorted(path for path in folder.rglob("*") if path.is_file()):
        digest.update(str(file.relative_to(folder)).encode() + b"\0" + file.read_bytes() + b"\0")
    return digest.hexdigest()[:20]


def _helper() -> tuple[str, str]:
    """Returns the Python that models cycles and memory, and the folder that holds this package."""
    return sys.executable, str(_PACKAGE.parents[1])


def _build(folder: Path, prefix: Path, compiler: Compiler, flags: tuple[str, ...]) -> None:
    """Builds beside `prefix` and renames the whole."""
    start = time.monotonic()
    with tempfile.TemporaryDirectory(dir=prefix.parent) as name:
        draft = Path(name) / "prefix"
        objects = _objects(folder, Path(name), compiler, flags)
        (draft / "lib").mkdir(parents=True)
        for library in LIBRARIES:
            dependencies = LIBRARIES[: LIBRARIES.index(library)]
            _link(library, objects[library], dependencies, draft / "lib", compiler, flags)
        _link(_USER_OPS, objects["user_op"], LIBRARIES, draft / "lib", compiler, flags)
        for part in _COPIED:
            shutil.copytree(folder / part, draft / part)
        _add_tools(objects["popc"], draft, compiler, flags)
        write_packages(draft, LIBRARIES)
        (draft / "helper").write_text("\n".join((*_helper(), "")))
        (draft / "complete").touch()
        shutil.rmtree(prefix, ignore_errors=True)
        draft.rename(prefix)
    seconds = time.monotonic() - start
    print(f"Built Poplar's libraries in {prefix} ({seconds:.0f} s).", file=sys.stderr)


def _objects(
    folder: Path, build: Path, compiler: Compiler, flags: tuple[str, ...]
) -> dict[str, list[Path]]:
    """Returns the object files of each library."""
    units = _units(folder / "src", build)
    outputs_of_libraries: dict[str, list[Path]] = {}

    def compiled(unit: Path) -> tuple[str, Path]:
        output = unit.with_suffix(".o")
        words = [*LIBRARY_FLAGS, *flags, "-I", str(folder / "include")]
        compiler.run([*words, "-c", str(unit), "-o", str(output)], f"Poplar's source {unit.stem}")
        return unit.stem.partition("-")[0], output

    _show(f"Building Poplar's libraries: {len(units)} parts, once, in less than two minutes")
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        for count, job in enumerate(as_completed([pool.submit(compiled, one) for one in units]), 1):
            library, output = job.result()
            outputs_of_libraries.setdefault(library, []).append(output)
            if sys.stderr.isatty():
                _show(f"\rBuilding Poplar's libraries: {count} of {len(units)} parts", end="")
    if sys.stderr.isatty():
        _show("")
    return {library: sorted(outputs) for library, outputs in outputs_of_libraries.items()}


def _units(folder: Path, build: Path) -> list[Path]:
    """Writes sources that include those of a folder, the largest first; returns their paths.

    Files of a folder within a library compile as one source, which reads their headers once; those
    beside such folders compile alone. Names begin with the library's.
    """
    parts: dict[str, list[Path]] = {}
    for file in sorted(folder.rglob("*.cc")):
        place = file.relative_to(folder).with_suffix("").parts
        parts.setdefault("-".join(place[:-1] if len(place) > 2 else place), []).append(file)

    def size(name: str) -> int:
        return sum(file.stat().st_size for file in parts[name])

    units = []
    for name in sorted(parts, key=size, reverse=True):
        unit = build / f"{name}.cc"
        unit.write_text("".join(f'#include "{file}"\n' for file in parts[name]))
        units.append(unit)
    return units


def _show(text: str, end: str = "\n") -> None:
    print(text, end=end, file=sys.stderr, flush=True)


def _link(
    library: str,
    objects: list[Path],
    dependencies: Sequence[str],
    lib: Path,
    compiler: Compiler,
    flags: tuple[str, ...],
) -> None:
    """Links a library that loads those it needs from its own folder, whatever it calls of them."""
    names = [f"-l{name}" for name in reversed(dependencies)]
    words = [*flags, "-shared", *map(str, objects), "-o", str(lib / f"lib{library}.so")]
    words += ["-L", str(lib), "-Wl,-rpath,$ORIGIN", "-Wl,--no-as-needed", *names]
    compiler.run([*words, "-ldl", "-pthread"], f"Poplar's lib{library}.so")


def _add_tools(
    objects: list[Path], prefix: Path, compiler: Compiler, flags: tuple[str, ...]
) -> None:
    (prefix / "bin").mkdir()
    words = [*flags, *map(str, objects), "-o", str(prefix / "bin" / "popc")]
    words += ["-L", str(prefix / "lib")]
    compiler.run([*words, "-Wl,-rpath,$ORIGIN/../lib", "-lpoplar"], "Poplar's popc")
