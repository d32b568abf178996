"""The rows of a table of spellings, and their notices."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field

from ipu_tf.internals.patches import Patch, Wrap

_LOG = logging.getLogger(__name__)


@dataclass(slots=True)
class Call:
    """A call of a method, before its library sees it.

    Attributes:
        owner: The object whose method is called.
        args: Its positional arguments, without the object.
        kwargs: Its keyword arguments.
    """

    owner: object
    args: tuple[object, ...]
    kwargs: dict[str, object]


Rewrite = Callable[[Call], bool]
"""Rewrites a call in place; returns whether it was spelled as in the earlier release."""

Notify = Callable[[], None]
"""Prints the notice of a spelling, the first time."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Spelling:
    """A spelling of an earlier release that today's library refuses or reads differently.

    Attributes:
        name: The spelling, as scripts write it; several are separated by commas.
        before: Its meaning in the earlier release, a sentence.
        here: Its meaning here, a sentence.
        rewrites: Rewrites of the arguments of methods.
        wraps: Replacements of methods: the factory of each, given the notice.
        context: Opens what else has to be in force, given the notice; None for nothing.
    """

    name: str
    before: str
    here: str
    rewrites: Mapping[Patch, Rewrite] = field(default_factory=dict)
    wraps: Mapping[Patch, Callable[[Notify], Wrap]] = field(default_factory=dict)
    context: Callable[[Notify], AbstractContextManager[None]] | None = None

    @property
    def notice(self) -> str:
        """The text that a script's first use logs."""
        return f"An earlier spelling, {self.name}: {self.here}"


class Notices:
    """Logs the notice of each spelling once."""

    def __init__(self) -> None:
        self._texts: set[str] = set()

    def of(self, spelling: Spelling) -> Notify:
        """Returns the function that logs a spelling's notice the first time."""

        def notify() -> None:
            if spelling.name not in self._texts:
                self._texts.add(spelling.name)
                _LOG.warning("%s", spelling.notice)

        return notify
