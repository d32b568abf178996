"""The setuptools commands that put the tile ops into a wheel or an editable install."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import ClassVar

from setuptools import Command
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build import build

PACKAGE = "ipu_tf"
BUILT_FILES = ("_ops.so", "_build_info.py")
POPLAR_SOURCES = Path("ops/poplar")


class BuildOps(Command):
    """Compiles ops/ into the package; a sub-command of `build`."""

    description = "compile the C++ tile ops"
    user_options: ClassVar = [("build-lib=", "d", "folder that the package is built in")]

    # Set by an editable install: the files then go into the source tree.
    editable_mode = False

    def initialize_options(self) -> None:
        """Declares the options."""
        self.build_lib: str | None = None

    def finalize_options(self) -> None:
        """Takes over the build folder of the `build` command."""
        self.set_undefined_options("build_py", ("build_lib", "build_lib"))

    def _package_dir(self) -> Path:
        base = "." if self.editable_mode or self.build_lib is None else self.build_lib
        return Path(base) / PACKAGE

    def run(self) -> None:
        """Builds in a separate process, in which the sources are importable.

        Raises:
            SystemExit: The build failed; it has printed why.
        """
        command = [sys.executable, "-m", "ops.build_ops", "--output", str(self._package_dir())]
        code = subprocess.run(command, check=False).returncode
        if code != 0:
            raise SystemExit(code)
        # An installed package builds Poplar's libraries at their first use, from its own sources;
        # an editable one finds them in the checkout.
        if not self.editable_mode:
            shutil.copytree(POPLAR_SOURCES, self._poplar_dir(), dirs_exist_ok=True)

    def _poplar_dir(self) -> Path:
        return self._package_dir() / "poplar" / "cpp"

    def get_outputs(self) -> list[str]:
        """The files that the command writes."""
        outputs = [self._package_dir() / name for name in BUILT_FILES]
        if not self.editable_mode:
            sources = (path for path in sorted(POPLAR_SOURCES.rglob("*")) if path.is_file())
            outputs += [self._poplar_dir() / path.relative_to(POPLAR_SOURCES) for path in sources]
        return [str(path) for path in outputs]

    def get_output_mapping(self) -> dict[str, str]:
        """The built files that replace source files: none."""
        return {}

    def get_source_files(self) -> list[str]:
        """The files that a source distribution needs for this command."""
        files = (path for path in Path("ops").rglob("*") if path.is_file())
        return sorted(str(path) for path in files if "__pycache__" not in path.parts)


class Build(build):
    """`build`, with the tile ops after the Python files."""

    sub_commands: ClassVar = [*build.sub_commands, ("build_ops", None)]


class BdistWheel(bdist_wheel):
    """`bdist_wheel` for a package with a native library that works with any Python version."""

    def finalize_options(self) -> None:
        """Marks the wheel as one for a platform, whose files belong to the platform's folder."""
        self.distribution.has_ext_modules = lambda: True
        super().finalize_options()

    def get_tag(self) -> tuple[str, str, str]:
        """The wheel's tag: any Python 3, this platform."""
        return "py3", "none", super().get_tag()[2]
