"""Declarations of options: reads the annotations of a category class once, as data."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, ClassVar, TypeVar, cast

from ipu_tf.config.metadata import AttributeMetadata, matches_type, type_name

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """The declaration of one option.

    Attributes:
        default: Value in a fresh configuration.
        doc: The meaning of the option on the machine.
        effect: Its effect here; empty when it is accepted without effect.
        needs: Dotted name of the option without which it has none; empty if there is none.
    """

    default: object
    doc: str
    effect: str = ""
    needs: str = ""


def option(default: _T, doc: str, effect: str = "", needs: str = "") -> _T:
    """Declares an option of a category; see `Option` for the arguments."""
    # The class attribute is the declaration; that of an instance is a value.
    return cast(_T, Option(default=default, doc=doc, effect=effect, needs=needs))


class Declared:
    """Base of classes whose annotations declare options and sub-categories.

    The class attributes are read-only; a subclass gets its own.
    """

    _hints: ClassVar[Mapping[str, Any]] = MappingProxyType({})
    _options: ClassVar[Mapping[str, Option]] = MappingProxyType({})
    _categories: ClassVar[Mapping[str, Any]] = MappingProxyType({})
    _deprecations: ClassVar[Mapping[str, str]] = MappingProxyType({})
    _table: ClassVar[Mapping[str, AttributeMetadata]] = MappingProxyType({})

    def __init_subclass__(cls) -> None:
        own = inspect.get_annotations(cls, eval_str=True)
        hints = {**cls._hints, **{name: own[name] for name in own if not name.startswith("_")}}
        declared = {name: getattr(cls, name, None) for name in hints}
        options = {name: value for name, value in declared.items() if isinstance(value, Option)}
        categories = {name: hints[name] for name in hints if name not in options}
        cls._hints = MappingProxyType(hints)
        cls._options = MappingProxyType(options)
        cls._categories = MappingProxyType(categories)
        cls._table = _table(cls)


def attribute_table(root: type[Declared]) -> Mapping[str, AttributeMetadata]:
    """Returns the metadata of every option and category under a root, by dotted name."""
    return root._table


def _table(root: type[Declared]) -> Mapping[str, AttributeMetadata]:
    return MappingProxyType(dict(_attributes(root, "", None)))


def _attributes(
    category: type[Declared], prefix: str, inherited_msg: str | None
) -> Iterator[tuple[str, AttributeMetadata]]:
    for name, hint in category._hints.items():
        full_name = prefix + name
        depth = full_name.count(".") + 1
        deprecated_msg = category._deprecations.get(name, inherited_msg)
        declaration = category._options.get(name)
        if declaration is None:
            doc = inspect.getdoc(hint) or ""
            yield full_name, AttributeMetadata(full_name, doc, depth, None, deprecated_msg)
            yield from _attributes(hint, f"{full_name}.", deprecated_msg)
        else:
            yield (
                full_name,
                AttributeMetadata(
                    full_name,
                    declaration.doc,
                    depth,
                    declaration.default,
                    deprecated_msg,
                    hint,
                    type_name(hint),
                    functools.partial(matches_type, hint=hint),
                ),
            )


def option_declarations(category: type[Declared], prefix: str = "") -> Iterator[tuple[str, Option]]:
    """Yields the dotted name and the declaration of every option under a category class."""
    for name in category._hints:
        if name in category._categories:
            yield from option_declarations(category._categories[name], f"{prefix}{name}.")
        else:
            yield prefix + name, category._options[name]


_CategoryClass = TypeVar("_CategoryClass", bound=type[Declared])


def deprecate_config_attribute(name: str, msg: str) -> Callable[[_CategoryClass], _CategoryClass]:
    """Returns a class decorator that deprecates one option or category; see the plural."""
    return deprecate_config_attributes({name: msg})


def deprecate_config_attributes(
    to_deprecate: Mapping[str, str],
) -> Callable[[_CategoryClass], _CategoryClass]:
    """Returns a class decorator that deprecates options or categories of a category.

    Setting a deprecated option logs a warning. A category hands its deprecation down to
    everything in it that has none of its own.

    Args:
        to_deprecate: Advice on what to do instead, by the name of the option or category.

    Raises:
        ValueError: The decorated category has no attribute of a given name.
    """

    def decorate(cls: _CategoryClass) -> _CategoryClass:
        for name in to_deprecate:
            if name not in cls._hints:
                raise ValueError(
                    f"Cannot deprecate '{name}': {cls.__name__} has no such option or category."
                )
        cls._deprecations = MappingProxyType({**cls._deprecations, **to_deprecate})
        cls._table = _table(cls)
        return cls

    return decorate
