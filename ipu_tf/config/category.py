"""Categories: typed groups of options that check every assignment.

A category is a class whose annotated attributes are its options, written with `option`, and its
sub-categories, written as a bare annotation with another category. Instances hold the values.
"""

from __future__ import annotations

import copy
import dataclasses
import functools
import json
import logging
from collections.abc import Iterator, Mapping
from enum import Enum
from typing import Any, cast, get_args

from ipu_tf.base import codec
from ipu_tf.config.declaration import Declared, attribute_table
from ipu_tf.config.metadata import AttributeMetadata
from ipu_tf.config.poplar_options import data_type_name
from ipu_tf.config.suggest import suggestion

_log = logging.getLogger(__name__)


class UnknownOptionError(AttributeError, ValueError):
    """An option that does not exist was read or set.

    It is an AttributeError too, so that `hasattr` and `getattr` with a default work.
    """


class Category(Declared):
    """Base of the configuration and of its categories.

    Attributes are type-checked strictly on assignment; names that are not declared, and whole
    categories, cannot be assigned. Checks that involve several options run when the
    configuration is installed.
    """

    # State of an instance, kept beside the option values in its __dict__.
    _root: type[Declared]
    _prefix: str
    _assigned_names: set[str]

    def __init__(self) -> None:
        self._bind(type(self), "")

    def _bind(self, root: type[Category], prefix: str) -> None:
        """Fills in the defaults of this category and of those below it."""
        values: dict[str, Any] = {"_root": root, "_prefix": prefix, "_assigned_names": set()}
        for name, declaration in self._options.items():
            values[name] = copy.deepcopy(declaration.default)
        for name, category in self._categories.items():
            values[name] = category.__new__(category)
            values[name]._bind(root, f"{prefix}{name}.")
        self.__dict__.update(values)

    def __getattr__(self, name: str) -> Any:
        # Python calls this only for missing names. Protocols such as copy and pickle probe for
        # dunder names, also while an instance is still empty.
        if name.startswith("__") or "_root" not in self.__dict__:
            raise AttributeError(name)
        raise self._unknown(name)

    def __setattr__(self, name: str, value: Any) -> None:
        if name in self._categories:
            raise Exception(
                f"{self._prefix}{name} is a category and cannot be assigned to. "
                f"Set the options in it instead. Received: {value!r}."
            )
        if name not in self._options:
            raise self._unknown(name)
        metadata = attribute_table(self._root)[self._prefix + name]
        metadata.check_type(value)
        metadata.warn_if_deprecated()
        self.__dict__[name] = value
        self._assigned_names.add(name)

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"{self._prefix}{name} cannot be deleted from a configuration.")

    def _unknown(self, name: str) -> UnknownOptionError:
        advice = suggestion(self._prefix + name, attribute_table(self._root))
        message = f"'{name}' is not a valid attribute of this config.{advice}"
        # An object without a name keeps Python from adding a suggestion of its own.
        return UnknownOptionError(message, obj=self)

    def _option_values(self) -> Iterator[tuple[str, object]]:
        """Yields the dotted name and the value of every option, in the order of declaration."""
        for name in self._hints:
            if name in self._categories:
                yield from self.__dict__[name]._option_values()
            else:
                yield self._prefix + name, self.__dict__[name]

    def _owner(self, full_name: str) -> tuple[Category, str]:
        """Returns the category at or below this one that holds an option, and its last name."""
        *path, leaf = full_name.removeprefix(self._prefix).split(".")
        return functools.reduce(lambda node, part: node.__dict__[part], path, self), leaf

    def is_assigned(self, full_name: str) -> bool:
        """Returns whether an option was set, as opposed to left at its default.

        Args:
            full_name: Dotted name from the root of the configuration.
        """
        owner, leaf = self._owner(full_name)
        return leaf in owner._assigned_names

    def get_attribute_metadata(self, name: str) -> AttributeMetadata:
        """Returns the metadata of an option or a category.

        Args:
            name: Dotted name, relative to this category.

        Raises:
            ValueError: There is no such option or category.
        """
        table = attribute_table(self._root)
        if self._prefix + name not in table:
            advice = suggestion(self._prefix + name, table)
            raise ValueError(
                f"Could not get attribute metadata for '{name}': '{name}' is not a valid "
                f"attribute of this config.{advice}"
            )
        return table[self._prefix + name]

    def to_dict(self) -> dict[str, object]:
        """Returns every option by its dotted name as plain data.

        Enums become their numbers, targets and systems dictionaries of their fields, data types in
        Poplar's options their names.
        """
        table = attribute_table(self._root)
        return {name: _encode(table[name], value) for name, value in self._option_values()}

    def from_dict(self, values: Mapping[str, object]) -> None:
        """Takes over the values of a dictionary written by `to_dict`.

        A value that equals the default leaves an option that was never set counted as not set.
        Nothing is changed when an error is raised.

        Args:
            values: Options by their dotted names from the root; enums, targets and systems as
                `to_dict` writes them, or as they are.

        Raises:
            ValueError: An option does not exist, or an enum does not have that number, or a
                dictionary does not describe a target or a system.
            TypeError: A value is of the wrong type.
        """
        current = dict(self._option_values())
        table = attribute_table(self._root)
        for name in values:
            if name not in current:
                raise UnknownOptionError(
                    f"'{name}' is not a valid attribute of this config.{suggestion(name, current)}"
                )
        decoded = {name: _decode(table[name], value) for name, value in values.items()}
        for name, value in decoded.items():
            table[name].check_type(value)
        for name in current:
            if name not in decoded:
                _log.warning(
                    "%s is missing from the given options; it keeps its value %r.",
                    name,
                    current[name],
                )
            elif decoded[name] != current[name]:
                owner, leaf = self._owner(name)
                setattr(owner, leaf, copy.deepcopy(decoded[name]))

    def to_json(self) -> str:
        """Returns `to_dict()` as JSON text.

        Raises:
            TypeError: An option holds something that JSON does not have.
        """
        values = self.to_dict()
        for name, value in values.items():
            try:
                json.dumps(value)
            except TypeError as error:
                raise TypeError(
                    f"{name} cannot be written as JSON. Write texts, numbers, bools and data "
                    f"types. Received: {value!r}."
                ) from error
        return json.dumps(values, indent=2)

    def from_json(self, text: str) -> None:
        """Takes over the values of JSON text written by `to_json`; see `from_dict`."""
        self.from_dict(json.loads(text))

    def __str__(self) -> str:
        return "\n".join(f"{name} = {value!r}" for name, value in self._option_values())

    def __repr__(self) -> str:
        table = attribute_table(self._root)
        non_defaults = [f"{n}={v!r}" for n, v in self._option_values() if v != table[n].default]
        return f"{type(self).__name__}({', '.join(non_defaults)})"


def option_values(category: Category) -> Iterator[tuple[str, object]]:
    """Yields the dotted name and the value of every option at or below a category."""
    return category._option_values()


def option_value(category: Category, full_name: str) -> object:
    """Returns the value of an option at or below a category.

    Args:
        category: The category, or the whole configuration.
        full_name: Dotted name from the root of the configuration.
    """
    owner, leaf = category._owner(full_name)
    return getattr(owner, leaf)


def _encode(metadata: AttributeMetadata, value: object) -> object:
    """Returns an option's value as plain data."""
    if isinstance(value, Enum):
        return value.value
    if dataclasses.is_dataclass(value):
        return codec.encode(value, metadata.actual_type)
    if isinstance(value, dict):
        return {key: data_type_name(copy.deepcopy(entry)) for key, entry in value.items()}
    return copy.deepcopy(value)


def _decode(metadata: AttributeMetadata, value: object) -> object:
    """Returns a dictionary's value as the option takes it."""
    kind = metadata.actual_type
    if isinstance(value, dict) and any(map(dataclasses.is_dataclass, get_args(kind))):
        return codec.decode(cast(type[object], kind), value, metadata.name)
    if not (isinstance(kind, type) and issubclass(kind, Enum)) or isinstance(value, kind):
        return value
    try:
        return kind(value)
    except ValueError:
        choices = ", ".join(f"{member.value} ({member.name})" for member in kind)
        raise ValueError(
            f"{metadata.name} must be one of {choices}. Received: {value!r}."
        ) from None
