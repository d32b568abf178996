"""Networks for graphs: message passing, and SchNet.

All take packed graphs: the nodes of a batch of graphs are the rows of one tensor, and so are its
edges. The leading sizes of the inputs differ, so estimates take `batch_axis=None`.

Sources: Gilmer et al., "Neural Message Passing for Quantum Chemistry", arXiv 1704.01212, sections
2 and 5: messages of a perceptron of both nodes and the edge, updates of a gated recurrent unit.
Schütt et al., "SchNet: A Continuous-Filter Convolutional Neural Network for Modeling Quantum
Interactions", arXiv 1706.08566, section 4.
"""

from __future__ import annotations

from typing import Any

import keras
from keras import layers

from ipu_tf.zoo.layers import Rows, RowSums
from ipu_tf.zoo.stage_placement import WHOLE, Block, StagePlacement, chain

_NODE_FEATURES = 13
_EDGE_FEATURES = 5
_ELEMENTS = 100
_LOG_2 = 0.6931471805599453


def mpnn(
    *,
    graphs: int = 32,
    nodes: int = 576,
    edges: int = 1216,
    width: int = 64,
    steps: int = 4,
    placement: StagePlacement = WHOLE,
) -> keras.Model:
    """Returns a network of message passing, from packed graphs to a number for each graph.

    Inputs are the features of nodes and edges, float32[nodes, 13] and float32[edges, 5], the nodes
    at both ends of edges, int32[edges], and the graph of every node, int32[nodes]. Sizes are those
    of 32 molecules of QM9. Blocks are "embedding", steps "0" on, and "readout".
    """
    features = _rows(nodes, "nodes", _NODE_FEATURES)
    edge_features = _rows(edges, "edges", _EDGE_FEATURES)
    sender, receiver = _numbers(edges, "senders", "receivers")
    (graph,) = _numbers(nodes, "graph_of_nodes")
    update = layers.GRUCell(width, name="update")  # One unit for all steps, as published.

    def step(number: int) -> Any:
        def block(state: Any) -> Any:
            ends = [Rows(name=f"{number}_{end.name}")([state, end]) for end in (sender, receiver)]
            x = layers.Concatenate(name=f"{number}_pairs")([*ends, edge_features])
            x = layers.Dense(width, activation="relu", name=f"{number}_message_1")(x)
            x = layers.Dense(width, name=f"{number}_message_2")(x)
            message = RowSums(nodes, name=f"{number}_sum")([x, receiver])
            return CellUpdate(update, name=f"{number}_update")([message, state])

        return block

    def readout(state: Any) -> Any:
        both = layers.Concatenate(name="readout_states")([state, features])
        gate = layers.Dense(width, activation="sigmoid", name="readout_gate")(both)
        value = layers.Dense(width, name="readout_value")(state)
        x = layers.Multiply(name="readout_gated")([gate, value])
        x = RowSums(graphs, name="readout_sum")([x, graph])
        return layers.Dense(1, name="property")(x)

    blocks: list[Block] = [("embedding", layers.Dense(width, name="embedding"))]
    blocks += [(str(number), step(number)) for number in range(steps)]
    blocks.append(("readout", readout))
    inputs = [features, edge_features, sender, receiver, graph]
    return keras.Model(inputs, chain(features, blocks, placement), name="mpnn")


def schnet(
    *,
    molecules: int = 32,
    atoms: int = 576,
    pairs: int = 9792,
    width: int = 64,
    interactions: int = 3,
    gaussians: int = 300,
    cutoff: float = 30.0,
    placement: StagePlacement = WHOLE,
) -> keras.Model:
    """Returns SchNet, from packed molecules to the energy of each.

    Inputs are the element of every atom, int32[atoms], the distances of pairs of atoms in angstrom,
    float32[pairs], the atoms of the pairs, int32[pairs], and the molecule of every atom,
    int32[atoms]. Blocks are "embedding", interactions "0" on, and "energy".
    """
    (element, molecule) = _numbers(atoms, "elements", "molecule_of_atoms")
    distance = keras.Input(batch_shape=(pairs,), name="distances")
    first, second = _numbers(pairs, "first", "second")
    radial = GaussianBasis(gaussians, cutoff, name="gaussians")(distance)

    def interaction(number: int) -> Any:
        def block(x: Any) -> Any:
            filters = layers.Dense(width, shifted_softplus, name=f"{number}_filter_1")(radial)
            filters = layers.Dense(width, shifted_softplus, name=f"{number}_filter_2")(filters)
            y = layers.Dense(width, use_bias=False, name=f"{number}_in")(x)
            y = Rows(name=f"{number}_neighbours")([y, second])
            y = layers.Multiply(name=f"{number}_filtered")([y, filters])
            y = RowSums(atoms, name=f"{number}_sum")([y, first])
            y = layers.Dense(width, shifted_softplus, name=f"{number}_out_1")(y)
            y = layers.Dense(width, name=f"{number}_out_2")(y)
            return layers.Add(name=f"{number}_residual")([x, y])

        return block

    def energy(x: Any) -> Any:
        x = layers.Dense(width // 2, shifted_softplus, name="energy_hidden")(x)
        x = layers.Dense(1, name="energy_of_atoms")(x)
        return RowSums(molecules, name="energy")([x, molecule])

    blocks: list[Block] = [("embedding", layers.Embedding(_ELEMENTS, width, name="embedding"))]
    blocks += [(str(number), interaction(number)) for number in range(interactions)]
    blocks.append(("energy", energy))
    inputs = [element, distance, first, second, molecule]
    return keras.Model(inputs, chain(element, blocks, placement), name="schnet")


def _rows(number: int, name: str, features: int) -> Any:
    return keras.Input(batch_shape=(number, features), name=name)


def _numbers(length: int, *names: str) -> list[Any]:
    return [keras.Input(batch_shape=(length,), dtype="int32", name=name) for name in names]


@keras.saving.register_keras_serializable("ipu_tf.zoo")
def shifted_softplus(x: keras.KerasTensor) -> keras.KerasTensor:
    """Returns the softplus less the logarithm of 2, which is 0 at 0."""
    return keras.ops.softplus(x) - _LOG_2


@keras.saving.register_keras_serializable("ipu_tf.zoo")
class GaussianBasis(layers.Layer):
    """Expands distances in Gaussians: float[pairs] gives float[pairs, gaussians].

    Args:
        gaussians: Their number, evenly spaced from 0 to `cutoff`.
        cutoff: The largest centre.
    """

    def __init__(self, gaussians: int, cutoff: float, **kwargs: object) -> None:
        super().__init__(**kwargs)
        self.gaussians = gaussians
        self.cutoff = cutoff

    def call(self, distance: keras.KerasTensor) -> keras.KerasTensor:
        """Returns the Gaussians of every distance."""
        spacing = self.cutoff / self.gaussians
        centres = spacing * keras.ops.arange(self.gaussians, dtype=self.compute_dtype)
        # The published width, 10 per square angstrom, belongs to a spacing of 0.1 angstrom.
        gamma = 0.1 / spacing**2
        return keras.ops.exp(-gamma * keras.ops.square(distance[:, None] - centres))

    def get_config(self) -> dict[str, object]:
        """Returns the arguments that make an equal layer."""
        return {**super().get_config(), "gaussians": self.gaussians, "cutoff": self.cutoff}


@keras.saving.register_keras_serializable("ipu_tf.zoo")
class CellUpdate(layers.Layer):
    """Runs one step of a recurrent cell: inputs and states [rows, width] give new states.

    Args:
        cell: The cell, which several updates may share.
    """

    def __init__(self, cell: keras.Layer, **kwargs: object) -> None:
        super().__init__(**kwargs)
        self.cell = cell

    def build(self, input_shape: tuple[int, ...]) -> None:
        """Builds the cell."""
        if not self.cell.built:
            self.cell.build(input_shape[0])

    def call(self, inputs: keras.KerasTensor) -> keras.KerasTensor:
        """Returns the new states; inputs are the cell's input and its states."""
        values, states = inputs
        return self.cell(values, [states])[0]

    def get_config(self) -> dict[str, object]:
        """Returns the arguments that make an equal layer."""
        return {**super().get_config(), "cell": keras.saving.serialize_keras_object(self.cell)}
