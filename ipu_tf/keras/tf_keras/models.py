"""`Model` and `Sequential` of tf_keras that are IPU models wherever they are made."""

from __future__ import annotations

from typing import ClassVar

import tf_keras

from ipu_tf.internals.tf_keras import TfKerasFunctional, is_functional_call
from ipu_tf.keras.identity import add_functional_base
from ipu_tf.keras.tf_keras import construction
from ipu_tf.keras.tf_keras.construction import TfKerasSubclass

__all__ = ["Model", "Sequential"]

_FUNCTIONAL = "functional_class"


class Model(TfKerasSubclass):
    """See `ipu_tf.keras.Model`, for layers of tf_keras.

    A class whose own attribute `functional_class` is a functional class makes models of inputs and
    outputs of that.
    """

    _stands_for = tf_keras.Model
    functional_class: ClassVar[type]

    def __new__(cls, *args: object, **kwargs: object) -> Model:
        """Returns an uninitialised model, a functional one for inputs and outputs."""
        functional = vars(cls).get(_FUNCTIONAL)
        is_functional = functional is not None and is_functional_call(args, kwargs)
        return super().__new__(functional if is_functional else cls)

    def __init__(self, *args: object, **kwargs: object) -> None:
        if is_functional_call(args, kwargs):
            # tf_keras would do this to every class up to its own, the IPU's among them.
            own = {one: vars(one).get(_FUNCTIONAL) for one in type(self).__mro__}
            add_functional_base(type(self), {one: twin for one, twin in own.items() if twin})
        super().__init__(*args, **kwargs)


class Functional(Model, construction.Functional):
    """A `Model` that is a graph of layers, made by `Model(inputs, outputs)`."""

    _stands_for = TfKerasFunctional


Model.functional_class = Functional


Sequential = construction.Sequential
"""See `ipu_tf.keras.Sequential`, for layers of tf_keras. Scopes make such models, too."""
