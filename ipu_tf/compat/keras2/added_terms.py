"""`add_loss` and `add_metric` as Keras 2 had them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from types import MappingProxyType
from typing import Any

import keras
import tensorflow as tf

from ipu_tf.compat.spellings.spelling import Notify, Spelling
from ipu_tf.internals.keras import KerasFunctional
from ipu_tf.internals.keras_graphs import (
    add_to_graph,
    graph_in,
    history_of,
    layers_beside,
    operations_after,
)
from ipu_tf.internals.keras_layers import adopt_metric, clear_losses, own_metrics_of
from ipu_tf.internals.patches import Patch, Wrap

_LOSSES_OF_LAYERS = Patch(keras.Layer, "add_loss", "a loss may be a function")
_LOSSES_OF_MODELS = Patch(KerasFunctional, "add_loss", "a loss may be a symbolic tensor")
_LAYERS_OF_SEQUENTIALS = Patch(
    keras.Sequential, "_flatten_layers", "losses and metrics of its tensors are among its own"
)
_CLEARED_SEQUENTIALS = Patch(
    keras.Sequential, "_clear_losses", "losses of its tensors are those of the last call"
)
_OWN_LOSSES = Patch(
    keras.Layer, "_get_own_losses", "losses of functions are among a layer's losses"
)
_METRICS_OF_LAYERS = Patch(keras.Layer, "add_metric", "layers add metrics to the logs")
_METRIC_RESULTS = Patch(keras.Metric, "__call__", "a metric's result tells the metric")
_FUNCTIONAL_CONFIGS = Patch(
    KerasFunctional, "from_config", "losses and metrics of a model's tensors are read"
)

_FUNCTIONS = "keras_2_loss_functions"
_METRIC = "keras_2_metric"


@keras.saving.register_keras_serializable("ipu_tf")
class AddLoss(keras.Layer):
    """Adds a tensor of a functional model to the model's loss."""

    def call(self, x: tf.Tensor) -> tf.Tensor:
        """Adds the loss; returns it."""
        self.add_loss(x)
        return x

    def compute_output_shape(self, input_shape: Any) -> Any:
        """Returns the shape of the loss."""
        return input_shape


@keras.saving.register_keras_serializable("ipu_tf")
class AddMetric(keras.Layer):
    """Logs the mean of a tensor of a functional model.

    Args:
        metric_name: The name in the logs.
        **kwargs: Arguments of `keras.Layer`.
    """

    def __init__(self, metric_name: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.mean = keras.metrics.Mean(name=metric_name)

    def call(self, x: tf.Tensor) -> tf.Tensor:
        """Updates the mean; returns the tensor."""
        self.mean.update_state(x)
        return x

    def compute_output_shape(self, input_shape: Any) -> Any:
        """Returns the shape of the tensor."""
        return input_shape

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments that make this layer."""
        return super().get_config() | {"metric_name": self.mean.name}


@keras.saving.register_keras_serializable("ipu_tf")
class MetricOf(keras.Layer):
    """Updates a metric with tensors of a functional model.

    Args:
        metric: The metric.
        **kwargs: Arguments of `keras.Layer`.
    """

    def __init__(self, metric: keras.Metric, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.metric = metric

    def call(self, *args: tf.Tensor, **kwargs: tf.Tensor) -> tf.Tensor:
        """Updates the metric; returns its result."""
        self.metric.update_state(*args, **kwargs)
        return tf.convert_to_tensor(self.metric.result())

    def compute_output_spec(self, *args: Any, **kwargs: Any) -> keras.KerasTensor:
        """Returns the result, a symbolic number."""
        return keras.KerasTensor((), dtype=self.metric.dtype)

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments that make this layer."""
        return super().get_config() | {"metric": keras.metrics.serialize(self.metric)}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> MetricOf:
        """Returns the layer of a configuration."""
        return cls(**config | {"metric": keras.metrics.deserialize(config["metric"])})


_TERMS = (AddLoss, AddMetric, MetricOf)


def _is_of_metric(value: Any) -> bool:
    """Returns whether a value is the symbolic result of a metric."""
    is_symbolic = isinstance(value, keras.KerasTensor)
    return is_symbolic and isinstance(history_of(value)[0], MetricOf)


def _add_losses(notify: Notify) -> Wrap:
    """Returns the factory of `add_loss`, which also takes functions and symbolic tensors."""

    def wrap(stock: Callable[..., None]) -> Callable[..., None]:
        def add_loss(layer: keras.Layer, losses: Any, inputs: Any = None) -> None:
            flat = keras.tree.flatten(losses)
            functions = [loss for loss in flat if callable(loss)]
            symbolic = [loss for loss in flat if isinstance(loss, keras.KerasTensor)]
            if functions or symbolic or inputs is not None:
                notify()
            vars(layer).setdefault(_FUNCTIONS, []).extend(functions)
            graph = graph_in(layer)
            if graph is not None:
                _compute_too(graph, [AddLoss()(loss) for loss in symbolic])
                flat = [loss for loss in flat if not isinstance(loss, keras.KerasTensor)]
            rest = [loss for loss in flat if not callable(loss)]
            if rest:
                stock(layer, [_tensor(loss) for loss in rest])

        return add_loss

    return wrap


def _layers_of_sequentials(notify: Notify) -> Wrap:
    """Returns the factory of the walk over the layers of a Sequential, with those of its terms."""
    del notify  # Given by `add_loss` and `add_metric`.

    def wrap(stock: Callable[..., Iterator[Any]]) -> Callable[..., Iterator[Any]]:
        def flatten_layers(model: keras.Sequential, *args: Any, **kwargs: Any) -> Iterator[Any]:
            yield from stock(model, *args, **kwargs)
            yield from _beside(model)

        return flatten_layers

    return wrap


def _clearing_sequentials(notify: Notify) -> Wrap:
    """Returns the factory of the method that forgets the losses of a call of a Sequential."""
    del notify  # Given by `add_loss`.

    def wrap(stock: Callable[..., None]) -> Callable[..., None]:
        def clear(model: keras.Sequential) -> None:
            stock(model)
            for layer in _beside(model):
                clear_losses(layer)

        return clear

    return wrap


def _beside(model: keras.Sequential) -> list[keras.Layer]:
    """Returns the layers that compute the terms of a Sequential."""
    graph = graph_in(model)
    return [] if graph is None else layers_beside(graph)


def _tensor(loss: Any) -> Any:
    """Returns a loss that is a number as a tensor."""
    return tf.convert_to_tensor(loss) if isinstance(loss, int | float) else loss


def _losses_of_functions(notify: Notify) -> Wrap:
    """Returns the factory of the losses of a layer itself, those of functions among them."""
    del notify  # Given by `add_loss`.

    def wrap(stock: Callable[..., list[Any]]) -> Callable[..., list[Any]]:
        def own_losses(layer: keras.Layer) -> list[Any]:
            values = [function() for function in vars(layer).get(_FUNCTIONS, ())]
            return [*stock(layer), *(value for value in values if value is not None)]

        return own_losses

    return wrap


def _add_metrics(notify: Notify) -> Wrap:
    """Returns the factory of `add_metric`, which Keras 3 has disabled."""

    def wrap(stock: Callable[..., None]) -> Callable[..., None]:
        del stock

        def add_metric(
            layer: keras.Layer, value: Any, name: str | None = None, aggregation: Any = "mean"
        ) -> None:
            notify()
            metric = getattr(value, _METRIC, None)
            if metric is not None:
                adopt_metric(layer, metric)
                _check_only_one(layer, metric.name)
                return
            graph = graph_in(layer)
            if graph is not None and _is_of_metric(value):
                _compute_too(graph, [value])
                return
            _check_metric(layer, value, name, aggregation)
            if graph is not None and isinstance(value, keras.KerasTensor):
                _compute_too(graph, [AddMetric(str(name))(value)])
                return
            _mean_named(layer, str(name)).update_state(value)

        return add_metric

    return wrap


def _check_only_one(layer: keras.Layer, name: str) -> None:
    """Checks that a layer itself has one metric of a name.

    Raises:
        ValueError: It has several, whose results the logs could not tell apart.
    """
    count = sum(metric.name == name for metric in own_metrics_of(layer))
    if count > 1:
        raise ValueError(
            f"`add_metric` of '{layer.name}': Please provide different names for the metrics you "
            f'have added. We found {count} metrics with the name: "{name}".'
        )


def _check_metric(layer: keras.Layer, value: Any, name: str | None, aggregation: Any) -> None:
    """Checks the arguments of `add_metric`.

    Raises:
        ValueError: The metric has no name, another aggregation than the mean, or is a symbolic
            tensor of no functional model.
    """
    if name is None:
        raise ValueError(
            f"`add_metric` of '{layer.name}': Please provide a name for your metric like "
            '`add_metric(tf.reduce_sum(x), name="sum")`. Received: name=None.'
        )
    if aggregation not in (None, "mean"):
        raise ValueError(
            f'`add_metric` of \'{layer.name}\': the aggregation of "{name}" is None or "mean". '
            f"Received: {aggregation!r}. Give a metric's result for any other."
        )
    if isinstance(value, keras.KerasTensor) and graph_in(layer) is None:
        raise ValueError(
            f"`add_metric` of '{layer.name}': \"{name}\" is a symbolic tensor, which only a "
            "functional model can compute. Call `add_metric` in `call`, or of the model "
            "keras.Model(inputs, outputs)."
        )


def _mean_named(layer: keras.Layer, name: str) -> keras.metrics.Mean:
    """Returns a layer's own metric of a name; makes it if there is none."""
    found = next((metric for metric in layer.metrics if metric.name == name), None)
    if found is None:
        found = keras.metrics.Mean(name=name)
        adopt_metric(layer, found)
    return found


def _compute_too(model: KerasFunctional, tensors: Sequence[keras.KerasTensor]) -> None:
    """Makes a functional model compute tensors that are not among its outputs."""
    if tensors:
        add_to_graph(model, tensors)


def _results_of_metrics(notify: Notify) -> Wrap:
    """Returns the factory of calls of metrics whose results tell the metric to `add_metric`."""
    del notify  # Given by `add_metric`.

    def wrap(stock: Callable[..., Any]) -> Callable[..., Any]:
        def call(metric: keras.Metric, *args: Any, **kwargs: Any) -> Any:
            if any(isinstance(x, keras.KerasTensor) for x in keras.tree.flatten((args, kwargs))):
                return MetricOf(metric)(*args, **kwargs)
            result = stock(metric, *args, **kwargs)
            if tf.is_tensor(result):
                setattr(result, _METRIC, metric)
            return result

        return call

    return wrap


def _reading_terms(notify: Notify) -> Wrap:
    """Returns the factory of `from_config`, which finds the added terms of a functional model."""
    del notify  # Given by `add_loss` and `add_metric`.

    def wrap(stock: Any) -> Any:
        def from_config(cls: Any, config: dict[str, Any], custom_objects: Any = None) -> Any:
            model = stock.__func__(cls, config, custom_objects=custom_objects)
            if isinstance(model, KerasFunctional):
                after = operations_after(model)
                added = [layer for layer in after if isinstance(layer, _TERMS)]
                _compute_too(model, [layer.output for layer in added])
            return model

        return classmethod(from_config)

    return wrap


SPELLINGS = (
    Spelling(
        name="`model.add_loss(tensor)` of a functional model or a Sequential, "
        "`add_loss(function)`, `add_loss(loss, inputs=)`",
        keras_2="A term of the loss; a function was called at each step.",
        here="The model computes the tensor beside its outputs, as a layer that is saved with a "
        "functional model, and a function is called at each step.",
        wraps=MappingProxyType(
            {
                _LOSSES_OF_LAYERS: _add_losses,
                _LOSSES_OF_MODELS: _add_losses,
                _LAYERS_OF_SEQUENTIALS: _layers_of_sequentials,
                _CLEARED_SEQUENTIALS: _clearing_sequentials,
                _OWN_LOSSES: _losses_of_functions,
                _FUNCTIONAL_CONFIGS: _reading_terms,
            }
        ),
    ),
    Spelling(
        name="`layer.add_metric(tensor, name=)`, `model.add_metric(tensor, name=)`, "
        "`add_metric(metric(tensor))`",
        keras_2="The logs had the mean of the tensor, or the result of a metric, over an epoch.",
        here="The layer, or one that the functional model computes beside its outputs, has a "
        "`keras.metrics.Mean`; the result of a metric makes it a metric of the layer.",
        wraps=MappingProxyType(
            {
                _METRICS_OF_LAYERS: _add_metrics,
                _METRIC_RESULTS: _results_of_metrics,
            }
        ),
    ),
)
