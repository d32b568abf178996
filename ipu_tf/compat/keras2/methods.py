"""Methods and attributes of layers, models and metrics that Keras 3 lacks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from ipu_tf.compat.keras2.initialization import adopt_or_keep
from ipu_tf.compat.spellings.spelling import Notify, Spelling, called_by_library
from ipu_tf.internals.keras_graphs import graph_in, inbound_nodes
from ipu_tf.internals.keras_layers import stored_weight, tracks_attributes
from ipu_tf.internals.patches import Patch, Wrap

_LAYER_ATTRIBUTES = Patch(keras.Layer, "__setattr__", "variables of TensorFlow become weights")
_LAYER_LOCKS = Patch(keras.Layer, "_lock_state", "built layers may get further layers and weights")
_LAYER_METHODS = tuple(
    Patch(keras.Layer, name, "layers have the methods of Keras 2", is_new=True)
    for name in ("add_update", "input_shape", "output_shape", "updates", "_compute_dtype")
)
_LAYER_FLAGS = tuple(
    Patch(keras.Layer, name, "layers have the attributes of Keras 2", is_new=True)
    for name in ("dynamic", "stateful")
)
_MODEL_METHODS = tuple(
    Patch(keras.Model, name, "models have the methods of Keras 2", is_new=True)
    for name in (
        "predict_classes",
        "predict_proba",
        "reset_states",
        "state_updates",
        "to_yaml",
        "_get_distribution_strategy",
        "_is_graph_network",
    )
)
_STATE_RESETS = tuple(
    Patch(owner, "reset_states", "states are reset by their name in Keras 2", is_new=True)
    for owner in (keras.Metric, keras.layers.RNN)
)


class LayerMethods:
    """The methods of layers; `self` is a layer."""

    input: Any
    output: Any
    trainable: bool
    compute_dtype: str

    def add_update(self, updates: Any, inputs: Any = None) -> None:
        """Calls those updates that are functions: assignments have run where they were written.

        The functions of a layer that does not train are not called.
        """
        del inputs
        for update in keras.tree.flatten(updates):
            if callable(update) and self.trainable:
                update()

    @property
    def updates(self) -> list[Any]:
        """Nothing: updates have run."""
        return []

    @property
    def _compute_dtype(self) -> str:
        """The dtype of the layer's computation."""
        return self.compute_dtype

    @property
    def dynamic(self) -> bool:
        """Never: Keras 3 makes no layer with `dynamic=True`."""
        return False

    @property
    def stateful(self) -> bool:
        """Whether a layer of the model is stateful; a layer with a state says so itself."""
        return _is_stateful(self)

    @property
    def input_shape(self) -> Any:
        """The shapes of the first argument of the one symbolic call."""
        return keras.tree.map_structure(lambda tensor: tuple(tensor.shape), _first_input(self))

    @property
    def output_shape(self) -> Any:
        """The shapes of the outputs of the one symbolic call."""
        return keras.tree.map_structure(lambda tensor: tuple(tensor.shape), self.output)


def _is_stateful(layer: Any) -> bool:
    """Returns whether a layer says that it keeps a state, or has a layer that does."""
    if getattr(layer, "stateful", False):
        return True
    return isinstance(layer, keras.Model) and any(map(_is_stateful, layer.layers))


def _first_input(layer: Any) -> Any:
    """Returns the first argument of the one symbolic call; of a model, its inputs."""
    nodes = inbound_nodes(layer)
    if len(nodes) != 1 or isinstance(layer, keras.Model | keras.layers.InputLayer):
        return layer.input
    arguments = nodes[0].arguments
    if arguments.args:
        return arguments.args[0]
    return arguments.kwargs[layer.call_signature_parameters[0]]


class ModelMethods:
    """The methods of models; `self` is a model."""

    name: str
    layers: list[Any]
    distribute_strategy: tf.distribute.Strategy
    predict: Callable[..., Any]

    def predict_proba(self, x: Any, batch_size: int | None = None, verbose: Any = 0) -> Any:
        """Returns the outputs."""
        return self.predict(x, batch_size=batch_size, verbose=verbose)

    def predict_classes(self, x: Any, batch_size: int | None = None, verbose: Any = 0) -> Any:
        """Returns the classes of the largest outputs, or whether the one output exceeds 0.5."""
        outputs = self.predict(x, batch_size=batch_size, verbose=verbose)
        if outputs.shape[-1] > 1:
            return outputs.argmax(axis=-1)
        return (outputs > 0.5).astype(np.int32)

    def to_yaml(self, **kwargs: Any) -> str:
        """Raises: Keras 2 removed YAML itself, as it can run any code.

        Raises:
            RuntimeError: Always.
        """
        raise RuntimeError(
            f"to_yaml of model '{self.name}': reading YAML may run any code, so Keras has dropped "
            "it. Use to_json."
        )

    def reset_states(self) -> None:
        """Resets the states of stateful layers."""
        for layer in self.layers:
            if hasattr(layer, "reset_state"):
                layer.reset_state()

    def _get_distribution_strategy(self) -> tf.distribute.Strategy:
        """Returns the strategy of the model."""
        return self.distribute_strategy

    @property
    def _is_graph_network(self) -> bool:
        """Whether the model is a graph of layers."""
        return graph_in(self) is not None

    @property
    def state_updates(self) -> list[Any]:
        """Nothing: layers assign their states when they are called."""
        return []


def _reset_metric(metric: keras.Metric) -> None:
    """Resets the state of a metric."""
    metric.reset_state()


def _reset_rnn(layer: Any, states: Any = None) -> None:
    """Sets the states of a stateful recurrent layer: to zero, or to arrays.

    Raises:
        AttributeError: The layer keeps no states.
        ValueError: There are more or fewer arrays than states, or the layer is not built.
    """
    if states is None:
        layer.reset_state()
        return
    if not layer.stateful:
        raise AttributeError("Layer must be stateful.")
    own, given = keras.tree.flatten(layer.states or ()), keras.tree.flatten(states)
    if len(own) != len(given):
        raise ValueError(
            f"reset_states of layer '{layer.name}': it has {len(own)} states"
            f"{'' if own else ' until it is called'}. Received: {len(given)} arrays."
        )
    for state, value in zip(own, given, strict=True):
        state.assign(value)


_MEMBERS: Mapping[str, Any] = MappingProxyType(
    {
        name: member
        for methods in (LayerMethods, ModelMethods)
        for name, member in vars(methods).items()
        if not name.startswith("__")
    }
)


def _added(patch: Patch) -> Callable[[Notify], Wrap]:
    """Returns the factory of a method or a property that a class of Keras 3 lacks."""
    resets: Mapping[Any, Any] = {keras.Metric: _reset_metric, keras.layers.RNN: _reset_rnn}
    member = resets.get(patch.owner) or _MEMBERS[patch.name]

    def of_notify(notify: Notify) -> Wrap:
        if isinstance(member, property):
            return lambda stock: _Attribute(patch.name, member, notify)

        def noticed(*args: Any, **kwargs: Any) -> Any:
            notify()
            return member(*args, **kwargs)

        return lambda stock: noticed

    return of_notify


class _Attribute:
    """An attribute that a class of Keras 3 lacks; an owner's own value of that name goes first.

    Args:
        name: Its name.
        member: The property that computes it.
        notify: Logs its use.
    """

    def __init__(self, name: str, member: property, notify: Notify) -> None:
        self._name, self._member, self._notify = name, member, notify

    def __get__(self, owner: Any, kind: type) -> Any:
        """Returns the value for an object, and itself for the class."""
        if owner is None:
            return self
        if called_by_library():
            # Keras reads all attributes of a layer that it saves.
            raise AttributeError(self._name)
        self._notify()
        return self._member.__get__(owner, kind)


def _tracking(notify: Notify) -> Wrap:
    """Returns the factory of `Layer.__setattr__`, which makes variables weights of the layer.

    It makes nothing a part of a layer whose tracking a script has switched off.
    """

    def wrap(stock: Callable[..., None]) -> Callable[..., None]:
        def set_attribute(layer: keras.Layer, name: str, value: Any) -> None:
            is_of_library = called_by_library()
            if not is_of_library and not tracks_attributes(layer):
                object.__setattr__(layer, name, value)
                return
            stored = stored_weight(layer, name) if tf.is_tensor(value) else None
            if stored is not None:
                notify()
            stock(layer, stored or name, value)
            if is_of_library:
                return  # Layers of libraries make their weights as Keras 3 has it.
            values = value if isinstance(value, list | tuple) else (value,)
            for variable in values:
                if isinstance(variable, tf.Variable):
                    notify()
                    adopt_or_keep(layer, variable)

        return set_attribute

    return wrap


def _unlocked(notify: Notify) -> Wrap:
    """Returns the factory of the method that refuses new parts of a layer once it is built."""
    del notify  # A layer that gets no further parts is as it was.

    def wrap(stock: Callable[..., None]) -> Callable[..., None]:
        def lock_state(layer: keras.Layer) -> None:
            if type(layer).__module__.startswith("keras."):
                stock(layer)

        return lock_state

    return wrap


SPELLINGS = (
    Spelling(
        name="`layer.add_update`, `layer.updates`, `layer.input_shape`, `layer.output_shape`, "
        "`layer._compute_dtype`",
        keras_2="Updates that ran after a step, unless the layer was frozen, shapes of a layer of "
        "a functional model, and the dtype of the computation.",
        here="Updates that are functions run at once, unless the layer is frozen; assignments have "
        "run, so `updates` is empty. The shapes are those of the one symbolic call: of its first "
        "argument, and of its results.",
        wraps=MappingProxyType({patch: _added(patch) for patch in _LAYER_METHODS}),
    ),
    Spelling(
        name="`model.predict_classes`, `predict_proba`, `reset_states`, `state_updates`, "
        "`to_yaml`, `_get_distribution_strategy`, `_is_graph_network`",
        keras_2="Classes and outputs, and the state, the strategy and the kind of a model.",
        here="They are computed from `predict`, `reset_state`, `distribute_strategy` and the "
        "layers. `to_yaml` raises, as in Keras 2.6.",
        wraps=MappingProxyType({patch: _added(patch) for patch in _MODEL_METHODS}),
    ),
    Spelling(
        name="`layer.dynamic`, `layer.stateful`",
        keras_2="Whether a layer or a model runs eagerly alone, and whether it keeps a state.",
        here="`dynamic` is false, as Keras 3 makes no such layer. A model is stateful if one of "
        "its layers is.",
        wraps=MappingProxyType({patch: _added(patch) for patch in _LAYER_FLAGS}),
    ),
    Spelling(
        name="`metric.reset_states`, `rnn.reset_states(states=)`",
        keras_2="They reset the state, or set that of a recurrent layer.",
        here="They call `reset_state`, or set the state.",
        wraps=MappingProxyType({patch: _added(patch) for patch in _STATE_RESETS}),
    ),
    Spelling(
        name="`layer.dense = Dense(2)` on a built layer",
        keras_2="Layers of scripts got further layers and weights at any time.",
        here="They do; Keras 3 alone refuses them once the layer is built.",
        wraps=MappingProxyType({_LAYER_LOCKS: _unlocked}),
    ),
    Spelling(
        name="`layer.kernel = tf.Variable(...)`, `layer.kernel = tensor`",
        keras_2="The variable was a weight of the layer; the layer computed with the tensor.",
        here="It is a weight of the layer; Keras 3 alone would not train it. The layer computes "
        "with the tensor, and keeps the weight that it was made with.",
        wraps=MappingProxyType({_LAYER_ATTRIBUTES: _tracking}),
    ),
)
