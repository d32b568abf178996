"""The methods of Keras 2's optimizers, for optimizers of Keras 3 and subclasses of them.

A subclass that overrides `_resource_apply_dense`, `_create_slots` or `_compute_gradients` is called
by the training loop as Keras 2's loop called it.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from types import MappingProxyType
from typing import Any

import keras
import tensorflow as tf

from ipu_tf.compat.keras2 import optimizer_slots as slots
from ipu_tf.compat.keras2 import patches
from ipu_tf.compat.spellings.spelling import Call, Notify, Spelling, called_by_library
from ipu_tf.internals.keras_optimizers import learning_rate_in
from ipu_tf.internals.patches import Patch, Wrap
from ipu_tf.keras.adapters.models import adapter_of
from ipu_tf.keras.steps import step_scopes

_OPTIMIZER_METHODS = tuple(
    Patch(keras.optimizers.Optimizer, name, "optimizers have the methods of Keras 2", is_new=True)
    for name in (
        "lr",
        "weights",
        "minimize",
        "get_gradients",
        "add_slot",
        "get_slot",
        "get_slot_names",
        "get_weights",
        "set_weights",
        "_create_all_weights",
        "_decayed_lr",
        "_get_hyper",
        "_serialize_hyperparameter",
        "_set_hyper",
    )
)
_OPTIMIZER_HOOKS = tuple(
    Patch(keras.optimizers.Optimizer, name, "subclasses call and override them", is_new=True)
    for name in (
        "gradients_on_tape",
        "minimize_on_tape",
        "_compute_gradients",
        "_create_slots",
        "_fallback_apply_state",
        "_hyper",
        "_prepare",
        "_prepare_local",
        "_resource_apply_dense",
        "_resource_apply_sparse",
        "_use_locking",
    )
)
_OPTIMIZER_APPLICATION = Patch(
    keras.optimizers.Optimizer, "apply_gradients", "it takes the arguments of Keras 2"
)
_OPTIMIZER_UPDATES = Patch(
    keras.optimizers.Optimizer,
    "_distributed_tf_update_step",
    "subclasses of Keras 2 update their variables",
)
_TRAIN_STEPS = Patch(keras.Model, "train_step", "subclasses of Keras 2 compute their gradients")

_HYPERS = "keras_2_hypers"
_DECAY = "_initial_decay"
_RATE = "learning_rate"
_STEP_RATE = "keras_2_rate_of_step"


class OptimizerMethods:
    """The methods that optimizers of Keras 2 have and those of Keras 3 lack.

    They are added to `keras.optimizers.Optimizer`: `self` is an optimizer.
    """

    name: str
    learning_rate: Any
    iterations: Any
    variables: list[Any]
    apply_gradients: Callable[..., Any]
    scale_loss: Callable[[Any], Any]
    update_step: Callable[..., None]
    built: bool
    build: Callable[..., None]
    _use_locking = True

    def minimize(
        self,
        loss: Any,
        var_list: Any,
        grad_loss: Any = None,
        name: str | None = None,
        tape: tf.GradientTape | None = None,
    ) -> Any:
        """Updates variables by the gradients of a loss; see `_compute_gradients`.

        An optimizer that scales the loss scales the gradient of the loss, and unscales the rest.
        """
        del name
        if callable(loss):
            unscaled = loss
            loss = lambda: self.scale_loss(unscaled())  # noqa: E731
        else:
            grad_loss = self.scale_loss(tf.ones_like(loss) if grad_loss is None else grad_loss)
        pairs = self._compute_gradients(loss, var_list=var_list, grad_loss=grad_loss, tape=tape)
        return self.apply_gradients(pairs)

    def _compute_gradients(
        self,
        loss: Any,
        var_list: Any,
        grad_loss: Any = None,
        tape: tf.GradientTape | None = None,
    ) -> list[tuple[Any, Any]]:
        """Returns the gradients of a loss with their variables.

        Args:
            loss: A function without arguments that returns the loss, or a tensor on `tape`.
            var_list: The variables, or a function that returns them.
            grad_loss: The gradient of the loss, 1 if None.
            tape: Recorded the loss.

        Raises:
            ValueError: The loss is a tensor, and there is no tape.
        """
        if not callable(loss) and tape is None:
            raise ValueError(
                f"`minimize` of optimizer '{self.name}': a `tape` is required when `loss` is a "
                f"tensor. Received: loss={loss!r}. Give the tape, or a function that computes the "
                "loss."
            )
        used = tape or tf.GradientTape()
        if callable(loss):
            with used:
                if not callable(var_list):
                    used.watch(tensors_of(var_list))
                loss = loss()
        variables = var_list() if callable(var_list) else var_list
        gradients = used.gradient(loss, tensors_of(variables), grad_loss)
        return list(zip(gradients, variables, strict=True))

    def get_gradients(self, loss: tf.Tensor, params: Sequence[Any]) -> list[Any]:
        """Returns the gradients of a loss of the graph that is being traced."""
        gradients: list[Any] = tf.gradients(loss, tensors_of(params))
        return gradients

    def gradients_on_tape(
        self, tape: tf.GradientTape, loss: tf.Tensor, weights: Sequence[Any]
    ) -> list[Any]:
        """Returns the gradients that a training step applies."""
        if overrides(self, "_compute_gradients"):
            pairs = self._compute_gradients(loss, var_list=list(weights), tape=tape)
            return [gradient for gradient, _ in pairs]
        if overrides(self, "get_gradients") and not tf.executing_eagerly():
            return list(self.get_gradients(loss, list(weights)))
        return list(tape.gradient(loss, tensors_of(weights)))

    def minimize_on_tape(
        self, tape: tf.GradientTape, loss: tf.Tensor, weights: Sequence[Any]
    ) -> bool:
        """Calls a `minimize` of the user's; returns whether there is one."""
        is_own = overrides(self, "minimize")
        if is_own:
            self.minimize(loss, list(weights), tape=tape)
        return is_own

    @property
    def _hyper(self) -> dict[str, Any]:
        """The hyperparameters that the optimizer's class has set, without the learning rate."""
        found: dict[str, Any] = vars(self).setdefault(_HYPERS, {})
        return found

    def _set_hyper(self, name: str, value: Any) -> None:
        """Sets a hyperparameter."""
        if name == _RATE:
            self.learning_rate = value
        else:
            self._hyper[name] = value

    def _get_hyper(self, name: str, dtype: Any = None) -> Any:
        """Returns a hyperparameter, cast to a dtype if one is given."""
        if name == _RATE:
            value = learning_rate_in(self)
        else:
            value = self._hyper.get(name, getattr(self, name, None))
        if isinstance(value, keras.optimizers.schedules.LearningRateSchedule):
            return value
        value = value() if callable(value) else value
        return value if dtype is None else tf.cast(value, dtype)

    def _serialize_hyperparameter(self, name: str) -> Any:
        """Returns a hyperparameter as `get_config` keeps it."""
        value = self._get_hyper(name)
        if isinstance(value, keras.optimizers.schedules.LearningRateSchedule):
            return keras.optimizers.schedules.serialize(value)
        is_tensor = tf.is_tensor(value) or isinstance(value, keras.Variable)
        return float(value.numpy()) if is_tensor else value

    def _decayed_lr(self, var_dtype: Any) -> tf.Tensor:
        """Returns the learning rate of this step; an update asks its schedule once."""
        rate = tf.cast(_rate_of_step(self), var_dtype)
        decay = getattr(self, _DECAY, 0.0)
        return rate / (1.0 + decay * tf.cast(self.iterations, var_dtype)) if decay else rate

    def _prepare(self, var_list: Sequence[tf.Variable]) -> dict[Any, dict[str, Any]]:
        """Returns the coefficients of an update, by the devices and dtypes of variables."""
        state: dict[Any, dict[str, Any]] = {}
        for device, dtype in {(var.device, var.dtype.base_dtype) for var in var_list}:
            state[device, dtype] = {}
            self._prepare_local(device, dtype, state)
        return state

    def _prepare_local(self, var_device: str, var_dtype: Any, apply_state: Any) -> None:
        """Adds the coefficients of a device and a dtype to a state."""
        found = slots.coefficients(self, var_dtype, self._decayed_lr(var_dtype))
        apply_state.setdefault((var_device, var_dtype), {}).update(found)

    def _fallback_apply_state(self, var_device: str, var_dtype: Any) -> dict[str, Any]:
        """Returns the coefficients of a device and a dtype."""
        state: dict[Any, dict[str, Any]] = {}
        self._prepare_local(var_device, var_dtype, state)
        return state[var_device, var_dtype]

    def _create_slots(self, var_list: Sequence[tf.Variable]) -> None:
        """Makes nothing: optimizers of Keras 3 make their variables in `build`."""

    def _resource_apply_dense(self, grad: Any, var: Any, apply_state: Any = None) -> None:
        """Updates a variable as the optimizer of Keras 3 does."""
        del apply_state
        self.update_step(grad, var, _rate_of_step(self))

    def _resource_apply_sparse(
        self, grad: Any, var: Any, indices: Any, apply_state: Any = None
    ) -> Any:
        """Updates a variable by a gradient of some of its rows, as by a dense one."""
        dense = tf.convert_to_tensor(tf.IndexedSlices(grad, indices, tf.shape(var)))
        return apply_dense(self, dense, var, apply_state)

    def _create_all_weights(self, var_list: Sequence[Any]) -> None:
        """Makes the state of the optimizer for variables."""
        if not self.built:
            self.build(list(var_list))

    add_slot = slots.add_slot
    get_slot = slots.get_slot
    get_slot_names = slots.get_slot_names

    @property
    def weights(self) -> list[Any]:
        """The variables of the optimizer, without the learning rate."""
        rate = learning_rate_in(self)
        return [variable for variable in self.variables if variable is not rate]

    def get_weights(self) -> list[Any]:
        """Returns the values of `weights`."""
        return [variable.numpy() for variable in self.weights]

    def set_weights(self, weights: Sequence[Any]) -> None:
        """Sets the values of `weights`.

        Raises:
            ValueError: Their number differs.
        """
        if len(self.weights) != len(weights):
            raise ValueError(
                f"`set_weights` of optimizer '{self.name}' takes {len(self.weights)} arrays, in "
                f"the order of `weights`. Received: {len(weights)}. The optimizer has its "
                "variables once it is built with those of the model."
            )
        for variable, value in zip(self.weights, weights, strict=True):
            variable.assign(value)

    @property
    def lr(self) -> Any:
        """The learning rate."""
        return self.learning_rate

    @lr.setter
    def lr(self, value: Any) -> None:
        self.learning_rate = value


def tensors_of(variables: Any) -> list[Any]:
    """Returns variables of Keras as those of TensorFlow."""
    return [v.value if isinstance(v, keras.Variable) else v for v in keras.tree.flatten(variables)]


def _rate_of_step(optimizer: Any) -> Any:
    """Returns the learning rate of the update that runs; outside of one, that of the next."""
    if _STEP_RATE in vars(optimizer):
        return vars(optimizer)[_STEP_RATE]
    return optimizer.learning_rate


def apply_dense(optimizer: Any, grad: Any, var: Any, state: Any) -> Any:
    """Updates a variable by `_resource_apply_dense`, which may lack the argument `apply_state`."""
    apply = OptimizerMethods._resource_apply_dense.__get__(optimizer)
    if overrides(optimizer, "_resource_apply_dense"):
        apply = optimizer._resource_apply_dense
    takes_state = "apply_state" in inspect.signature(apply).parameters
    return apply(grad, var, apply_state=state) if takes_state else apply(grad, var)


def overrides(optimizer: Any, name: str) -> bool:
    """Returns whether a class of the user's defines an optimizer's method of a name of Keras 2.

    `ALSOptimizer.get_gradients` is the vendor's interface, which the loop does not call.
    """
    libraries = ("keras", "tensorflow", "ipu_tf")
    owner = next((base for base in type(optimizer).__mro__ if name in vars(base)), None)
    return owner is not None and owner.__module__.partition(".")[0] not in libraries


def _added(name: str) -> Callable[[Notify], Wrap]:
    """Returns the factory of a method or a property that optimizers of Keras 3 lack."""
    member = vars(OptimizerMethods)[name]

    def noticed(notify: Notify, function: Any) -> Any:
        def call(*args: Any, **kwargs: Any) -> Any:
            # Keras reads all attributes of an optimizer that it saves.
            if not called_by_library():
                notify()
            elif name == "get_slot_names":
                # TensorFlow's checkpoints keep the slots as the variables that they are.
                return []
            return function(*args, **kwargs)

        return call

    def of_notify(notify: Notify) -> Wrap:
        if isinstance(member, property):
            functions = (f and noticed(notify, f) for f in (member.fget, member.fset))
            return lambda stock: property(*functions)
        return lambda stock: noticed(notify, member)

    return of_notify


def _added_for_subclasses(name: str) -> Callable[[Notify], Wrap]:
    """Returns the factory of a method that subclasses call or override."""
    return lambda notify: lambda stock: vars(OptimizerMethods)[name]


def _creating_slots(notify: Notify) -> Wrap:
    """Returns the factory of a `build` that makes the slots of a subclass of Keras 2."""
    del notify  # Given by `add_slot`.

    def wrap(stock: Callable[..., None]) -> Callable[..., None]:
        def build(optimizer: Any, variables: Sequence[Any], *args: Any, **kwargs: Any) -> None:
            stock(optimizer, variables, *args, **kwargs)
            if overrides(optimizer, "_create_slots"):
                optimizer._create_slots(tensors_of(variables))

        return build

    return wrap


def _updating(notify: Notify) -> Wrap:
    """Returns the factory of an update that calls `_resource_apply_dense` of subclasses."""

    def wrap(stock: Callable[..., None]) -> Callable[..., None]:
        def update(optimizer: Any, distribution: Any, pairs: Any, learning_rate: Any) -> None:
            if not overrides(optimizer, "_resource_apply_dense"):
                stock(optimizer, distribution, pairs, learning_rate)
                return
            notify()
            vars(optimizer)[_STEP_RATE] = learning_rate
            try:
                call_methods(optimizer, distribution, pairs)
            finally:
                del vars(optimizer)[_STEP_RATE]

        def call_methods(optimizer: Any, distribution: Any, pairs: Any) -> None:
            state = optimizer._prepare([var for _, var in pairs])

            def apply(var: Any, grad: Any) -> Any:
                if isinstance(grad, tf.IndexedSlices):
                    rows = grad.indices
                    return optimizer._resource_apply_sparse(grad.values, var, rows, state)
                return apply_dense(optimizer, grad, var, state)

            for grad, var in pairs:
                distribution.extended.update(var, apply, args=(grad,), group=False)

        return update

    return wrap


def _stepping(notify: Notify) -> Wrap:
    """Returns the factory of a train step that lets an optimizer compute its gradients."""
    names = ("minimize", "_compute_gradients", "get_gradients")

    def computes_gradients(optimizer: Any) -> bool:
        is_own = any(overrides(optimizer, name) for name in names)
        return is_own or getattr(optimizer, "computes_gradients", False)

    def wrap(stock: Callable[..., Any]) -> Callable[..., Any]:
        def train_step(model: keras.Model, data: Any) -> Any:
            if not computes_gradients(model.optimizer):
                return stock(model, data)
            notify()
            return step_scopes.train_step(adapter_of(model), data)

        return train_step

    return wrap


def _application_arguments(call: Call) -> bool:
    """Removes the arguments of `apply_gradients` after the first."""
    names = ("name", "experimental_aggregate_gradients", "global_step")
    found = [name for name in names if name in call.kwargs]
    for name in found:
        del call.kwargs[name]
    rest = call.args[1:]
    call.args = call.args[:1]
    return bool(found or rest)


SPELLINGS = (
    Spelling(
        name="`optimizer.lr`, `minimize`, `get_gradients`, `get_slot`, `add_slot`, `_set_hyper`, "
        "`_get_hyper`, `_decayed_lr`, `weights`, `get_weights`, `set_weights` of an optimizer",
        keras_2="Its learning rate, gradients, state and hyperparameters.",
        here="Keras 3's learning rate, gradients and state, under these names. `set_weights` takes "
        "arrays of this optimizer's own `get_weights`.",
        wraps=MappingProxyType({patch: _added(patch.name) for patch in _OPTIMIZER_METHODS}),
    ),
    Spelling(
        name="a subclass of an optimizer with `_resource_apply_dense`, `_create_slots`, "
        "`minimize`, `_compute_gradients` or `get_gradients`",
        keras_2="They made the slots, computed the gradients and updated a variable.",
        here="The training loop calls them so. `super()._resource_apply_dense` updates a variable "
        "as the optimizer of Keras 3. A sparse gradient is made dense unless the subclass has "
        "`_resource_apply_sparse`. With gradient accumulation, replicas or pipelining a `minimize` "
        "of a subclass is refused.",
        wraps=MappingProxyType(
            {
                patches.OPTIMIZER_BUILDS: _creating_slots,
                _OPTIMIZER_UPDATES: _updating,
                _TRAIN_STEPS: _stepping,
                **{patch: _added_for_subclasses(patch.name) for patch in _OPTIMIZER_HOOKS},
            }
        ),
    ),
    Spelling(
        name="`apply_gradients(pairs, name=, experimental_aggregate_gradients=)`",
        keras_2="A name of operations, and whether to add up the gradients of workers.",
        here="They are left out: replicas add up gradients in the training loop.",
        rewrites=MappingProxyType({_OPTIMIZER_APPLICATION: _application_arguments}),
    ),
)
