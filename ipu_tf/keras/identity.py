"""Which class a model says it is of, and the bases of classes that turn functional."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import keras


class KerasIdentity:
    """Makes a model answer to the Keras class that its own class stands for.

    `type(model)` is the IPU class, `model.__class__` the stock one, and `isinstance` holds for
    both. Keras and its users go through `__class__` where they ask what a model is: for the name
    in a file, to clone it, in `super(self.__class__, self)`. So files hold the stock names, and
    a copy that is made outside of the scope is a stock model.
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
    """Returns the Keras class that a class of IPU models stands for; a user's own is itself."""
    return cls._stands_for or cls


def add_functional_base(cls: type, replacements: Mapping[type, type]) -> type:
    """Makes a model class, whose constructor turned out to be functional, a functional one.

    Args:
        cls: A class of models. The bases of those between it and the replaced are changed.
        replacements: The functional twin of each base class.

    Returns:
        The class to use in place of `cls`.
    """
    if cls in replacements:
        return replacements[cls]
    if issubclass(cls, keras.Model) and not issubclass(cls, tuple(replacements.values())):
        cls.__bases__ = tuple(add_functional_base(base, replacements) for base in cls.__bases__)
    return cls
