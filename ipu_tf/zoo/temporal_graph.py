"""A temporal graph network: nodes with a memory, and attention to their last events.

Source: Rossi et al., "Temporal Graph Networks for Deep Learning on Dynamic Graphs", arXiv
2006.10637, sections 3.1 and 5, with the sizes of the Wikipedia data set: 9,227 nodes, 172 features
of events, 200 events a batch, ten neighbours. One layer of attention, and a perceptron that tells
whether two nodes interact. The host finds the neighbours.
"""

from __future__ import annotations

from typing import Any

import keras
from keras import layers

from ipu_tf.zoo.stage_placement import WHOLE, Block, StagePlacement, chain

_ENDS = 3
"""Nodes of an event: source, destination, and a random node that tells nothing happened."""


def tgn(
    *,
    nodes: int = 9227,
    features: int = 172,
    time_features: int = 100,
    neighbours: int = 10,
    heads: int = 2,
    placement: StagePlacement = WHOLE,
) -> keras.Model:
    """Returns a temporal graph network, from events to the logits of the true and the random pair.

    Inputs are the three nodes of an event, int32[batch, 3], their neighbours,
    int32[batch, 3, neighbours], the features of the events that joined them, float32[batch, 3,
    neighbours, features], and the times since then, float32[batch, 3, neighbours]. Blocks are
    "memory", "attention" and "decoder".
    """
    ends = keras.Input((_ENDS,), dtype="int32", name="nodes")
    near = keras.Input((_ENDS, neighbours), dtype="int32", name="neighbours")
    events = keras.Input((_ENDS, neighbours, features), name="events")
    times = keras.Input((_ENDS, neighbours), name="times")
    width = features

    def memory(numbers: Any) -> list[Any]:
        table = NodeMemory(nodes, width, name="memory")
        encoded = TimeEncoding(time_features, name="memory_times")(times)
        newest = layers.Concatenate(name="memory_message")([events[:, :, 0], encoded[:, :, 0]])
        return [*table([numbers, near, newest]), encoded]

    def attention(values: list[Any]) -> Any:
        states, neighbour_states, time_codes = values
        keys = layers.Concatenate(name="attention_keys")([neighbour_states, events, time_codes])
        messages = NeighbourAttention(heads, width // heads, name="attention")([states, keys])
        x = layers.Concatenate(name="attention_both")([states, messages])
        x = layers.Dense(width, activation="relu", name="attention_merge_1")(x)
        return layers.Dense(width, name="attention_merge_2")(x)

    def decoder(x: Any) -> Any:
        hidden = layers.Dense(width, activation="relu", name="decoder_hidden")
        logit = layers.Dense(1, name="decoder_logit")
        pairs = [
            logit(hidden(layers.Concatenate(name=f"decoder_{kind}")([x[:, 0], x[:, end]])))
            for kind, end in (("true", 1), ("random", 2))
        ]
        return layers.Concatenate(name="logits")(pairs)

    blocks: list[Block] = [("memory", memory), ("attention", attention), ("decoder", decoder)]
    return keras.Model([ends, near, events, times], chain(ends, blocks, placement), name="tgn")


@keras.saving.register_keras_serializable("ipu_tf.zoo")
class NodeMemory(layers.Layer):
    """Keeps a state for every node, which a gated recurrent unit updates with each event.

    Args:
        nodes: Number of nodes.
        width: Channels of a state.
    """

    def __init__(self, nodes: int, width: int, **kwargs: object) -> None:
        super().__init__(**kwargs)
        self.nodes = nodes
        self.width = width
        self.cell = layers.GRUCell(width)

    def build(self, input_shape: tuple[tuple[int, ...], ...]) -> None:
        """Makes the states, which no gradient trains, and the unit."""
        self.states = self.add_weight(
            shape=(self.nodes, self.width), initializer="zeros", trainable=False, name="states"
        )
        self.cell.build((None, input_shape[2][-1]))

    def call(self, inputs: keras.KerasTensor, training: bool = False) -> keras.KerasTensor:
        """Returns the states of nodes and of their neighbours; in training, keeps the new states.

        Args:
            inputs: Nodes int32[batch, n], neighbours int32[batch, n, k], messages [batch, n, m].
            training: Whether the source's and the destination's new states are kept.
        """
        nodes, neighbours, messages = inputs
        before = keras.ops.take(self.states, keras.ops.reshape(nodes, (-1,)), axis=0)
        rows = keras.ops.reshape(messages, (-1, messages.shape[-1]))
        after = keras.ops.reshape(self.cell(rows, [before])[0], (-1, nodes.shape[1], self.width))
        if training:
            event_nodes = keras.ops.reshape(nodes[:, :2], (-1, 1))
            states = keras.ops.reshape(after[:, :2], (-1, self.width))
            states = keras.ops.cast(keras.ops.stop_gradient(states), self.states.dtype)
            self.states.assign(keras.ops.scatter_update(self.states, event_nodes, states))
        return [after, keras.ops.take(self.states, neighbours, axis=0)]

    def get_config(self) -> dict[str, object]:
        """Returns the arguments that make an equal layer."""
        return {**super().get_config(), "nodes": self.nodes, "width": self.width}


@keras.saving.register_keras_serializable("ipu_tf.zoo")
class TimeEncoding(layers.Layer):
    """Encodes times by cosines of learnt frequencies: [...] gives [..., width].

    Args:
        width: Number of frequencies.
    """

    def __init__(self, width: int, **kwargs: object) -> None:
        super().__init__(**kwargs)
        self.width = width

    def build(self, input_shape: tuple[int, ...]) -> None:
        """Makes frequencies and phases."""
        del input_shape
        self.frequencies = self.add_weight(shape=(self.width,), initializer="random_normal")
        self.phases = self.add_weight(shape=(self.width,), initializer="zeros")

    def call(self, times: keras.KerasTensor) -> keras.KerasTensor:
        """Returns the cosines of every time."""
        return keras.ops.cos(times[..., None] * self.frequencies + self.phases)

    def get_config(self) -> dict[str, object]:
        """Returns the arguments that make an equal layer."""
        return {**super().get_config(), "width": self.width}


@keras.saving.register_keras_serializable("ipu_tf.zoo")
class NeighbourAttention(layers.Layer):
    """Attends from nodes [batch, n, width] to their neighbours [batch, n, k, channels].

    Args:
        heads: Number of heads.
        head_width: Channels of a head.
    """

    def __init__(self, heads: int, head_width: int, **kwargs: object) -> None:
        super().__init__(**kwargs)
        self.heads = heads
        self.head_width = head_width
        width = heads * head_width
        self.query, self.key, self.value, self.out = (layers.Dense(width) for _ in range(4))

    def build(self, input_shape: tuple[tuple[int, ...], ...]) -> None:
        """Makes the projections."""
        node_shape, neighbour_shape = input_shape
        self.query.build(node_shape)
        self.key.build(neighbour_shape)
        self.value.build(neighbour_shape)
        self.out.build((*node_shape[:-1], self.heads * self.head_width))

    def call(self, inputs: keras.KerasTensor) -> keras.KerasTensor:
        """Returns what every node finds, [batch, n, heads * head_width]."""
        nodes, neighbours = inputs
        split = (self.heads, self.head_width)
        query = keras.ops.reshape(self.query(nodes), (-1, *nodes.shape[1:-1], *split))
        key, value = (
            keras.ops.reshape(projection(neighbours), (-1, *neighbours.shape[1:-1], *split))
            for projection in (self.key, self.value)
        )
        scores = keras.ops.einsum("bnhc,bnkhc->bnhk", query, key) / self.head_width**0.5
        messages = keras.ops.einsum("bnhk,bnkhc->bnhc", keras.ops.softmax(scores), value)
        return self.out(
            keras.ops.reshape(messages, (-1, *nodes.shape[1:-1], self.heads * split[1]))
        )

    def get_config(self) -> dict[str, object]:
        """Returns the arguments that make an equal layer."""
        return {**super().get_config(), "heads": self.heads, "head_width": self.head_width}
