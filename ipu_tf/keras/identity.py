"""The Keras class that a model reports as its own, and the bases of functional classes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import keras


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
        reduced: Any = super().__reduce__()
        restore, arguments = reduced
        return getattr(self.__class__, restore.__name__), arguments


def class_stood_for(cls: type[KerasIdentity]) -> type[keras.Model]:
    """Returns the Keras class that an IPU model class stands for; a user's class is itself."""
    return cls._stands_for or cls


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
    if issubclass(cls, keras.Model) and not issubclass(cls, tuple(replacements.values())):
        cls.__bases__ = tuple(add_functional_base(base, replacements) for base in cls.__bases__)
    return cls
