"""Finds equal blocks in a functional model, and lets a trace call the outer four of them alone."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import keras

from ipu_tf.compiler.equal_blocks.repetition import TRACED, BlockNames, Repetition
from ipu_tf.internals.keras import KerasFunctional, KerasNode
from ipu_tf.internals.keras_graphs import history_of, nodes_at_depths, with_calls_alone
from ipu_tf.internals.keras_layers import layers_within, seed_generators_of
from ipu_tf.internals.keras_optimizers import exempts_weights
from ipu_tf.keras.keras3.equal_updates import STOCK_OPTIMIZERS
from ipu_tf.keras.keras3.graph_adapter import GRAPHS
from ipu_tf.keras.keras3.own_code import is_class_of_ours, is_of_ours, runs_own_code

_LEAST_COPIES = 2
"""Blocks from which leaving them out of a trace saves time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FunctionalBlocks:
    """Equal blocks of calls that follow each other in a functional model.

    Attributes:
        model: The model.
        calls: All calls of the model, in order, without those of its inputs.
        first: Where the first block begins.
        length: Calls of a block.
        count: Number of blocks.
    """

    model: KerasFunctional
    calls: Sequence[KerasNode]
    first: int
    length: int
    count: int

    @property
    def repetition(self) -> Repetition:
        """The blocks as the compiler sees them."""
        names = [[*self._names(block)] for block in range(self.count)]
        own = [len(set(alike)) == self.count for alike in zip(*names, strict=True)]
        return Repetition(
            [
                BlockNames(
                    layers=tuple(itertools.compress(names[block], own)),
                    variables=tuple(self._variables(block)),
                )
                for block in range(self.count)
            ]
        )

    def outer_blocks_alone(self) -> AbstractContextManager[None]:
        """Returns a context in which the model has and calls the first and the last two alone."""
        left_out = [call for block in range(2, self.count - 2) for call in self._block(block)]
        last, second = self._block(self.count - 3), self._block(1)
        bridge = _Bridge(
            input_tensors=[tensor for call in second for tensor in call.outputs],
            outputs=[tensor for call in last for tensor in call.outputs],
        )
        ids = {id(call) for call in left_out}
        calls: dict[int, Sequence[object]] = {}
        is_bridged = False
        for depth, nodes in nodes_at_depths(self.model).items():
            outer_calls: list[object] = [node for node in nodes if id(node) not in ids]
            if len(outer_calls) < len(nodes) and not is_bridged:
                is_bridged = True
                outer_calls.append(bridge)
            calls[depth] = outer_calls
        without = {id(call.operation) for call in left_out}
        return with_calls_alone(self.model, calls, _Identities(without))

    def _block(self, number: int) -> Sequence[KerasNode]:
        begin = self.first + number * self.length
        return self.calls[begin : begin + self.length]

    def _names(self, number: int) -> Iterator[str]:
        """Yields the names of a block's layers, and of what is in them."""
        for call in self._block(number):
            operation = call.operation
            yield operation.name
            if isinstance(operation, keras.Layer):
                within = layers_within(operation)
                yield from (layer.name for layer in within)
                for layer in (operation, *within):
                    yield from (generator.name for generator in seed_generators_of(layer))

    def _variables(self, number: int) -> Iterator[str]:
        """Yields the paths of a block's variables as optimizers write them."""
        for call in self._block(number):
            if isinstance(call.operation, keras.Layer):
                yield from (one.path.replace("/", "_") for one in call.operation.variables)


class _Identities:
    """Objects told by their identity: layers have no order and may define equality.

    Args:
        ids: Their ids.
    """

    def __init__(self, ids: set[int]) -> None:
        self._ids = ids

    def __contains__(self, value: object) -> bool:
        return id(value) in self._ids


class _PassingOn:
    """An operation that returns its arguments."""

    name = "equal_blocks"

    def __call__(self, *values: object) -> list[object]:
        """Returns values."""
        return list(values)

    def compute_output_spec(self, *values: object) -> list[object]:
        """Returns symbolic values."""
        return list(values)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Bridge:
    """A call of a graph that passes on the results of a block as those of a later, equal one.

    Attributes:
        input_tensors: The symbolic results of the one.
        outputs: Those of the other.
        is_input: Whether it brings an input.
    """

    input_tensors: Sequence[keras.KerasTensor]
    outputs: Sequence[keras.KerasTensor]
    is_input: bool = False

    @property
    def operation(self) -> _PassingOn:
        """What is called."""
        return _PassingOn()

    @property
    def arguments(self) -> _Bridge:
        """The arguments of the call."""
        return self

    def fill_in(self, values: Mapping[int, object]) -> tuple[tuple[object, ...], dict[str, object]]:
        """Returns the arguments, from values by the ids of symbolic tensors."""
        return tuple(values[id(tensor)] for tensor in self.input_tensors), {}


def equal_blocks_of(model: keras.Model, *, training: bool) -> FunctionalBlocks | None:
    """Returns the equal blocks of a model that a trace may leave out; None if it has none.

    Their layers are Keras' or of this package, and each is called once. Two layers are equal if
    class, configuration, and the shapes and types of their results and variables are; they may
    begin with other values. The layers of a block read those of their own and the last block, and
    what comes before the blocks.

    Args:
        model: A built model.
        training: Whether its optimizer updates it.
    """
    if not isinstance(model, KerasFunctional) or GRAPHS.overrides_call(model):
        return None
    if not is_class_of_ours(type(model)):
        return None
    if training and (runs_own_code(model) or not _updates_apart(model.optimizer)):
        return None
    calls = [node for node in GRAPHS.nodes_by_depth(model) if not node.is_input]
    blocks = _longest_run(model, calls)
    return blocks if blocks is not None and _is_chain(blocks) else None


def _updates_apart(optimizer: keras.optimizers.Optimizer) -> bool:
    """Returns whether an optimizer updates every weight on its own and by the same rule.

    One that cannot be copied, by a schedule of a script's, is said not to.
    """
    if type(optimizer) not in STOCK_OPTIMIZERS or exempts_weights(optimizer):
        return False
    rate = optimizer.get_config()["learning_rate"]
    is_stock = not isinstance(rate, dict) or str(rate["module"]).startswith("keras.")
    return optimizer.global_clipnorm is None and is_stock


@dataclass(frozen=True, slots=True, kw_only=True)
class _Call:
    """A call as it is compared with others.

    Attributes:
        kind: What is called, and with what besides tensors.
        sources: Where each operand comes from: the number of the call, a negative one for what no
            call of the model makes, and the number of its result.
    """

    kind: object
    sources: tuple[tuple[int, int], ...]


def _longest_run(model: KerasFunctional, calls: Sequence[KerasNode]) -> FunctionalBlocks | None:
    """Returns the blocks that save most calls, and of these the shortest ones."""
    comparison = _calls_to_compare(model, calls)
    best: FunctionalBlocks | None = None
    most = 0
    for length in range(1, len(calls) // (TRACED + _LEAST_COPIES) + 1):
        for begin, end in _equal_runs(comparison, length):
            count = (end - begin) // length
            gain = (count - TRACED) * length
            if count >= TRACED + _LEAST_COPIES and gain > most:
                most = gain
                best = FunctionalBlocks(
                    model=model, calls=calls, first=begin, length=length, count=count
                )
    return best


def _equal_runs(comparison: Sequence[_Call], length: int) -> Iterator[tuple[int, int]]:
    """Yields the longest ranges in which each call equals the one `length` calls before it."""
    begin = 0
    for place in range(len(comparison) - length + 1):
        if place < len(comparison) - length and _follows(
            comparison[place], comparison[place + length], length
        ):
            continue
        if place > begin:
            yield begin, place + length
        begin = place + 1


def _follows(call: _Call, later: _Call, length: int) -> bool:
    """Returns whether a call equals one that is `length` calls before it.

    Their operands come from calls that are as far apart, or from the same one.
    """
    return call.kind == later.kind and all(
        result == later_result and (source == later_source or source + length == later_source)
        for (source, result), (later_source, later_result) in zip(
            call.sources, later.sources, strict=True
        )
    )


def _is_chain(blocks: FunctionalBlocks) -> bool:
    """Returns whether what is left out is read by the block after it alone, and no result."""
    begin = blocks.first + 2 * blocks.length
    end = blocks.first + (blocks.count - 2) * blocks.length
    last = end - blocks.length
    places = {id(call): place for place, call in enumerate(blocks.calls)}

    def place_of(tensor: keras.KerasTensor) -> int:
        producer = GRAPHS.producer_of(tensor)
        return -1 if producer is None else places.get(id(producer), -1)

    if any(begin <= place_of(tensor) < end for tensor in blocks.model.outputs):
        return False
    for place, call in enumerate(blocks.calls):
        if begin <= place < end:
            continue
        for tensor in GRAPHS.operands_of(call):
            source = place_of(tensor)
            if begin <= source < end and not (
                last <= source and end <= place < end + blocks.length
            ):
                return False
    return True


def _calls_to_compare(model: KerasFunctional, calls: Sequence[KerasNode]) -> list[_Call]:
    """Returns calls as they are compared; those that equal no other have kinds of their own."""
    places = {id(call): place for place, call in enumerate(calls)}
    inputs = {id(tensor): number for number, tensor in enumerate(model.inputs)}
    times: dict[int, int] = {}
    for call in calls:
        times[id(call.operation)] = times.get(id(call.operation), 0) + 1
    comparison = []
    for call in calls:
        sources = []
        for tensor in GRAPHS.operands_of(call):
            if id(tensor) in inputs:
                sources.append((-1, inputs[id(tensor)]))
            else:
                producer, index = GRAPHS.producer_of(tensor), history_of(tensor).tensor_index
                sources.append((places.get(id(producer), -2 - id(tensor)), index))
        is_once = times[id(call.operation)] == 1
        kind = _kind(call) if is_once else None
        comparison.append(_Call(kind=object() if kind is None else kind, sources=tuple(sources)))
    return comparison


def _kind(call: KerasNode) -> object | None:
    """Returns what is called, and with what besides tensors; None if that is not known."""
    operation = call.operation
    if not is_of_ours(operation) or isinstance(operation, keras.Model):
        return None
    if isinstance(operation, keras.Layer):
        if not all(is_of_ours(layer) for layer in layers_within(operation)):
            return None
        variables = [(v.shape, v.dtype, v.trainable) for v in operation.variables]
    else:
        variables = []
    try:
        config = operation.get_config()
    except NotImplementedError:
        return None
    arguments = keras.tree.map_structure(_plain, GRAPHS.arguments_of(call))
    results = [(tensor.shape, tensor.dtype) for tensor in call.outputs]
    configuration = {
        key: value
        for key, value in config.items()
        if key != "name" and not key.endswith("_initializer")
    }
    return type(operation), repr((configuration, arguments, results, variables))


def _plain(leaf: Any) -> object:
    return "tensor" if isinstance(leaf, keras.KerasTensor) else repr(leaf)
