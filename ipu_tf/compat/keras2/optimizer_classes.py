"""`OptimizerV2`, the optimizers of TensorFlow in `compile`, and the old names of optimizers."""

from __future__ import annotations

import abc
import inspect
from collections.abc import Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Any

import keras
import tensorflow as tf

from ipu_tf.compat.keras2 import patches
from ipu_tf.compat.keras2.optimizer_methods import overrides, tensors_of
from ipu_tf.compat.spellings.spelling import Call, Provider, Spelling
from ipu_tf.internals.keras_optimizers import variables_trained_by
from ipu_tf.internals.tensorflow import create_slots

_HYPERS = "keras_2_hypers"
_CLIPPING = ("clipnorm", "clipvalue", "global_clipnorm")


class _AnyOptimizer(abc.ABCMeta):
    """Makes every optimizer of Keras an instance of `OptimizerV2`, as it was in Keras 2.

    A subclass may name `abc.ABCMeta` as its metaclass.
    """

    def __instancecheck__(cls, instance: Any) -> bool:
        base = keras.optimizers.Optimizer if cls.__name__ == "OptimizerV2" else cls
        return issubclass(type(instance), base)


class OptimizerV2(keras.optimizers.Optimizer, metaclass=_AnyOptimizer):
    """The base class of optimizers of Keras 2, to be subclassed.

    A subclass sets its hyperparameters with `_set_hyper`, makes slots in `_create_slots` and
    updates a variable in `_resource_apply_dense`.

    Args:
        name: Name of the optimizer.
        gradient_aggregator: A function in place of the sum over replicas.
        gradient_transformers: Functions after it.
        **kwargs: `lr` or `learning_rate`, `decay`, `clipnorm`, `clipvalue`, `global_clipnorm`.
    """

    def __init__(
        self,
        name: str,
        gradient_aggregator: Any = None,
        gradient_transformers: Any = None,
        **kwargs: Any,
    ) -> None:
        decay = kwargs.pop("decay", None) or 0.0
        kwargs.setdefault("learning_rate", kwargs.pop("lr", 0.001))
        if gradient_aggregator is not None or gradient_transformers:
            kwargs |= {
                "gradient_aggregator": gradient_aggregator,
                "gradient_transformers": gradient_transformers,
            }
        super().__init__(name=name, **kwargs)
        self._initial_decay = float(decay)
        self._use_locking = True

    def __getattr__(self, name: str) -> Any:
        """Returns a hyperparameter."""
        hypers = vars(self).get(_HYPERS, {})
        if name not in hypers:
            raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")
        return hypers[name]

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments of this class; a subclass adds its own."""
        clipping = {name: getattr(self, name) for name in _CLIPPING}
        return {"name": self.name} | {k: v for k, v in clipping.items() if v is not None}


def _make_state(optimizer: Any, variables: Sequence[Any]) -> None:
    """Makes the state of an optimizer, and of those that it wraps, before the first trace."""
    if isinstance(optimizer, keras.optimizers.Optimizer):
        if not optimizer.built:
            with tf.init_scope():
                optimizer.build(variables)
        return
    create_slots(optimizer, tensors_of(variables))
    for part in vars(optimizer).values():
        if isinstance(part, keras.optimizers.Optimizer | tf.compat.v1.train.Optimizer):
            _make_state(part, variables)


class TensorFlowOptimizer(keras.optimizers.Optimizer):
    """An optimizer of TensorFlow itself, such as `tf.compat.v1.train.AdamOptimizer`, for Keras.

    Args:
        optimizer: An optimizer with `apply_gradients`.
    """

    def __init__(self, optimizer: Any) -> None:
        super().__init__(learning_rate=0.0, name=type(optimizer).__name__)
        self.optimizer = optimizer

    def build(self, variables: Sequence[Any]) -> None:
        """Makes the state of the optimizer, and of those that it wraps."""
        super().build(variables)
        _make_state(self.optimizer, variables)

    @property
    def computes_gradients(self) -> bool:
        """Whether a class of the user's overrides `compute_gradients`."""
        return overrides(self.optimizer, "compute_gradients")

    def gradients_on_tape(
        self, tape: tf.GradientTape, loss: tf.Tensor, weights: Sequence[Any]
    ) -> list[Any]:
        """Returns the gradients that a training step applies: those of the user's class, if any."""
        variables = tensors_of(weights)
        if not self.computes_gradients:
            return list(tape.gradient(loss, variables))
        pairs = self.optimizer.compute_gradients(loss, var_list=variables)
        found = {tensors_of(var)[0].ref(): grad for grad, var in pairs}
        return [found.get(variable.ref()) for variable in variables]

    def apply(self, grads: Sequence[Any], trainable_variables: Sequence[Any] | None = None) -> None:
        """Updates variables by gradients.

        Args:
            grads: Gradients, None for variables without one.
            trainable_variables: Their variables; None stands for the variables given to `build`.
        """
        variables = list(trainable_variables or variables_trained_by(self))
        if not self.built:
            self.build(variables)
        pairs = zip(grads, tensors_of(variables), strict=True)
        arguments = inspect.signature(self.optimizer.apply_gradients).parameters
        # The training loop has added up the gradients of replicas.
        own = {"skip_gradients_aggregation": True, "experimental_aggregate_gradients": False}
        kept = {name: value for name, value in own.items() if name in arguments}
        self.optimizer.apply_gradients([pair for pair in pairs if pair[0] is not None], **kept)
        self.iterations.assign_add(1)

    @property
    def variables(self) -> list[Any]:
        """The count of updates, and the state of the optimizer."""
        own = self.optimizer.variables
        return [*super().variables, *(own() if callable(own) else own)]

    def get_config(self) -> dict[str, Any]:
        """Raises an error: optimizers of TensorFlow do not tell their arguments.

        Raises:
            NotImplementedError: Always.
        """
        raise NotImplementedError(
            f"The optimizer {self.name} of TensorFlow cannot be saved with a model: it does not "
            "tell its arguments. Save the weights: model.save_weights('a.weights.h5')."
        )


def _tensorflow_optimizer(call: Call) -> bool:
    """Wraps the optimizer of `compile` if it is one of TensorFlow."""
    optimizer = call.args[0] if call.args else call.kwargs.get("optimizer")
    # Every optimizer of Keras 3 is one of its class; strings, dicts and None have no such method.
    if type(optimizer) is type or issubclass(type(optimizer), keras.optimizers.Optimizer):
        return False
    if not hasattr(optimizer, "apply_gradients"):
        return False
    if call.args:
        call.args = (TensorFlowOptimizer(optimizer), *call.args[1:])
    else:
        call.kwargs["optimizer"] = TensorFlowOptimizer(optimizer)
    return True


_CLASSES = ("Adadelta", "Adagrad", "Adam", "Adamax", "Ftrl", "Nadam", "RMSprop", "SGD")
_MODULES: Mapping[str, str] = MappingProxyType(
    {"SGD": "gradient_descent"} | {name: name.lower() for name in _CLASSES if name != "SGD"}
)
_SCHEDULES = tuple(name for name in dir(keras.optimizers.schedules) if name[0] != "_")


def _optimizer(name: str) -> Any:
    return getattr(keras.optimizers, name)


def _schedule(name: str) -> Any:
    return getattr(keras.optimizers.schedules, name)


def _named(names: Sequence[str]) -> dict[str, Provider]:
    return {name: partial(_optimizer, name) for name in names}


def _modules_below(package: str) -> dict[str, Mapping[str, Provider]]:
    """Returns the modules of a package of optimizers of Keras 2, with their classes."""
    schedules = {name: partial(_schedule, name) for name in _SCHEDULES}
    return {
        f"{package}.optimizer_v2": {"OptimizerV2": lambda: OptimizerV2},
        f"{package}.learning_rate_schedule": schedules,
        **{f"{package}.{module}": _named((name,)) for name, module in _MODULES.items()},
    }


SPELLINGS = (
    Spelling(
        name="`keras.optimizer_v2`, `keras.optimizers.optimizer_v2`, `OptimizerV2`",
        keras_2="The modules of optimizers, and their base class.",
        here="The optimizers are Keras 3's, with the methods of Keras 2; a subclass of "
        "`OptimizerV2` is called as in Keras 2.",
        names=MappingProxyType(
            _modules_below("optimizer_v2") | _modules_below("optimizers.optimizer_v2")
        ),
    ),
    Spelling(
        name="`keras.optimizers.legacy`",
        keras_2="The optimizers of Keras 2.",
        here="They are Keras 3's, with the methods of Keras 2. `RMSprop` adds epsilon inside of "
        "the root, and `Nadam` and `Ftrl` differ in details.",
        is_kept=False,
        names=MappingProxyType(
            {
                "optimizers.legacy": {
                    **_named(_CLASSES),
                    "Optimizer": lambda: OptimizerV2,
                }
            }
        ),
        replaces_names=True,
    ),
    Spelling(
        name="`keras.optimizers.experimental`",
        keras_2="The optimizers that became Keras 3's.",
        here="They are Keras 3's.",
        names=MappingProxyType(
            {"optimizers.experimental": _named((*_CLASSES, "AdamW", "Optimizer"))}
        ),
    ),
    Spelling(
        name="`compile(optimizer=tf.compat.v1.train.AdamOptimizer())`, an optimizer of TensorFlow",
        keras_2="It updated the weights.",
        here="It updates the weights; a class that overrides `compute_gradients` computes the "
        "gradients, too. A directory of the model is written without it, as in Keras 2.",
        rewrites=MappingProxyType({patches.COMPILATION: _tensorflow_optimizer}),
    ),
)
