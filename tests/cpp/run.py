"""Builds the C++ tests of ops/core with sanitizers and runs them: `./dev test-cpp [NAMES]`.

Objects are kept under build/cpp by the content they were made from, as those of the tile ops are.
"""

from __future__ import annotations

import platform
import subprocess
import sys
from pathlib import Path

from ops import build_ops
from ops.toolchain import WARNING_FLAGS, BuildError, Toolchain, check_platform, find_compiler

TESTS = Path(__file__).resolve().parent
BUILD = build_ops.ROOT / "build" / "cpp"
SANITIZERS = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all")


def toolchain() -> Toolchain:
    """Returns the compiler with the sanitizers' flags; ops/core needs no TensorFlow.

    Raises:
        BuildError: The platform is not supported, or there is no compiler.
    """
    check_platform(platform.system(), platform.machine())
    compiler, version = find_compiler()
    return Toolchain(
        compiler=compiler,
        compiler_version=version,
        tensorflow_version="none",
        include_dir=None,
        compile_flags=("-O1", "-g1", "-fno-omit-frame-pointer", "-pthread", *SANITIZERS),
        link_flags=("-pthread", *SANITIZERS),
        warning_flags=WARNING_FLAGS,
    )


def build() -> Path:
    """Returns the program of all tests, built where it is out of date.

    Raises:
        BuildError: There is no compiler, or it refuses a file.
    """
    ops = build_ops.ROOT / "ops"
    sources = [*sorted((ops / "core").rglob("*.cc")), *sorted(TESTS.glob("*.cc"))]
    return build_ops.build_program(sources, ops, BUILD, toolchain())


def main(names: list[str]) -> int:
    """Runs the tests whose names contain one of `names`, all without; returns the exit code."""
    try:
        program = build()
    except BuildError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return subprocess.run([str(program), *names], check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
