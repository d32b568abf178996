"""Attributes of models, metrics and optimizers that Keras 3 lacks or reads differently."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any

import keras

from ipu_tf.compat.spellings.spelling import Notify, Spelling, called_by_library
from ipu_tf.internals.keras_graphs import history_of, inbound_nodes
from ipu_tf.internals.keras_optimizers import learning_rate_in
from ipu_tf.internals.keras_training import result_names_of
from ipu_tf.internals.patches import Patch, Wrap
from ipu_tf.keras.optimizers.als_gradient_accumulation_optimizer import (
    ALSGradientAccumulationOptimizer,
)
from ipu_tf.keras.optimizers.gradient_accumulation_optimizer import (
    GradientAccumulationOptimizer,
)

_MODEL_ENDS = tuple(
    Patch(keras.Sequential, name, "a Sequential has the tensors at its ends")
    for name in ("input", "output")
)
_NAMES_OF_ENDS = (
    Patch(keras.Model, "input_names", "models tell the names of their inputs", is_new=True),
    Patch(keras.Sequential, "output_names", "models tell the names of their outputs", is_new=True),
)
_METRICS_NAMES = Patch(
    keras.Model, "metrics_names", "they are the names of what `evaluate` returns"
)
_RESULTS_IN_ORDER = Patch(
    keras.Model, "_flatten_metrics_in_order", "results of several outputs are in their order"
)
_OPTIMIZER_VARIABLES = tuple(
    Patch(owner, "variables", "the list of an optimizer's variables may be called")
    for owner in (keras.optimizers.Optimizer, keras.mixed_precision.LossScaleOptimizer)
)
_METRIC_RESETS = Patch(keras.Metric, "reset_state", "metrics may override `reset_states`")

_OF_WRAPPERS = tuple(
    Patch(owner, "variables", _OPTIMIZER_VARIABLES[0].reason)
    for owner in (GradientAccumulationOptimizer, ALSGradientAccumulationOptimizer)
)
"""Optimizers here that have variables of their own, too."""

_RESETTING = "keras_2_is_resetting"


class VariableList(list[Any]):
    """Variables of an optimizer; a call returns those that Keras 2's method did.

    Args:
        variables: The variables.
        rate: The one of them that is the learning rate, which Keras 2 left out.
    """

    def __init__(self, variables: Iterable[Any], rate: Any) -> None:
        super().__init__(variables)
        self._rate = rate

    def __call__(self) -> list[Any]:
        """Returns the variables without the learning rate."""
        return [variable for variable in self if variable is not self._rate]


def _callable_variables(notify: Notify) -> Wrap:
    """Returns the factory of the variables of an optimizer, which may be called."""
    del notify  # Reading the variables is Keras 3's own.

    def wrap(stock: property) -> property:
        get: Any = stock.fget

        def variables(optimizer: keras.optimizers.Optimizer) -> VariableList:
            return VariableList(get(optimizer), learning_rate_in(optimizer))

        return property(variables, stock.fset)

    return wrap


def _end_of(attribute: str) -> Callable[[Notify], Wrap]:
    """Returns the factory of `input` or `output` of a Sequential, which may not be called yet."""

    def of_notify(notify: Notify) -> Wrap:
        def wrap(stock: property) -> property:
            get_stock: Any = stock.fget

            def get(model: keras.Sequential) -> Any:
                if inbound_nodes(model) or called_by_library() or not model.built:
                    return get_stock(model)
                notify()
                tensors = getattr(model, f"{attribute}s")
                return tensors[0] if len(tensors) == 1 else tensors

            return property(get)

        return wrap

    return of_notify


def _names_of(attribute: str) -> Callable[[Notify], Wrap]:
    """Returns the factory of `input_names` or `output_names` of a model."""

    def of_notify(notify: Notify) -> Wrap:
        def get(model: keras.Model) -> list[str]:
            if called_by_library():
                # Keras asks for the names of outputs of functional models alone.
                raise AttributeError(f"{attribute}_names")
            notify()
            tensors = getattr(model, f"{attribute}s")
            return [history_of(tensor)[0].name for tensor in tensors]

        return lambda stock: property(get)

    return of_notify


def _names_of_results(notify: Notify) -> Wrap:
    """Returns the factory of the names of what `evaluate` returns."""

    def wrap(stock: property) -> property:
        def get(model: keras.Model) -> list[str]:
            # Keras reads all attributes of a model that it saves.
            if not called_by_library():
                notify()
            return result_names_of(model)

        return property(get)

    return wrap


def _in_order(notify: Notify) -> Wrap:
    """Returns the factory of the list of results that `evaluate` returns."""
    del notify  # Given by `metrics_names`.

    def wrap(stock: Callable[..., Any]) -> Callable[..., Any]:
        def flatten(model: keras.Model, logs: Mapping[str, Any]) -> Any:
            names = result_names_of(model)
            if sorted(names) != sorted(logs):
                return stock(model, logs)
            results = [logs[name] for name in names]
            return results[0] if len(results) == 1 else results

        return flatten

    return wrap


def _resetting(notify: Notify) -> Wrap:
    """Returns the factory of `reset_state`, which calls a `reset_states` of a user's class."""

    def wrap(stock: Callable[..., None]) -> Callable[..., None]:
        def reset_state(metric: keras.Metric) -> None:
            owner = next(base for base in type(metric).__mro__ if "reset_states" in vars(base))
            is_own = owner is not keras.Metric
            if not is_own or vars(metric).get(_RESETTING):
                stock(metric)
                return
            notify()
            vars(metric)[_RESETTING] = True
            try:
                metric.reset_states()
            finally:
                del vars(metric)[_RESETTING]

        return reset_state

    return wrap


def _each(
    patches_of_names: tuple[Patch, ...], wrap_of: Callable[[str], Callable[[Notify], Wrap]]
) -> dict[Patch, Callable[[Notify], Wrap]]:
    return {patch: wrap_of(patch.name.partition("_")[0]) for patch in patches_of_names}


SPELLINGS = (
    Spelling(
        name="`model.input`, `model.output` of a Sequential, `model.input_names`, "
        "`model.output_names`",
        keras_2="The tensors at the ends of a model, and the names of their layers.",
        here="They are `inputs` and `outputs`, one tensor by itself, and the names of their "
        "layers.",
        wraps=MappingProxyType(_each(_MODEL_ENDS, _end_of) | _each(_NAMES_OF_ENDS, _names_of)),
    ),
    Spelling(
        name="`model.metrics_names`",
        keras_2="The names of what `evaluate` and `train_on_batch` return, in their order.",
        here="They are those names; before the first step there are none. Results of several "
        "outputs are in the order of the outputs.",
        wraps=MappingProxyType(
            {
                _METRICS_NAMES: _names_of_results,
                _RESULTS_IN_ORDER: _in_order,
            }
        ),
    ),
    Spelling(
        name="a metric that overrides `reset_states`",
        keras_2="Each epoch began with it.",
        here="Each epoch begins with it.",
        wraps=MappingProxyType({_METRIC_RESETS: _resetting}),
    ),
    Spelling(
        name="`optimizer.variables()`",
        keras_2="A method that returned the variables.",
        here="The list `optimizer.variables` may be called.",
        wraps=MappingProxyType(
            dict.fromkeys((*_OPTIMIZER_VARIABLES, *_OF_WRAPPERS), _callable_variables)
        ),
    ),
)
