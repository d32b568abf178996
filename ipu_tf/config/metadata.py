"""The metadata of one option or category, and the strict type rule of options."""

from __future__ import annotations

import logging
import types
import typing
from collections.abc import Callable

_log = logging.getLogger(__name__)

NO_DESCRIPTION = "No description provided."


def matches_type(value: object, hint: object) -> bool:
    """Returns whether `value` is exactly of the type `hint`, its elements included.

    Subclasses do not count, so True is not an int and 1 is not a float.

    Args:
        value: Any value.
        hint: A class, a union, or a list or tuple of these (`list[int]`, `typing.Tuple[str]`).
    """
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        return any(matches_type(value, choice) for choice in arguments)
    if origin is list:
        return type(value) is list and all(matches_type(item, arguments[0]) for item in value)
    if origin is tuple:
        if type(value) is not tuple:
            return False
        if len(arguments) == 2 and arguments[1] is Ellipsis:
            return all(matches_type(item, arguments[0]) for item in value)
        return len(value) == len(arguments) and all(map(matches_type, value, arguments))
    return type(value) is hint


def type_name(hint: object) -> str:
    """Returns a type hint as a reader would write it."""
    if isinstance(hint, types.UnionType):
        return " | ".join(map(type_name, typing.get_args(hint)))
    if isinstance(hint, type) and typing.get_origin(hint) is None:
        return hint.__name__
    return str(hint)


class AttributeMetadata:
    """Name, type, default and description of one option or category.

    Attributes:
        __doc__: The meaning of the option, with a note when it is deprecated.
    """

    def __init__(
        self,
        name: str,
        doc: str = "",
        depth: int = 0,
        default: object = None,
        deprecated_msg: str | None = None,
        attr_type: object = None,
        attr_type_str: str | None = None,
        check_type_fn: Callable[[object], bool] = lambda v: True,
    ) -> None:
        self._name = name
        self._depth = depth
        self._default = default
        self._deprecated_msg = deprecated_msg
        self._type = attr_type
        self._type_str = attr_type_str
        self._check_type_fn = check_type_fn
        note = f"DEPRECATED: {deprecated_msg}\n" if deprecated_msg is not None else ""
        self.__doc__ = note + (doc or NO_DESCRIPTION)

    @property
    def name(self) -> str:
        """Full dotted name from the root of the configuration."""
        return self._name

    @property
    def depth(self) -> int:
        """Number of names in the dotted name."""
        return self._depth

    @property
    def deprecated(self) -> bool:
        """Whether the option, or a category around it, is deprecated."""
        return self._deprecated_msg is not None

    @property
    def deprecated_msg(self) -> str | None:
        """The advice for a deprecated option, else None."""
        return self._deprecated_msg

    @property
    def type(self) -> str | None:
        """The type in words, or None for a category."""
        return self._type_str

    @property
    def actual_type(self) -> object:
        """The type as a type hint, or None for a category."""
        return self._type

    @property
    def default(self) -> object:
        """The value of a fresh configuration, or None for a category."""
        return self._default

    def check_type(self, value: object) -> None:
        """Checks the type of a value strictly.

        Raises:
            TypeError: `value` is of another type.
        """
        if self._check_type_fn(value):
            return
        advice = ""
        if (
            type(value) is bool
            and isinstance(self._type, type)
            and hasattr(self._type, "from_bool")
        ):
            advice = f" Use {self._type.__name__}.from_bool(...) to set it from a bool."
        raise TypeError(
            f"Trying to set {self._name} to {value!r}, but it must be of type {self._type_str}."
            f"{advice} Received: {type(value).__name__}."
        )

    def warn_if_deprecated(self) -> None:
        """Logs a warning when the option is deprecated."""
        if self.deprecated:
            _log.warning("%s has been deprecated: %s", self._name, self._deprecated_msg)

    def __repr__(self) -> str:
        return f"AttributeMetadata(name={self._name!r}, type={self._type_str!r})"
