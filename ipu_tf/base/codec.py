"""Converts dataclasses to plain data and back, by the types of their fields.

Plain data is the content of JSON: objects, lists, strings, numbers, booleans, null. A file cannot
create anything else: the codec loads only the classes that a field's type lists.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import math
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, Literal, TypeAlias, TypeVar, Union

import numpy as np

_T = TypeVar("_T")

_KIND = "type"
"""Key that names the class, where a field may hold more than one."""

NOT_IN_FILES: Mapping[str, bool] = types.MappingProxyType({"in_files": False})
"""Metadata of fields that the codec leaves out; they need a default."""

_LARGEST = 2**63 - 1
"""Numbers of files are in the range of 64-bit integers, as those of arrays are."""

AnyFloat: TypeAlias = Annotated[float, "any size"]
"""A float of a field that may also be beyond that range, NaN or infinite: JSON has no numbers for
the last two, so files hold their names, "nan", "inf" and "-inf"."""


PlainData: TypeAlias = "str | int | float | bool | list[PlainData] | dict[str, PlainData] | None"
"""The content of JSON."""


class CodecError(ValueError):
    """Plain data that does not describe a value of the wanted type."""


def encode(value: object, hint: object = None) -> PlainData:
    """Returns a value as plain data.

    Args:
        value: A dataclass, or a value of its fields: numbers, strings, None, mappings by string,
            sequences, integer arrays.
        hint: The type to read it as. If it lists several dataclasses, the data also names the
            value's class.

    Raises:
        TypeError: A value of another kind.
    """
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        plain: dict[str, PlainData] = {
            name: encode(getattr(value, name), of_field)
            for name, of_field in _hints(type(value)).items()
        }
        return {_KIND: type(value).__name__, **plain} if len(_classes(hint)) > 1 else plain
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if value is None or isinstance(value, str | bool | int | float):
        return value
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, Mapping):
        return {str(key): encode(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return list(value) if _are_ints(value) else [encode(entry) for entry in value]
    raise TypeError(f"Files hold plain data only. Received: {type(value).__name__}.")


def decode(type_: type[_T], data: object, path: str = "") -> _T:
    """Returns the value, of a given type, that plain data describes.

    Args:
        type_: The type: a dataclass, or the type of a field of one.
        data: Plain data.
        path: Where the data stands, for messages.

    Raises:
        CodecError: It describes no such value; the message says where, and what was expected.
    """
    value: _T = _decode(type_, data, path)
    return value


@functools.cache
def _hints(cls: type) -> dict[str, Any]:
    hints = typing.get_type_hints(cls, include_extras=True)
    fields = (field for field in dataclasses.fields(cls) if field.metadata.get("in_files", True))
    return {field.name: hints[field.name] for field in fields}


def _alternatives(hint: Any) -> tuple[Any, ...]:
    if typing.get_origin(hint) in (Union, types.UnionType):
        return typing.get_args(hint)
    return (hint,)


def _classes(hint: Any) -> dict[str, type]:
    classes: list[Any] = [cls for cls in _alternatives(hint) if dataclasses.is_dataclass(cls)]
    return {cls.__name__: cls for cls in classes}


def _decode(hint: Any, data: Any, path: str) -> Any:
    if len(_alternatives(hint)) > 1:
        return _decode_union(hint, data, path)
    if dataclasses.is_dataclass(hint):
        return _decode_dataclass(hint, data, path)
    origin = typing.get_origin(hint) or hint
    decoder = _DECODERS.get(origin)
    if decoder is None:
        raise CodecError(f"{path}: values of type {hint!r} cannot be read from a file.")
    return decoder(typing.get_args(hint), data, path)


def _decode_union(hint: Any, data: Any, path: str) -> Any:
    if data is None and type(None) in _alternatives(hint):
        return None
    classes, hints = _classes(hint), [one for one in _alternatives(hint) if one is not type(None)]
    plain = [one for one in hints if not dataclasses.is_dataclass(one)]
    if len(plain) == 1 and not (classes and isinstance(data, dict)):
        return _decode(plain[0], data, path)
    if len(classes) == 1:
        return _decode_dataclass(next(iter(classes.values())), data, path)
    entries = dict(_object(data, path))
    kind = entries.pop(_KIND, None)
    if not isinstance(kind, str) or kind not in classes:
        raise _wrong(f'an object with "{_KIND}" {" or ".join(map(repr, classes))}', kind, path)
    return _decode_dataclass(classes[kind], entries, path)


def _decode_dataclass(cls: Any, data: Any, path: str) -> Any:
    entries, hints = _object(data, path), _hints(cls)
    required = {
        field.name
        for field in dataclasses.fields(cls)
        if field.default is field.default_factory is dataclasses.MISSING
    }
    absent, unknown = required - entries.keys(), entries.keys() - hints.keys()
    if absent or unknown:
        problem, names = ("lacks", absent) if absent else ("has no field", unknown)
        raise CodecError(
            f"{path or 'top level'}: {cls.__name__} {problem} {', '.join(sorted(names))}."
        )
    values = {name: _decode(hints[name], entries[name], f"{path}.{name}") for name in entries}
    try:
        return cls(**values)
    except ValueError as error:
        raise CodecError(f"{path}: {error}") from None


def _scalar(*accepted: type) -> Callable[[tuple[Any, ...], Any, str], Any]:
    names = " or ".join(cls.__name__ for cls in accepted)

    def decode_scalar(arguments: tuple[Any, ...], data: Any, path: str) -> Any:
        del arguments
        # A bool is an int to Python, but not in a file.
        if not isinstance(data, accepted) or (isinstance(data, bool) and bool not in accepted):
            raise _wrong(names, data, path)
        if isinstance(data, int | float) and abs(data) > _LARGEST:
            raise _wrong(f"{names} of less than 2**63", data, path)
        return data

    return decode_scalar


def _decode_any_float(arguments: tuple[Any, ...], data: Any, path: str) -> float:
    del arguments
    is_number = isinstance(data, int | float) and not isinstance(data, bool)
    if is_number or data in ("nan", "inf", "-inf"):
        with contextlib.suppress(OverflowError):
            return float(data)
    raise _wrong('a number, "nan", "inf" or "-inf"', data, path)


def _decode_literal(choices: tuple[Any, ...], data: Any, path: str) -> Any:
    if data not in choices:
        raise _wrong(f"one of {', '.join(map(repr, choices))}", data, path)
    return data


def _decode_sequence(
    make: Callable[[Any], Any], arguments: tuple[Any, ...], data: Any, path: str
) -> Any:
    if not isinstance(data, list):
        raise _wrong("a list", data, path)
    if arguments[-1] is Ellipsis or len(arguments) == 1:
        arguments = (arguments[0],) * len(data)
    if len(arguments) != len(data):
        raise _wrong(f"a list of {len(arguments)}", data, path)
    if set(arguments) == {int} and _are_ints(data) and max(map(abs, data)) <= _LARGEST:
        return make(data)
    pairs = zip(arguments, data, strict=True)
    return make(_decode(hint, entry, f"{path}[{i}]") for i, (hint, entry) in enumerate(pairs))


def _decode_mapping(arguments: tuple[Any, ...], data: Any, path: str) -> Any:
    key, value = arguments
    return {
        _decode(key, name, f"{path}: key"): _decode(value, entry, f"{path}.{name}")
        for name, entry in _object(data, path).items()
    }


def _decode_array(arguments: tuple[Any, ...], data: Any, path: str) -> Any:
    del arguments
    if not isinstance(data, list) or not (_are_ints(data) or data == []):
        raise _wrong("a list of integers", data, path)
    try:
        return np.array(data, np.int64)
    except OverflowError:
        raise _wrong("integers of at most 64 bits", data, path) from None


_DECODERS: dict[Any, Callable[[tuple[Any, ...], Any, str], Any]] = {
    str: _scalar(str),
    bool: _scalar(bool),
    int: _scalar(int),
    float: _scalar(float, int),
    Annotated: _decode_any_float,
    Literal: _decode_literal,
    tuple: functools.partial(_decode_sequence, tuple),
    list: functools.partial(_decode_sequence, list),
    Mapping: _decode_mapping,
    dict: _decode_mapping,
    np.ndarray: _decode_array,
}


def _are_ints(entries: Sequence[Any]) -> bool:
    """Returns whether there are entries, all of them ints and no bools: files have long lists."""
    return set(map(type, entries)) == {int}


def _object(data: Any, path: str) -> Mapping[str, Any]:
    if not isinstance(data, dict):
        raise _wrong("an object", data, path)
    return data


def _wrong(expected: str, data: Any, path: str) -> CodecError:
    text = repr(data)
    if len(text) > 80:
        text = text[:77] + "..."
    return CodecError(f"{path or 'top level'}: expected {expected}. Received: {text}.")
