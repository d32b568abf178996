"""The feeds of a program in a file: what they carry, and their numbers in this process."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tensorflow as tf

from ipu_tf.internals.tensorflow import FunctionDef, SavedModelProto

_GRAPH = "saved_model.pb"
_DEQUEUE, _ENQUEUE = "IpuDequeue", "IpuEnqueue"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramFeeds:
    """The feeds of a program.

    Attributes:
        infeed: Number of its infeed when it was written, None for none.
        outfeed: Number of its outfeed when it was written, None for none.
        inputs: Shape and dtype of each tensor that it reads at once.
        outputs: Dtype of each tensor that it writes at once.
    """

    infeed: int | None
    outfeed: int | None
    inputs: tuple[tf.TensorSpec, ...]
    outputs: tuple[tf.DType, ...]


def functions_of(concrete: tf.types.experimental.ConcreteFunction) -> list[FunctionDef]:
    """Returns the definition of a concrete function, and those of the functions that it calls."""
    return [concrete.function_def, *concrete.graph.as_graph_def().library.function]


def functions_in(folder: Path) -> list[object]:
    """Returns the definitions of the functions of the program in a folder."""
    return list(_functions(_read(folder)))


def feeds_of(functions: Iterable[object]) -> ProgramFeeds:
    """Returns the feeds of a program.

    Args:
        functions: The definitions of its functions.

    Raises:
        ValueError: It writes several outfeeds, or reads several infeeds.
    """
    nodes: dict[str, dict[int, Any]] = {_DEQUEUE: {}, _ENQUEUE: {}}
    for node, number in _feed_nodes(functions):
        nodes[node.op][number.attr["value"].tensor.int_val[0]] = node
    infeeds, outfeeds = nodes[_DEQUEUE], nodes[_ENQUEUE]
    if max(len(outfeeds), len(infeeds)) > 1:
        raise ValueError(
            "A compiled application writes at most one IPUOutfeedQueue and reads at most one "
            "IPUInfeedQueue. Received: a program with "
            f"{len(outfeeds)} outfeeds and {len(infeeds)} infeeds."
        )
    inputs: tuple[tf.TensorSpec, ...] = ()
    for dequeue in infeeds.values():
        shapes = dequeue.attr["output_shapes"].list.shape
        types = dequeue.attr["output_types"].list.type
        inputs = tuple(
            tf.TensorSpec(tf.TensorShape(shape), tf.as_dtype(dtype))
            for shape, dtype in zip(shapes, types, strict=True)
        )
    output_types = [enqueue.attr["T"].list.type for enqueue in outfeeds.values()]
    return ProgramFeeds(
        infeed=next(iter(infeeds), None),
        outfeed=next(iter(outfeeds), None),
        inputs=inputs,
        outputs=tuple(tf.as_dtype(dtype) for dtypes in output_types for dtype in dtypes),
    )


def replace_numbers(folder: Path, numbers: Mapping[int, int]) -> None:
    """Replaces the numbers of feeds in a folder's program by those of this process."""
    model = _read(folder)
    for _, number in _feed_nodes(_functions(model)):
        value = number.attr["value"].tensor.int_val
        value[0] = numbers[value[0]]
    (folder / _GRAPH).write_bytes(model.SerializeToString(deterministic=True))


def _read(folder: Path) -> Any:
    return SavedModelProto.FromString((folder / _GRAPH).read_bytes())


def _functions(model: Any) -> Iterator[Any]:
    for graph in model.meta_graphs:
        yield from graph.graph_def.library.function


def _feed_nodes(functions: Iterable[Any]) -> Iterator[tuple[Any, Any]]:
    """Yields each op that uses a feed, with the constant that holds the number of the feed."""
    for function in functions:
        nodes = {node.name: node for node in function.node_def}
        for node in function.node_def:
            if node.op in (_DEQUEUE, _ENQUEUE):
                yield node, nodes[node.input[0].partition(":")[0]]
