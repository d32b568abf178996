"""Automatic loss scaling for models of tf_keras."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, ClassVar

import tensorflow as tf
import tf_keras
from tf_keras.mixed_precision import LossScaleOptimizer
from tf_keras.optimizers import legacy

from ipu_tf.internals.structures import Gradient
from ipu_tf.internals.tf_keras import Hyper, Optimizer, make_state, track
from ipu_tf.keras.optimizers.als_loss_scaling import ALSOptimizerBody, CapturedGradients
from ipu_tf.keras.optimizers.als_settings import ALSSettings
from ipu_tf.keras.tf_keras.layers.base import registered


class MadeAsOthers(type(LossScaleOptimizer)):  # type: ignore[misc]
    """Makes optimizers as `type` does: the stock one takes no first argument of another name."""

    def __call__(cls, *args: object, **kwargs: object) -> LossScaleOptimizer:
        """Returns a new optimizer."""
        return type.__call__(cls, *args, **kwargs)


@registered
class ALSOptimizer(ALSOptimizerBody, legacy.Optimizer, LossScaleOptimizer, metaclass=MadeAsOthers):
    """See `ipu_tf.keras.optimizers.ALSOptimizer`.

    It is a `LossScaleOptimizer` of tf_keras, so `compile` adds no second loss scaling.
    """

    _keras: ClassVar[Any] = tf_keras
    inner_optimizer: Optimizer = None  # tf_keras has a property of this name.

    def _make(self, opt: Optimizer, settings: ALSSettings, name: str) -> None:
        legacy.Optimizer.__init__(self, name)
        self.inner_optimizer = opt
        track(self, "inner_optimizer", opt)
        self._label = name
        self.settings = settings
        initial = tf.constant_initializer(settings.initial_loss_scaling_factor)
        self._histogram = self._variable("gradient_histogram", "zeros", (2,))
        self._counter = self._variable("lsf_update_counter", "zeros", dtype=tf.int32)
        self.dynamic_scale = self._variable("loss_scaling_factor", initial)
        self._previous_scale = self._variable("prev_loss_scaling_factor", initial)

    def _variable(
        self,
        name: str,
        initializer: str | Callable[..., tf.Tensor],
        shape: tuple[int, ...] = (),
        dtype: tf.DType = tf.float32,
    ) -> tf.Variable:
        return self.add_weight(name, shape, dtype=dtype, initializer=initializer, trainable=False)

    def _create_slots(self, var_list: list[tf.Variable]) -> None:
        make_state(self.inner_optimizer, var_list)

    def _transform_loss(self, loss: tf.Tensor) -> tf.Tensor:
        """Returns the loss that `minimize` differentiates."""
        return self.scale_loss(loss)

    def apply_gradients(
        self,
        grads_and_vars: Iterable[tuple[Gradient, tf.Variable]],
        captured_grads: CapturedGradients | None = None,
        global_step: tf.Variable | None = None,
        name: str | None = None,
        experimental_aggregate_gradients: bool = True,
        captured_counts: tf.Tensor | None = None,
    ) -> tf.Operation | None:
        """Counts scaled gradients, applies them unscaled, and updates the factor if due.

        Args:
            grads_and_vars: Gradients of the scaled loss, each with its variable.
            captured_grads: Captured gradients of the scaled loss; None stands for those captured in
                the program since the last step.
            global_step: A variable that counts the steps, None if there is none.
            name: Name of the operations.
            experimental_aggregate_gradients: Whether to sum the gradients of replicas.
            captured_counts: The result of `count_captured`, in place of captured gradients.

        Returns:
            The result of the wrapped optimizer.
        """
        grads, variables = zip(*grads_and_vars, strict=True)
        unscaled = self.unscaled(grads, captured_grads, captured_counts)
        pairs = [
            (None if gradient is None else tf.cast(gradient, variable.dtype), variable)
            for gradient, variable in zip(unscaled, variables, strict=True)
        ]
        if global_step is not None:
            global_step.assign_add(1)
        return self.inner_optimizer.apply_gradients(
            pairs, name=name, experimental_aggregate_gradients=experimental_aggregate_gradients
        )

    @property
    def name(self) -> str:
        """Its name."""
        return self._label

    @property
    def built(self) -> bool:
        """Whether the wrapped optimizer has made a step: programs may have the settings in them."""
        is_legacy = isinstance(self.inner_optimizer, legacy.Optimizer)
        has_slots = is_legacy and bool(self.inner_optimizer.get_slot_names())
        return has_slots or int(self.iterations) > 0

    @property
    def loss_scaling_variables(self) -> list[tf.Variable]:
        """The variables of the loss scaling, without those of the wrapped optimizer."""
        return [self._histogram, self._counter, self.dynamic_scale, self._previous_scale]

    @property
    def loss_scale(self) -> tf.Tensor:
        """The factor of the next loss, a float32 scalar."""
        return self.loss_scaling_factor

    @property
    def iterations(self) -> tf.Variable:
        """The number of updates of the wrapped optimizer."""
        return self.inner_optimizer.iterations

    @iterations.setter
    def iterations(self, variable: tf.Variable) -> None:
        self.inner_optimizer.iterations = variable

    @property
    def learning_rate(self) -> Hyper:
        """The learning rate of the wrapped optimizer."""
        return self.inner_optimizer.learning_rate

    @learning_rate.setter
    def learning_rate(self, rate: Hyper) -> None:
        self.inner_optimizer.learning_rate = rate

    lr = learning_rate

    def variables(self) -> list[tf.Variable]:
        """Returns its variables and those of the wrapped optimizer."""
        return self.weights

    @property
    def weights(self) -> list[tf.Variable]:
        """Its variables and those of the wrapped optimizer."""
        return [*self.loss_scaling_variables, *self.inner_optimizer.variables()]

    def get_slot_names(self) -> list[str]:
        """Returns the names of the slots of the wrapped optimizer."""
        names: list[str] = self.inner_optimizer.get_slot_names()
        return names

    def get_slot(self, var: tf.Variable, slot_name: str) -> tf.Variable:
        """Returns a slot of the wrapped optimizer."""
        return self.inner_optimizer.get_slot(var, slot_name)
