"""What Keras 2.6 did otherwise than 2.15, which tf_keras is."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from types import MappingProxyType, ModuleType
from typing import Any

import tensorflow as tf
import tf_keras

from ipu_tf.compat.spellings.spelling import Call, Notify, Spelling
from ipu_tf.compat.tf_keras import earlier_names
from ipu_tf.internals.patches import Patch, Wrap
from ipu_tf.internals.tf_keras import (
    DRAWS,
    DRAWS_OF_TENSORFLOW,
    DRAWS_THAT_REPEAT,
    LOSS_MASKS,
    OPTIMIZER_OF,
    REPEATED_DRAWS,
    LegacyLossScaleOptimizer,
    optimizers_module,
)
from ipu_tf.keras.tf_keras.model_adapter import TfKerasModel

_STEPS_OF_MODELS = tuple(
    Patch(tf_keras.Model, name, "samples that are numbers are rows")
    for name in ("train_step", "test_step", "predict_step")
)
_PARTS_OF_BATCHES = Patch(TfKerasModel, "unpacked", "samples that are numbers are rows")
_COMPILATION = Patch(tf_keras.Model, "compile", "a tensor is a number of steps")
_LAYER = Patch(tf_keras.layers.Layer, "__init__", "any truth value says whether a layer trains")
_TARGETS = Patch(
    tf_keras.Model, "_validate_target_and_loss", "losses of layers alone need no targets in scripts"
)
_LOGS = Patch(
    tf_keras.Model,
    "_validate_and_get_metrics_result",
    "logs of an epoch are those of its last step",
)
_STEPS = "steps_per_execution"
_STEPS_POSITION = 6

_LEGACY = ("Adadelta", "Adagrad", "Adam", "Adamax", "Ftrl", "Nadam", "Optimizer", "RMSprop", "SGD")
"""Optimizers of Keras 2.6 that 2.15 keeps beside its own of these names."""


@contextlib.contextmanager
def legacy_optimizers(tree: ModuleType) -> Iterator[None]:
    """Makes the optimizers of Keras 2.6 those that scripts find by their names.

    Args:
        tree: The package that scripts get for `keras`.
    """
    module, precision = tree.optimizers, tree.mixed_precision
    earlier = {name: getattr(module.legacy, name) for name in _LEGACY}
    earlier |= {"get": optimizers_module.get}
    stock = {name: getattr(module, name) for name in earlier}
    vars(module).update(earlier)
    # That of 2.15 cannot be subclassed: it makes one for new or for legacy optimizers.
    either = precision.LossScaleOptimizer
    precision.LossScaleOptimizer = LegacyLossScaleOptimizer
    try:
        yield
    finally:
        vars(module).update(stock)
        precision.LossScaleOptimizer = either


def _by_name(notify: Notify) -> Wrap:
    """Returns the factory of the function that finds the optimizer of a name."""
    del notify  # Scripts cannot tell.

    def wrap(stock: Callable[..., Any]) -> Callable[..., Any]:
        def get(identifier: Any, **kwargs: Any) -> Any:
            names = [name.lower() for name in _LEGACY]
            if isinstance(identifier, str) and identifier.lower() in names:
                kwargs = {"use_legacy_optimizer": True, **kwargs}
            return stock(identifier, **kwargs)

        return get

    return wrap


def _steps(call: Call) -> bool:
    """Makes a tensor of steps a number."""
    by_position = len(call.args) > _STEPS_POSITION
    steps: Any = call.args[_STEPS_POSITION] if by_position else call.kwargs.get(_STEPS)
    if not tf.is_tensor(steps):
        return False
    with tf.init_scope():
        number = int(steps)
    if by_position:
        call.args = (*call.args[:_STEPS_POSITION], number, *call.args[_STEPS_POSITION + 1 :])
    else:
        call.kwargs[_STEPS] = number
    return True


def _trainable(call: Call) -> bool:
    """Makes what says whether a layer trains, such as a name that a script gave first, a bool."""
    value = call.args[0] if call.args else call.kwargs.get("trainable", True)
    if isinstance(value, bool) or tf.is_tensor(value):
        return False
    if call.args:
        call.args = (bool(value), *call.args[1:])
    else:
        call.kwargs["trainable"] = bool(value)
    return True


def _of_rows(notify: Notify) -> Wrap:
    """Returns the factory of a method that takes batches of numbers as batches of rows."""
    del notify  # Scripts cannot tell.

    def wrap(stock: Callable[..., Any]) -> Callable[..., Any]:
        def step(owner: Any, data: Any) -> Any:
            return stock(owner, tf.nest.map_structure(_with_two_axes, data))

        return step

    return wrap


def _with_two_axes(part: Any) -> Any:
    """Returns a tensor of numbers, or the spec of one, as one of rows of a number; others as is."""
    if isinstance(part, tf.TensorSpec) and part.shape.rank == 1:
        return tf.TensorSpec([*part.shape, 1], part.dtype, part.name)
    is_of_numbers = isinstance(part, tf.Tensor) and part.shape.rank == 1
    return tf.expand_dims(part, -1) if is_of_numbers else part


def _of_tensorflow_s_seed(notify: Notify) -> Wrap:
    """Returns the factory of the initializer of generators that draw as TensorFlow's seed says."""
    del notify  # Scripts cannot tell.

    def wrap(stock: Callable[..., None]) -> Callable[..., None]:
        def init(
            generator: Any, seed: Any = None, rng_type: str | None = None, **kwargs: Any
        ) -> None:
            is_open = seed is None and rng_type == DRAWS_THAT_REPEAT
            stock(generator, seed, DRAWS_OF_TENSORFLOW if is_open else rng_type, **kwargs)

        return init

    return wrap


def _silent(notify: Notify) -> Wrap:
    """Returns the factory of a method that warns of nothing."""
    del notify
    return lambda stock: lambda owner: None


def _with_own_arguments(notify: Notify) -> Wrap:
    """Returns the factory of the method that replaces logs of steps by results of metrics."""
    del notify  # Scripts cannot tell.

    def wrap(stock: Callable[..., Any]) -> Callable[..., Any]:
        def logs_of(model: Any, logs: Any) -> Any:
            return logs if isinstance(logs, dict) else stock(model, logs)

        return logs_of

    return wrap


def _where_there_is_no_loss(notify: Notify) -> Wrap:
    """Returns the factory of a check of targets that passes where there is any loss."""
    del notify  # Scripts cannot tell.

    def wrap(stock: Callable[..., None]) -> Callable[..., None]:
        def check(model: Any, targets: Any, loss: Any) -> None:
            if loss is None:
                stock(model, targets, loss)

        return check

    return wrap


def _of_masked_weights(notify: Notify) -> Wrap:
    """Returns the factory of the weights of a loss: those of the samples, zero where masked."""
    del notify  # Scripts cannot tell.
    return lambda stock: lambda losses, weights, mask, reduction: weights


SPELLINGS = (
    Spelling(
        name='`keras.optimizers.Adam`, `optimizer="adam"`',
        before="The optimizers of Keras 2.6, with `lr`, `decay`, `get_slot` and "
        "`_resource_apply_dense`.",
        here="They are those of `tf_keras.optimizers.legacy`.",
        wraps=MappingProxyType({OPTIMIZER_OF: _by_name}),
    ),
    Spelling(
        name="a subclass of `keras.mixed_precision.LossScaleOptimizer`",
        before="It took any optimizer and had the methods of this class.",
        here="It does: the class is that for the optimizers of Keras 2.6.",
    ),
    Spelling(
        name="`compile(steps_per_execution=dataset.cardinality())`, a tensor",
        before="A tensor was a number.",
        here="It is read when the model is compiled.",
        rewrites=MappingProxyType({_COMPILATION: _steps}),
    ),
    Spelling(
        name="`super().__init__(name)`, `super().__init__(self)` of a layer",
        before="The first argument said whether the layer trains: anything true, or None for no.",
        here="It does.",
        rewrites=MappingProxyType({_LAYER: _trainable}),
    ),
    Spelling(
        name="`fit` on samples, labels or weights that are numbers, of shape [batch]",
        before="Steps of Keras made them rows, of shape [batch, 1]; own steps got them as they "
        "are.",
        here="The same.",
        wraps=MappingProxyType(dict.fromkeys((*_STEPS_OF_MODELS, _PARTS_OF_BATCHES), _of_rows)),
    ),
    Spelling(
        name="a loss of outputs that layers mask, such as `Masking`",
        before="Masked steps added nothing to it and counted in its mean.",
        here="The same; Keras 2.15 takes the mean of the others.",
        wraps=MappingProxyType({LOSS_MASKS: _of_masked_weights}),
    ),
    Spelling(
        name='`compile(loss="mse")`, `fit(x)` of a model with losses of its layers (`add_loss`)',
        before="It trained on these; the loss of `compile` was left out without targets.",
        here="The same.",
        wraps=MappingProxyType({_TARGETS: _where_there_is_no_loss}),
    ),
    Spelling(
        name="an initializer without a seed",
        before="`tf.random.set_seed` gave it the same values again; layers that shared it got "
        "values of their own.",
        here="The same.",
        wraps=MappingProxyType({DRAWS: _of_tensorflow_s_seed, REPEATED_DRAWS: _silent}),
    ),
    Spelling(
        name="`history`, `evaluate` after a callback or a step that leaves or resets metrics",
        before="Logs of an epoch were those of its last step.",
        here="The same; Keras 2.15 reads the metrics anew.",
        wraps=MappingProxyType({_LOGS: _with_own_arguments}),
    ),
    *earlier_names.SPELLINGS,
)
"""Each habit of Keras 2.6 that 2.15 lost."""
