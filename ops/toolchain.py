"""The compiler and the flags that turn ops/ into a library for the installed TensorFlow."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

# One build runs on every x86-64 with AVX2. Contraction is off because the numerics of a plan
# are defined operation by operation; kernels that want a fused multiply-add say so.
COMPILE_FLAGS = (
    "-std=c++17",
    "-O3",
    "-fPIC",
    "-mavx2",
    "-mfma",
    "-mf16c",
    "-ffp-contract=off",
)
# Only for files named *_avx512.cc, whose kernels are picked at run time.
AVX512_FLAGS = ("-mavx512f", "-mavx512vl", "-mavx512bw", "-mavx512dq")
# For development only: a newer compiler may add warnings, which is no reason to refuse an
# installation.
WARNING_FLAGS = ("-Wall", "-Wextra", "-Werror")
WARNINGS_VARIABLE = "IPU_TF_WARNINGS_AS_ERRORS"
# XLA's headers include these by other paths than those of TensorFlow's package.
XLA_HEADER_DIRS = ("external/highwayhash", "external/farmhash_archive/src")
# What `tf.sysconfig.get_compile_flags` gives besides include directory and standard.
TENSORFLOW_FLAGS = ("-D_GLIBCXX_USE_CXX11_ABI=1", "-DEIGEN_MAX_ALIGN_BYTES=64")
# The second one holds XLA; `tf.sysconfig.get_link_flags` names the first one only. TensorFlow loads
# both.
TENSORFLOW_LIBRARIES = ("-l:libtensorflow_framework.so.2", "-l:libtensorflow_cc.so.2")


class BuildError(Exception):
    """The ops cannot be built; the message says why and what to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Toolchain:
    """A compiler and the TensorFlow that it builds for.

    Attributes:
        compiler: Path of the C++ compiler.
        compiler_version: First line of its `--version`.
        tensorflow_version: Version of the TensorFlow whose headers are used.
        include_dir: Directory of these headers; None for sources that include none of them.
        compile_flags: TensorFlow's compile flags, without include directory and standard.
        link_flags: Flags that link TensorFlow, with XLA.
        warning_flags: Which warnings are errors; headers of TensorFlow give none.
    """

    compiler: str
    compiler_version: str
    tensorflow_version: str
    include_dir: str | None
    compile_flags: tuple[str, ...]
    link_flags: tuple[str, ...]
    warning_flags: tuple[str, ...] = ()

    def flags_for(self, source: Path) -> tuple[str, ...]:
        """The flags of one source file; they name no path, so equal flags mean equal code."""
        extra = AVX512_FLAGS if source.stem.endswith("_avx512") else ()
        version = f'-DIPU_TF_TENSORFLOW_VERSION="{self.tensorflow_version}"'
        return (*COMPILE_FLAGS, *self.warning_flags, *extra, version, *self.compile_flags)

    def compile_command(self, source: Path, output: Path) -> list[str]:
        """The command that compiles `source` to the object file `output`."""
        paths: list[str] = []
        if self.include_dir is not None:
            paths = ["-isystem", self.include_dir]
            paths.append(f"-ffile-prefix-map={self.include_dir}=tensorflow")
            for directory in XLA_HEADER_DIRS:
                paths += ["-isystem", f"{self.include_dir}/{directory}"]
        files = ["-c", str(source), "-o", str(output)]
        return [self.compiler, *self.flags_for(source), *paths, *files]

    def link_command(self, objects: list[Path], output: Path) -> list[str]:
        """The command that links `objects` to the shared library `output`."""
        return [*self.program_command(objects, output), "-shared"]

    def program_command(self, objects: list[Path], output: Path) -> list[str]:
        """The command that links `objects` to the program `output`."""
        return [self.compiler, *map(str, objects), *self.link_flags, "-o", str(output)]


def check_platform(system: str, machine: str) -> None:
    """Rejects machines that the kernels do not support.

    Args:
        system: Operating system, as `platform.system()` names it.
        machine: Processor architecture, as `platform.machine()` names it.

    Raises:
        BuildError: Not Linux on x86-64.
    """
    if system != "Linux" or machine not in ("x86_64", "AMD64"):
        raise BuildError(
            "The tile ops run on Linux on an x86-64 processor with AVX2 only. "
            f"Received: {system} on {machine}. Use an x86-64 Linux machine or container."
        )


def find_compiler(name: str | None = None) -> tuple[str, str]:
    """Path and version line of the C++ compiler.

    Args:
        name: Compiler to use; by default `$CXX`, else g++.

    Raises:
        BuildError: There is no such program, or it does not run.
    """
    name = name or os.environ.get("CXX") or "g++"
    path = shutil.which(name)
    if path is None:
        raise BuildError(
            f"The tile ops need a C++17 compiler, but {name!r} is not on PATH. Install g++ "
            "(Debian, Ubuntu: apt-get install g++; Fedora: dnf install gcc-c++), or set CXX "
            "to a compiler that is there."
        )
    result = subprocess.run([path, "--version"], capture_output=True, text=True, check=False)
    if result.returncode != 0:
        raise BuildError(
            f"The C++ compiler {path} does not run: '{path} --version' ended with exit code "
            f"{result.returncode}. Received: {result.stderr.strip()}"
        )
    return path, result.stdout.splitlines()[0]


def warning_flags() -> tuple[str, ...]:
    """The warnings that are errors: none, unless IPU_TF_WARNINGS_AS_ERRORS is 1.

    Raises:
        BuildError: The variable is neither 0 nor 1.
    """
    value = os.environ.get(WARNINGS_VARIABLE, "0")
    if value not in ("0", "1"):
        raise BuildError(
            f"{WARNINGS_VARIABLE} must be 0 or 1. Received: {value!r}. Set it to 1 to refuse "
            "sources that the compiler warns about, else unset it."
        )
    return WARNING_FLAGS if value == "1" else ()


def find_toolchain() -> Toolchain:
    """The toolchain of this machine and Python environment.

    TensorFlow is not imported: that takes seconds, and packages that may not be installed yet.

    Raises:
        BuildError: The platform is not supported, or compiler or TensorFlow is missing.
    """
    check_platform(platform.system(), platform.machine())
    compiler, compiler_version = find_compiler()
    try:
        distribution = importlib.metadata.distribution("tensorflow")
    except importlib.metadata.PackageNotFoundError:
        raise BuildError(
            f"TensorFlow is not installed for {sys.executable}; the tile ops are compiled against "
            "its headers. Run: pip install 'tensorflow==2.21.*'"
        ) from None
    folder = distribution.locate_file("tensorflow")
    return Toolchain(
        compiler=compiler,
        compiler_version=compiler_version,
        tensorflow_version=distribution.version,
        include_dir=f"{folder}/include",
        compile_flags=TENSORFLOW_FLAGS,
        link_flags=(f"-L{folder}", *TENSORFLOW_LIBRARIES),
        warning_flags=warning_flags(),
    )
