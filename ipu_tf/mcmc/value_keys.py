"""Keys of functions and values: where keys are equal, a trace of one is a trace of the other.

A key holds what a trace can depend on: code, closures, defaults, the globals that the code names,
and the numbers in arrays, as they are when the key is made. Functions, classes and modules of
installed libraries are keys themselves. What a function reads elsewhere, such as files, is in none.
"""

from __future__ import annotations

import builtins
import dis
import enum
import functools
import hashlib
import sys
import sysconfig
import types
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow_probability as tfp

from ipu_tf.internals.graphs import is_eager

_PLAIN = (type(None), bool, int, str, bytes, tf.DType)
_BY_IDENTITY = (enum.Enum, np.ufunc, tf.Variable)
_WITH_PARAMETERS = (
    tfp.mcmc.TransitionKernel,
    tfp.distributions.Distribution,
    tfp.bijectors.Bijector,
)
_PINNED = tfp.experimental.distributions.JointDistributionPinned
_OF_NAMED_TUPLES = {"__new__", "__repr__", "__getnewargs__", "_make", "_replace", "_asdict"}
_FOLDERS = (
    Path(__file__).resolve().parents[1],
    *(Path(sysconfig.get_path(name)).resolve() for name in ("stdlib", "purelib", "platlib")),
)


class NoKey(Exception):
    """A trace may depend on what is not seen of a value."""


class _Same:
    """A key that equals those of the same object, which it keeps."""

    __slots__ = ("_value",)

    def __init__(self, value: object) -> None:
        self._value = value

    def __hash__(self) -> int:
        return id(self._value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and other._value is self._value


def key_of(value: tf.Tensor) -> Hashable:
    """Returns the key of a value.

    Raises:
        NoKey: It has none: an object of a class of the user's, a list that holds itself, ...
    """
    try:
        return _Reader().key(value)
    except RecursionError:
        raise NoKey("it holds itself") from None


class _Reader:
    """Makes one key; functions that lead back to themselves are read once."""

    def __init__(self) -> None:
        self._read: dict[int, int] = {}

    def key(self, value: Any) -> Hashable:
        kind = type(value)
        if kind in _PLAIN:
            return kind, value
        for is_of, read in _READERS:
            if is_of(value):
                return kind, read(self, value)
        raise NoKey(f"{kind.__name__}")

    def keys(self, values: Iterable[Any]) -> Hashable:
        return tuple(self.key(value) for value in values)

    def mapping(self, values: Mapping[Any, Any]) -> Hashable:
        return tuple((self.key(name), self.key(value)) for name, value in values.items())

    def function(self, function: types.FunctionType) -> Hashable:
        if id(function) in self._read:
            return "again", self._read[id(function)]
        self._read[id(function)] = len(self._read)
        code, is_library = function.__code__, _is_of_library(function.__code__.co_filename)
        if is_library and "<locals>" not in function.__qualname__ and not function.__closure__:
            return _Same(function)
        names = () if is_library else sorted(_global_names(code))
        return (
            code,
            self.keys(function.__defaults__ or ()),
            self.mapping(function.__kwdefaults__ or {}),
            tuple(self.cell(cell) for cell in function.__closure__ or ()),
            tuple((name, self.global_key(name, function)) for name in names),
            self.mapping({} if is_library else vars(function)),
        )

    def cell(self, cell: types.CellType) -> Hashable:
        try:
            contents = cell.cell_contents
        except ValueError:
            return "empty"
        return self.key(contents)

    def global_key(self, name: str, function: types.FunctionType) -> Hashable:
        """Returns the key of a global, or of what a function uses of a module of the user's."""
        if name not in function.__globals__:
            return _Same(getattr(builtins, name, None))
        value = function.__globals__[name]
        if not isinstance(value, types.ModuleType) or _is_library_module(value.__name__):
            return self.key(value)
        if "__getattr__" in vars(value):
            raise NoKey(name)
        names = sorted(_attributes(function.__code__) & vars(value).keys())
        return _Same(value), tuple((one, self.key(vars(value)[one])) for one in names)

    def of_class(self, value: type) -> Hashable:
        own = {name for name, part in vars(value).items() if isinstance(part, types.FunctionType)}
        is_named_tuple = value.__bases__ == (tuple,) and hasattr(value, "_fields")
        if not _is_library_module(value.__module__) and not (
            is_named_tuple and own <= _OF_NAMED_TUPLES
        ):
            raise NoKey(value.__name__)
        return _Same(value)

    def with_parameters(self, value: Any) -> Hashable:
        return self.of_class(type(value)), self.mapping(value.parameters)


def _array(_: _Reader, value: Any) -> Hashable:
    array = np.asarray(value)
    if array.dtype.hasobject:
        raise NoKey("objects in an array")
    return str(array.dtype), array.shape, hashlib.sha256(array.tobytes()).hexdigest()


def _tensor(reader: _Reader, value: tf.Tensor) -> Hashable:
    is_number = value.dtype.is_numpy_compatible and value.dtype != tf.string
    return _array(reader, value.numpy()) if is_number else _Same(value)


_READERS: tuple[tuple[Callable[[Any], bool], Callable[[_Reader, Any], Hashable]], ...] = (
    (lambda value: isinstance(value, types.FunctionType), _Reader.function),
    (
        lambda value: isinstance(value, types.MethodType),
        lambda reader, value: (reader.key(value.__func__), reader.key(value.__self__)),
    ),
    (
        lambda value: type(value) is functools.partial,
        lambda reader, value: (
            reader.key(value.func),
            reader.keys(value.args),
            reader.mapping(value.keywords),
        ),
    ),
    (
        lambda value: isinstance(value, tf.types.experimental.PolymorphicFunction),
        lambda reader, value: (_Same(value), reader.key(value.python_function)),
    ),
    (
        lambda value: (
            isinstance(value, types.BuiltinFunctionType)
            and isinstance(value.__self__, types.ModuleType | None)
        ),
        lambda reader, value: _Same(value),
    ),
    (
        lambda value: isinstance(value, types.ModuleType) and _is_library_module(value.__name__),
        lambda reader, value: _Same(value),
    ),
    (lambda value: isinstance(value, type), _Reader.of_class),
    (lambda value: isinstance(value, _BY_IDENTITY), lambda reader, value: _Same(value)),
    (lambda value: type(value) in (tuple, list), _Reader.keys),
    (lambda value: type(value) is dict, _Reader.mapping),
    (
        lambda value: isinstance(value, tuple) and hasattr(value, "_fields"),
        lambda reader, value: (reader.of_class(type(value)), reader.keys(value)),
    ),
    (lambda value: type(value) is float, lambda reader, value: value.hex()),
    (
        lambda value: type(value) is complex,
        lambda reader, value: (value.real.hex(), value.imag.hex()),
    ),
    (lambda value: type(value) is np.ndarray or isinstance(value, np.generic), _array),
    (lambda value: isinstance(value, tf.Tensor) and is_eager(value), _tensor),
    (lambda value: isinstance(value, tf.TensorShape), lambda reader, value: repr(value)),
    (
        lambda value: isinstance(value, _PINNED),
        lambda reader, value: (reader.key(value.distribution), reader.mapping(dict(value.pins))),
    ),
    (lambda value: isinstance(value, _WITH_PARAMETERS), _Reader.with_parameters),
)
"""What makes the key of a value, with the type of which it is."""


def _codes(code: types.CodeType) -> Iterator[types.CodeType]:
    """Yields a function's code and that of the functions in it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _codes(constant)


def _global_names(code: types.CodeType) -> set[str]:
    """Returns the names of the globals that a function reads.

    Raises:
        NoKey: It imports a module of the user's, whose parts are not seen.
    """
    names = set()
    for part in _codes(code):
        for instruction in dis.get_instructions(part):
            if instruction.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
                names.add(instruction.argval)
            if instruction.opname == "IMPORT_NAME" and not _is_library_module(instruction.argval):
                raise NoKey(instruction.argval)
    return names


def _attributes(code: types.CodeType) -> set[str]:
    return {name for part in _codes(code) for name in part.co_names}


def _is_library_module(name: str) -> bool:
    root = name.partition(".")[0]
    file = getattr(sys.modules.get(root), "__file__", None)
    return root in sys.builtin_module_names or (file is not None and _is_of_library(file))


@functools.cache
def _is_of_library(file: str) -> bool:
    """Returns whether a file is installed, or a part of Python or of this package."""
    path = Path(file).resolve()
    return any(path.is_relative_to(folder) for folder in _FOLDERS)
