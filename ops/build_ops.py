"""Builds the tile ops: every ops/**/*.cc but Poplar's into one shared library beside the package.

Run from the project's root: `python -m ops.build_ops`. Object files are kept under build/ops
by the content they were made from (source, headers of ours, flags, compiler, TensorFlow), so
a second build compiles what changed and nothing else. Sources that include TensorFlow are compiled
as one, because reading its headers takes longer than compiling any of them.
"""

from __future__ import annotations

import argparse
import fcntl
import filecmp
import hashlib
import itertools
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from ops.toolchain import WARNINGS_VARIABLE, BuildError, Toolchain, find_toolchain

ROOT = Path(__file__).resolve().parent.parent
LIBRARY_NAME = "_ops.so"
INFO_NAME = "_build_info.py"

_JOINED_FOLDERS = ("tf", "xla")
"""The folders of the sources that include TensorFlow."""

_COMPILED_ALONE = "xla_kernels.cc"
"""Takes longest, for the headers of XLA's compiler: it is compiled beside the others."""

_INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.MULTILINE)


def included_files(source: Path, root: Path) -> list[Path]:
    """`source` and every file that it includes by a quoted path, directly or not.

    Paths are looked up beside the including file and under `root`. Files that are in neither
    place are TensorFlow's; they are identified by TensorFlow's version.
    """
    files = [source]
    for file in files:  # grows while it is walked
        for name in _INCLUDE.findall(file.read_text()):
            for directory in (file.parent, root):
                candidate = (directory / name).resolve()
                if candidate.is_file() and candidate not in files:
                    files.append(candidate)
    return files


def compiled_files(sources: Sequence[Path], source_dir: Path, build_dir: Path) -> list[Path]:
    """Returns the files to compile, longest first: sources, and one that includes those to join.

    Args:
        sources: The sources.
        source_dir: Root of their quoted includes.
        build_dir: The folder that gets the file that includes others.
    """
    alone, includes, separate = [], [], []
    for source in sources:
        if source.name == _COMPILED_ALONE:
            alone.append(source)
        elif source.parent.name in _JOINED_FOLDERS:
            includes.append(f'#include "{source.relative_to(source_dir)}"\n')
        else:
            separate.append(source)
    if not includes:
        return [*alone, *separate]
    file = build_dir / "joined.cc"
    text = "".join(includes)
    if not file.exists() or file.read_text() != text:
        file.write_text(text)
    return [*alone, file, *separate]


def object_key(source: Path, root: Path, toolchain: Toolchain) -> str:
    """A digest of everything that the object file of `source` depends on."""
    digest = hashlib.sha256()
    for text in (
        toolchain.compiler_version,
        toolchain.tensorflow_version,
        *toolchain.flags_for(source),
    ):
        digest.update(text.encode() + b"\0")
    for file in included_files(source, root):
        digest.update(os.path.relpath(file, root).encode() + b"\0" + file.read_bytes() + b"\0")
    return digest.hexdigest()[:20]


def _run(command: list[str], task: str) -> None:
    """Runs a compiler command; its diagnostics become the message of the BuildError."""
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode != 0:
        raise BuildError(f"{task} failed: {' '.join(command)}\n{result.stderr.strip()}")


def _compile(source: Path, root: Path, output: Path, toolchain: Toolchain) -> None:
    draft = output.with_suffix(".tmp")  # an interrupted build leaves no half object behind
    command = toolchain.compile_command(source, draft)
    try:
        _run([*command, "-I", str(root)], f"Compiling {os.path.relpath(source, root.parent)}")
    except BuildError as error:
        if "[-Werror" not in str(error):
            raise
        raise BuildError(
            f"{error}\nThese are warnings, which are errors in development. To build all the same, "
            f"set {WARNINGS_VARIABLE}=0."
        ) from None
    draft.replace(output)


def _prune(directory: Path, keep: Iterable[Path]) -> None:
    """Deletes the objects, libraries and programs of earlier builds."""
    keepers = set(keep)
    products = itertools.chain.from_iterable(map(directory.glob, ("*.o", "*.so", "program-*")))
    for file in list(products):
        if file not in keepers:
            file.unlink(missing_ok=True)


def _install(source: Path, target: Path) -> None:
    """Puts a copy of `source` at `target` in one step, unless it is there already."""
    if target.exists() and filecmp.cmp(source, target, shallow=False):
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    draft = target.with_suffix(f".{os.getpid()}.tmp")
    shutil.copyfile(source, draft)
    draft.replace(target)


def _write_info(target: Path, toolchain: Toolchain) -> None:
    """Writes the module that records the versions the library was built for."""
    text = (
        '"""The versions that the tile ops were built for and with; written by the build."""\n\n'
        f"TENSORFLOW_VERSION = {toolchain.tensorflow_version!r}\n"
        f"COMPILER = {toolchain.compiler_version!r}\n"
    )
    if not target.exists() or target.read_text() != text:
        target.write_text(text)


@contextmanager
def _locked(directory: Path) -> Iterator[None]:
    """Holds the lock of a build folder, so that two builds at a time take turns."""
    directory.mkdir(parents=True, exist_ok=True)
    with open(directory / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _compile_all(
    sources: Sequence[Path], source_dir: Path, build_dir: Path, toolchain: Toolchain
) -> tuple[list[Path], int]:
    """Compiles files that are out of date.

    Returns:
        The object files, and how many of them had to be compiled.
    """
    objects = [
        build_dir / f"{source.stem}-{object_key(source, source_dir, toolchain)}.o"
        for source in sources
    ]
    outdated = [pair for pair in zip(sources, objects, strict=True) if not pair[1].exists()]
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        jobs = [pool.submit(_compile, src, source_dir, out, toolchain) for src, out in outdated]
        for job in jobs:
            job.result()
    return objects, len(outdated)


def _link_key(objects: Sequence[Path], flags: Sequence[str]) -> str:
    """A digest of everything that a linked file depends on."""
    names = "\0".join([*(file.name for file in objects), *flags])
    return hashlib.sha256(names.encode()).hexdigest()[:20]


def _build_locked(
    sources: list[Path],
    source_dir: Path,
    build_dir: Path,
    output_dir: Path | None,
    toolchain: Toolchain,
) -> int:
    """Compiles, links and installs files that are out of date; returns the number compiled."""
    objects, compiled = _compile_all(sources, source_dir, build_dir, toolchain)
    if output_dir is None:
        return compiled
    library = build_dir / f"ops-{_link_key(objects, toolchain.link_flags)}.so"
    if not library.exists():
        draft = library.with_suffix(".tmp")
        _run(toolchain.link_command(objects, draft), "Linking the tile ops")
        draft.replace(library)
    _install(library, output_dir / LIBRARY_NAME)
    _write_info(output_dir / INFO_NAME, toolchain)
    _prune(build_dir, [*objects, library])
    return compiled


def build_program(
    sources: Sequence[Path], source_dir: Path, build_dir: Path, toolchain: Toolchain
) -> Path:
    """Returns a program of C++ sources; rebuilds it if it is out of date.

    Args:
        sources: The .cc files.
        source_dir: Root of quoted includes that are not found beside the including file.
        build_dir: Folder of the object files and the program, kept between builds.
        toolchain: The toolchain that builds them.

    Raises:
        BuildError: The compiler refuses a file.
    """
    with _locked(build_dir):
        objects, _ = _compile_all(sources, source_dir, build_dir, toolchain)
        program = build_dir / f"program-{_link_key(objects, toolchain.link_flags)}"
        if not program.exists():
            draft = program.with_suffix(".tmp")
            _run(toolchain.program_command(objects, draft), f"Linking {program.name}")
            draft.replace(program)
        _prune(build_dir, [*objects, program])
        return program


def build(source_dir: Path, build_dir: Path, output_dir: Path | None) -> int:
    """Brings the library in `output_dir` up to date with the sources.

    Args:
        source_dir: Folder searched for .cc files; also the root of their quoted includes.
        build_dir: Folder of the object files, kept between builds.
        output_dir: Folder that receives the library and the module with the build's facts; None to
            compile alone, for a build that follows.

    Returns:
        The number of files that had to be compiled.

    Raises:
        BuildError: No sources, no toolchain, or the compiler refuses a file.
    """
    source_dir = source_dir.resolve()
    # Poplar's libraries are built by ipu_tf.poplar, at their first use.
    sources = sorted(set(source_dir.rglob("*.cc")) - set((source_dir / "poplar").rglob("*.cc")))
    if not sources:
        raise BuildError(f"There are no .cc files under {source_dir}; is the checkout complete?")
    with _locked(build_dir):
        toolchain = find_toolchain()
        files = compiled_files(sources, source_dir, build_dir)
        return _build_locked(files, source_dir, build_dir, output_dir, toolchain)


def main(arguments: list[str] | None = None) -> int:
    """The command line; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m ops.build_ops", description=__doc__)
    parser.add_argument("--output", type=Path, default=ROOT / "ipu_tf", help="default: ipu_tf/")
    parser.add_argument(
        "--compile-only",
        action="store_true",
        help="make no library; needs the headers of TensorFlow, and not the packages it imports",
    )
    options = parser.parse_args(arguments)
    output_dir = None if options.compile_only else options.output
    try:
        compiled = build(ROOT / "ops", ROOT / "build" / "ops", output_dir)
    except BuildError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    if compiled:
        verb = "Compiled" if options.compile_only else "Built"
        print(f"{verb} the tile ops ({compiled} files compiled).")
    return 0


if __name__ == "__main__":
    sys.exit(main())
