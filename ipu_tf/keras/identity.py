"""The Keras class that a model reports as its own, and the bases of functional classes."""

from __future__ import annotations

import threading
import types
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar
from weakref import WeakValueDictionary

import keras

_lock = threading.RLock()
_twins: WeakValueDictionary[type, type] = WeakValueDictionary()


class KerasIdentity:
    """Makes a model report the Keras class that its own class stands for.

    `type(model)` is the IPU class, `model.__class__` the stock one, and `isinstance` holds for
    both. Keras and its users read `__class__` to find a model's class: for the name in a file, to
    clone a model, in `super(self.__class__, self)`. So files hold the stock names, and a copy
    made outside of the scope is a stock model.
    """

    _stands_for: ClassVar[type[keras.Model] | None] = None

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        # Not inherited: a user's subclass of ours stands for itself, also in files.
        return type(self).__dict__.get("_stands_for") or type(self)

    def __reduce__(self) -> tuple[Any, ...]:
        # The stock method names type(self), which pickle would not find under its name.
        reduction: Any = super().__reduce__()
        restore, arguments = reduction
        return getattr(self.__class__, restore.__name__), arguments


def class_stood_for(cls: type[KerasIdentity]) -> type:
    """Returns the Keras class that an IPU model class stands for; a user's class is itself."""
    return cls._stands_for or cls


def ipu_class(cls: type, bases: Sequence[type[KerasIdentity]]) -> type:
    """Returns the class of IPU models that stands for a class of models of a Keras.

    Args:
        cls: A class of the Keras, or a user's.
        bases: Our classes, each after those whose Keras classes are subclasses of its own.

    Returns:
        One of `bases`, or for a user's class a subclass of both under the user's name, in which the
            user's methods come before ours.
    """
    for base in bases:
        if cls is class_stood_for(base):
            return base
    with _lock:
        twin = _twins.get(cls)
        if twin is None:
            base = next(base for base in bases if issubclass(cls, class_stood_for(base)))
            twin = _twins[cls] = _twin_of(cls, base)
        return twin


def _twin_of(cls: type, base: type) -> type:
    body = {
        "__module__": cls.__module__,
        "__qualname__": cls.__qualname__,
        "__doc__": cls.__doc__,
        "_stands_for": cls,
    }
    return types.new_class(
        cls.__name__, (_Unannounced, cls, base), exec_body=lambda namespace: namespace.update(body)
    )


class _Unannounced:
    """Hides a class that the user did not write from the user's `__init_subclass__`."""

    def __init_subclass__(cls) -> None:
        pass


def add_functional_base(cls: type, replacements: Mapping[type, type]) -> type:
    """Makes a model class functional after its constructor turned out to build a functional model.

    Args:
        cls: A class of models. The bases of the classes from it up to the replaced ones change.
        replacements: The functional twin of each base class.

    Returns:
        The class to use in place of `cls`.
    """
    if cls in replacements:
        return replacements[cls]
    is_between = issubclass(cls, tuple(replacements))
    if is_between and not issubclass(cls, tuple(replacements.values())):
        cls.__bases__ = tuple(add_functional_base(base, replacements) for base in cls.__bases__)
    return cls
