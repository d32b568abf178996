"""The command line of a program, so that its failure ends its instance at once."""

from __future__ import annotations

import re
import shlex
import shutil
from collections.abc import Sequence
from pathlib import Path

from ipu_tf.base.user_objects import UsageError

_RUNNER = str(Path(__file__).with_name("python_program.py"))
_OPTIONS = re.compile("-([a-zA-Z]*?)([WXmc])(.*)", re.DOTALL)
"""Options of Python in one word: flags, and one that takes the rest or the next word."""

_LONGEST_FIRST_LINE = 256


def program_command(words: Sequence[str]) -> list[str]:
    """Returns the command line that runs a program as an instance; others than Python's stay.

    Args:
        words: The words of the program's own command line.

    Raises:
        UsageError: There is no such program, or it would be poprun again.
    """
    program, *arguments = words
    path = shutil.which(program)
    if path is None:
        raise UsageError(
            f"there is no program '{program}' on PATH. Name the program first, then its words: "
            "poprun [options] python3 script.py"
        )
    if Path(path).name == "poprun":
        raise UsageError("the program is poprun itself. Start poprun once.")
    if Path(path).name.startswith("python"):
        return [path, *_python_words(arguments)]
    interpreter = _interpreter(path)
    return [*interpreter, _RUNNER, path, *arguments] if interpreter else [path, *arguments]


def script_of(words: Sequence[str]) -> str:
    """Returns the first file among the words of a command line after the program, "" for none."""
    return next((word for word in words[1:] if Path(word).is_file()), "")


def _python_words(arguments: Sequence[str]) -> list[str]:
    """Returns the arguments of Python with our runner before the script, module or command."""
    options, tail = list[str](), list(arguments)
    while tail and tail[0].startswith("-") and tail[0] != "-":
        word = tail.pop(0)
        match = _OPTIONS.fullmatch(word)
        if match is None:
            options.append(word)
            continue
        flags, option, value = match.groups()
        values = [value] if value else tail[:1]
        if option in "WX":
            options += [word] if value else [word, *values]
            tail = tail if value else tail[1:]
            continue
        # The module or the command, after which all words are its own.
        before = [*options, f"-{flags}"] if flags else options
        return [*before, _RUNNER, f"-{option}", *values, *(tail if value else tail[1:])]
    return [*options, _RUNNER, *tail] if tail and tail[0] != "-" else list(arguments)


def _interpreter(path: str) -> list[str]:
    """Returns the Python that the first line of a script names, with its options."""
    try:
        with Path(path).open("rb") as file:
            line = file.readline(_LONGEST_FIRST_LINE)
    except OSError:
        return []
    if not line.startswith(b"#!"):
        return []
    words = shlex.split(line[2:].decode(errors="replace"))
    if words and Path(words[0]).name == "env":
        interpreter = shutil.which(words[1]) if len(words) > 1 else None
        words = [interpreter or words[0], *words[2:]]
    return words if words and Path(words[0]).name.startswith("python") else []
