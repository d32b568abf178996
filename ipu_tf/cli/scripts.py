"""A script, or a module, that `ipu-tf run` runs: its text, and its command line."""

from __future__ import annotations

import contextlib
import importlib.util
import sys
import traceback
from collections.abc import Iterator, Sequence
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path

from ipu_tf.base.user_objects import UsageError


def source_of(script: str, is_module: bool) -> str | bytes:
    """Returns the text of a script or a module; none of it, nor of its packages, has run then.

    Raises:
        UsageError: There is none, or it is a program that starts processes.
    """
    if is_module:
        return _source_of_module(script)
    if Path(script).name in ("poprun", "mpirun", "mpiexec"):
        raise UsageError(
            f"{script} starts processes, each of which is to run the script. Turn it round: poprun "
            "--num-instances=N --num-replicas=R ipu-tf run SCRIPT"
        )
    if not Path(script).is_file():
        raise UsageError(f"there is no script '{script}'.")
    return Path(script).read_bytes()


def _source_of_module(name: str) -> str:
    """Returns the text of a module, that of `__main__` for a package; "" for one without a text."""
    with command_line(name, (), is_module=True):
        spec = _spec(name)
        if spec is not None and spec.submodule_search_locations is not None:
            spec = _spec(f"{name}.__main__") or spec
    if spec is None:
        raise UsageError(f"there is no module '{name}'.")
    get_source = getattr(spec.loader, "get_source", lambda name: None)
    return get_source(spec.name) or ""


def _spec(name: str) -> ModuleSpec | None:
    """Returns where a module is. Python's own function imports the packages around it."""
    first, *inner_names = name.split(".")
    spec = importlib.util.find_spec(first)
    for inner_name in inner_names:
        if spec is None or spec.submodule_search_locations is None:
            return None
        spec = PathFinder.find_spec(f"{spec.name}.{inner_name}", spec.submodule_search_locations)
    return spec


def is_python(source: str | bytes, script: str) -> bool:
    """Returns whether a script can be parsed; prints the error if not, before all else loads."""
    try:
        compile(source, script, "exec", dont_inherit=True)
    except SyntaxError as error:
        traceback.print_exception(error.with_traceback(None))
        return False
    return True


@contextlib.contextmanager
def command_line(script: str, arguments: Sequence[str], is_module: bool) -> Iterator[None]:
    """Gives a script the words of its command line, and the folder that it imports from."""
    argv, path = sys.argv, sys.path
    sys.argv = [script, *arguments]
    # Where Python begins to search; in front of us stands the folder of the command.
    first = Path.cwd() if is_module else Path(script).resolve().parent
    sys.path = [str(first), *path[1:]]
    try:
        yield
    finally:
        sys.argv, sys.path = argv, path
