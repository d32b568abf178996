"""Finds objects of the user's code by `MODULE:NAME` or `FILE.py:NAME`."""

from __future__ import annotations

import contextlib
import difflib
import importlib
import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

from ipu_tf.base.source_names import defined_names, is_missing, names_of_module


class UsageError(Exception):
    """Bad input, as a message for the user."""


def is_path(text: str) -> bool:
    """Returns whether a text is of the form "module:name"."""
    module, _, name = text.rpartition(":")
    return bool(module and name)


def named(path: str, kind: str) -> object:
    """Returns the object named "module:name" or "file.py:name"; also finds modules of this folder.

    Args:
        path: A text that `is_path`; the name may be dotted.
        kind: The kind of object, for messages.

    Raises:
        UsageError: There is no such module, file or name, or it does not compile.
    """
    source, _, attribute = path.rpartition(":")
    is_file = source.endswith(".py")
    found_in_text(path, kind)
    with _python():
        value: object = _of_file(source, attribute) if is_file else _of_name(source)
    for part in attribute.split("."):
        value = getattr(value, part, None)
    if value is None:
        place = "file" if is_file else "module"
        raise UsageError(f"{place} '{source}' has no {kind} '{attribute}'.")
    return value


def found_in_text(path: str, kind: str) -> None:
    """Refuses a name that is not in the text of its file or module; runs nothing.

    Args:
        path: A text that `is_path`.
        kind: The kind of object, for messages.

    Raises:
        UsageError: There is no such file or module, it has no such name, or is not Python.
    """
    source, _, attribute = path.rpartition(":")
    with _python():
        if source.endswith(".py"):
            file = _existing(source, attribute)
            names = defined_names(file.read_bytes(), str(file))
        else:
            _check_dotted(source, attribute)
            _search_first("")  # This folder, as with `python -m`.
            if is_missing(source):
                raise _no_module(source)
            names = names_of_module(source)
    if names is not None and (name := attribute.partition(".")[0]) not in names:
        place = "file" if source.endswith(".py") else "module"
        close = difflib.get_close_matches(name, names, 1)
        advice = f" Did you mean '{close[0]}'?" if close else ""
        raise UsageError(f"{place} '{source}' has no {kind} '{attribute}'.{advice}")


@contextlib.contextmanager
def _python() -> Iterator[None]:
    """Turns errors of syntax into errors for users."""
    try:
        yield
    except SyntaxError as error:
        where = f"{error.filename}, line {error.lineno}"
        raise UsageError(f"{where} is not valid Python: {error.msg}. Correct it.") from error


def _existing(source: str, attribute: str) -> Path:
    if not Path(source).is_file():
        raise UsageError(f"there is no file '{source}'. Received: '{source}:{attribute}'.")
    return Path(source)


def _check_dotted(source: str, attribute: str) -> None:
    if source.startswith(".") or "/" in source:
        as_file, as_module = f"{source}.py", source.strip("./").replace("/", ".")
        better = as_file if Path(as_file).is_file() else as_module
        raise UsageError(
            f"name a module by its dotted name, or a file with its '.py'. Write "
            f"'{better}:{attribute}'. Received: '{source}:{attribute}'."
        )


def _no_module(source: str) -> UsageError:
    return UsageError(f"there is no module '{source}' here or among the installed packages.")


def _of_name(source: str) -> ModuleType:
    """Returns the module of a dotted name."""
    try:
        return importlib.import_module(source)
    except ModuleNotFoundError as error:
        if error.name is not None and f"{source}.".startswith(f"{error.name}."):
            raise _no_module(source) from error
        raise _lacking(f"module '{source}'", error) from error


def _of_file(source: str, attribute: str) -> ModuleType:
    """Returns the module of a file, which may import its neighbours, as a script may."""
    path = _existing(source, attribute)
    _search_first(str(path.resolve().parent))
    # Not the file's own name: an installed module may have it.
    spec = importlib.util.spec_from_file_location(f"user_file_{path.stem}", path.resolve())
    if spec is None or spec.loader is None:  # Cannot happen for files that end in ".py".
        raise UsageError(f"file '{source}' is not a Python file.")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # Dataclasses and pickle look for it there.
    try:
        spec.loader.exec_module(module)
    except ModuleNotFoundError as error:
        raise _lacking(f"file '{source}'", error) from error
    except ImportError as error:
        if "relative import" not in str(error):
            raise
        raise UsageError(
            f"file '{source}' imports from the package around it. Name it as a module of that "
            f"package: 'PACKAGE.{path.stem}:{attribute}'."
        ) from error
    return module


def _search_first(folder: str) -> None:
    if folder not in sys.path:
        sys.path.insert(0, folder)


def _lacking(importer: str, error: ModuleNotFoundError) -> UsageError:
    return UsageError(f"{importer} imports '{error.name}', which is not installed.")
