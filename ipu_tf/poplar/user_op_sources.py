"""Libraries of custom ops, compiled from the C++ source that `library_path` names.

The compiler compares the functions with those that the level of the API asks for; a library that is
already compiled has no types to compare. Libraries are kept by a digest of all that they are made
of, in a folder of the user's own, because they are code.
"""

from __future__ import annotations

import hashlib
import itertools
import re
import subprocess
import tempfile
from pathlib import Path

from ipu_tf.poplar.libraries import installation, user_folder
from ipu_tf.poplar.toolchain import PROGRAM_FLAGS, Compiler, PoplarBuildError, find_compiler

SUFFIXES = (".cpp", ".cc", ".cxx")
"""What the names of sources end with."""

_FLAGS = (*PROGRAM_FLAGS, "-fPIC", "-shared")
_LEVEL = re.compile(r"custom_op_api_level\s*=\s*(\d+)")
_CONFLICT = "conflicting declaration of C function"
_NEWEST_LEVEL = 5

# Inputs of the functions may be constant or not: the documentation has both.
_DECLARATIONS = """\
#include <cstdint>
#include <map>
#include <string>
#include <vector>
#include <poplar/Graph.hpp>
#include <poplar/Program.hpp>
extern "C" {{
poplar::program::Program {name}(poplar::Graph&, {tensors}, std::vector<poplar::Tensor>&,
                                {attributes}const std::string&);
poplar::program::Program {name}_grad(poplar::Graph&, int, {of_gradient}, {of_gradient},
                                     {of_gradient},
                                     std::vector<poplar::Tensor>&, {attributes}const std::string&);
poplar::Tensor {name}_allocator(poplar::Graph&, std::uint32_t, const std::vector<std::size_t>&,
                                poplar::Type, {attributes}const std::string&);
void {name}_metadata({metadata});
void {name}_grad_metadata({metadata});
}}
"""

_TENSORS = ("const std::vector<poplar::Tensor>&", "std::vector<poplar::Tensor>&")
_INDICES = "std::vector<std::int64_t>&"
_ALIASES = "std::map<std::int64_t, std::int64_t>&"
_METADATA = {
    1: (_INDICES, "std::uint32_t&", "bool&", "bool&", "std::uint32_t"),
    2: (_INDICES, "std::uint32_t&", "bool&", "bool&", "std::uint32_t"),
    3: (_INDICES, _ALIASES, "bool&", "bool&", "std::uint32_t"),
    4: (_INDICES, _ALIASES, "bool&", "bool&", "bool&", "std::uint32_t"),
    5: (_INDICES, _INDICES, _ALIASES, "bool&", "bool&", "bool&", "std::uint32_t"),
}
"""The parameters of metadata functions by the level of the API."""


def compiled(source: Path, function: str) -> Path:
    """Returns the library of a source, compiled where it is missing.

    Args:
        source: The source.
        function: The name of the function that builds the op.

    Raises:
        PoplarBuildError: The compiler refuses it, or its functions are not those of the API.
    """
    place, compiler = installation(), find_compiler()
    words = [*_FLAGS, *place.compile_flags]
    text = _preprocessed(source, compiler, words)
    key = "\0".join((compiler.version, *words, str(place.prefix), function, text))
    folder = user_folder() / "user_ops"
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    library = folder / f"{source.stem}-{hashlib.sha256(key.encode()).hexdigest()[:20]}.so"
    if not library.is_file():
        with tempfile.TemporaryDirectory(dir=folder) as name:
            output = Path(name) / library.name
            _compile(source, function, _level(text), compiler, words, output)
            output.rename(library)
    return library


def _preprocessed(source: Path, compiler: Compiler, words: list[str]) -> str:
    command = [compiler.path, *words, "-E", str(source)]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode != 0:
        raise PoplarBuildError(f"{source} does not compile:\n{result.stderr.strip()}")
    return result.stdout


def _level(text: str) -> int:
    """Returns the level of the API that a source is written for; the newest if it names none."""
    match = _LEVEL.search(text)
    level = int(match[1]) if match else _NEWEST_LEVEL
    return level if level in _METADATA else _NEWEST_LEVEL  # Loading it refuses other levels.


def _compile(
    source: Path, function: str, level: int, compiler: Compiler, words: list[str], output: Path
) -> None:
    """Compiles a source behind declarations of the functions that it may define."""
    header = output.with_suffix(".hpp")
    links = [*installation().link_flags, "-o", str(output)]
    failure: PoplarBuildError | None = None
    for tensors, of_gradient in itertools.product(_TENSORS, _TENSORS):
        header.write_text(
            _DECLARATIONS.format(
                name=function,
                tensors=tensors,
                of_gradient=of_gradient,
                attributes="const std::string&, " if level > 1 else "",
                metadata=", ".join(_METADATA[level]),
            )
        )
        try:
            compiler.run([*words, "-include", str(header), str(source), *links], str(source))
            return
        except PoplarBuildError as error:
            if _CONFLICT not in str(error):
                raise
            failure = error
    raise PoplarBuildError(
        f"the functions of {source} are not those of level {level} of the API (docs/poplar.md):\n"
        f"{failure}"
    )
