"""The rows of the table of Keras 2 spellings, and their notices."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any

from ipu_tf.internals.patches import Patch, Wrap

_LOG = logging.getLogger("ipu_tf.compat.keras2")


@dataclass(slots=True)
class Call:
    """A call of a method of Keras, before Keras sees it.

    Attributes:
        owner: The object whose method is called.
        args: Its positional arguments, without the object.
        kwargs: Its keyword arguments.
    """

    owner: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]


Rewrite = Callable[[Call], bool]
"""Rewrites a call in place; returns whether it was spelled as in Keras 2."""

Notify = Callable[[], None]
"""Prints the notice of a spelling, the first time."""

Provider = Callable[[], Any]
"""Returns the object of a name that Keras 3 lacks."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Spelling:
    """A spelling of Keras 2 that Keras 3 refuses or reads differently.

    Attributes:
        name: The spelling, as scripts write it; several are separated by commas.
        keras_2: Its meaning in Keras 2, a sentence.
        here: Its meaning here, a sentence.
        is_kept: Whether the meaning of Keras 2 is kept.
        rewrites: Rewrites of the arguments of methods.
        wraps: Replacements of methods: the factory of each, given the notice.
        names: Names that modules of Keras lack, by module relative to `keras`, "" for itself.
            A module that does not exist is made.
        context: Opens what else has to be in force, given the notice; None for nothing.
        replaces_names: Whether the names replace those that Keras 3 has in these modules.
        notes_names: Whether finding a name is a use of the spelling, to be noted.
    """

    name: str
    keras_2: str
    here: str
    is_kept: bool = True
    rewrites: Mapping[Patch, Rewrite] = field(default_factory=dict)
    wraps: Mapping[Patch, Callable[[Notify], Wrap]] = field(default_factory=dict)
    names: Mapping[str, Mapping[str, Provider]] = field(default_factory=dict)
    context: Callable[[Notify], AbstractContextManager[None]] | None = None
    replaces_names: bool = False
    notes_names: bool = True

    @property
    def notice(self) -> str:
        """The text that a script's first use logs."""
        kept = "" if self.is_kept else " This is not the meaning of Keras 2."
        return f"Keras 2 spelling, {self.name}: {self.here}{kept}"


class Notices:
    """Logs the notice of each spelling once."""

    def __init__(self) -> None:
        self._given: set[str] = set()

    def of(self, spelling: Spelling) -> Notify:
        """Returns the function that logs a spelling's notice the first time."""

        def notify() -> None:
            if spelling.name not in self._given:
                self._given.add(spelling.name)
                _LOG.warning("%s", spelling.notice)

        return notify


def called_by_library() -> bool:
    """Returns whether Keras, TensorFlow or this package called the function, and not a script."""
    frame = inspect.currentframe()
    for _ in range(2):
        frame = frame and frame.f_back
    name = frame.f_globals.get("__name__", "") if frame else ""
    return str(name).startswith(("keras.", "tensorflow.", "ipu_tf."))


def called_by_script() -> bool:
    """Returns whether a script called the method of Keras whose replacement asks.

    AutoGraph and the replacements of methods stand between the two.
    """
    frame = inspect.currentframe()
    between = (
        "ipu_tf.compat.keras2.",
        "ipu_tf.compat.spellings.",
        "tensorflow.python.autograph.",
    )
    while frame is not None and str(frame.f_globals.get("__name__", "")).startswith(between):
        frame = frame.f_back
    name = str(frame.f_globals.get("__name__", "")) if frame else ""
    return not name.startswith(("keras.", "tensorflow.", "ipu_tf."))
