"""Orders the nodes of a block, and lets results take over memory after its last read."""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence

from ipu_tf.compiler.blocks import Block, BufferTable, Node
from ipu_tf.compiler.task_schedule import Task, TaskGraph, peak_bytes, schedule, taken_over
from ipu_tf.tile_program.layouts.footprint import Footprint

_LEAST_BYTES = 128
"""Bytes from which buffers join the tasks of an update: smaller ones are rates and counters, which
the updates of all variables read."""


def schedule_block(block: Block, buffers: BufferTable, *, updates_last: bool = False) -> None:
    """Fills in a block's order and peak, and merges the buffers that its nodes take over.

    Args:
        block: The block.
        buffers: All buffers.
        updates_last: Whether the update of weights follows all other nodes, as where it runs once
            for several micro-batches. It then updates one variable after the other.
    """
    sequence = _sequence(block.nodes)
    groups = _update_groups(block.nodes, sequence, buffers) if updates_last else {}
    graph, numbers = _task_graph(block, buffers, sequence, groups)
    order = schedule(graph)
    kept_bytes = sum(graph.buffer_bytes[number] for number in graph.live_at_end)
    block.peak_bytes = max(0, peak_bytes(graph, order) - kept_bytes)
    block.order = [sequence[task] for task in order]
    _take_over(graph, order, buffers, numbers)


def _update_groups(
    nodes: Sequence[Node], sequence: Sequence[int], buffers: BufferTable
) -> dict[int, int]:
    """Returns the nodes of the update, each with the number of the variable that it updates.

    Nodes that share a buffer, as those of a weight and its momentum, belong together.
    """
    updating = [index for index in sequence if nodes[index].instruction.phase == "update"]
    parents = {index: index for index in updating}

    def find(index: int) -> int:
        while parents[index] != index:
            parents[index] = index = parents[parents[index]]
        return index

    first_user: dict[int, int] = {}
    for index in updating:
        for buffer in {buffers.find(one) for one in (*nodes[index].reads, *nodes[index].writes)}:
            if buffers[buffer].bytes >= _LEAST_BYTES:
                parents[find(index)] = find(first_user.setdefault(buffer, index))
    numbers: dict[int, int] = {}
    return {index: numbers.setdefault(find(index), len(numbers) + 1) for index in updating}


def _sequence(nodes: Sequence[Node]) -> list[int]:
    """Returns the indices of nodes in an order that respects `after`, else as they stand."""
    open_counts = [len(node.after) for node in nodes]
    followers: list[list[int]] = [[] for _ in nodes]
    for index, node in enumerate(nodes):
        for earlier in node.after:
            followers[earlier].append(index)
    ready = [index for index, count in enumerate(open_counts) if not count]
    sequence = []
    while ready:
        index = heapq.heappop(ready)
        sequence.append(index)
        for follower in followers[index]:
            open_counts[follower] -= 1
            if not open_counts[follower]:
                heapq.heappush(ready, follower)
    return sequence


def _task_graph(
    block: Block, buffers: BufferTable, sequence: Sequence[int], groups: Mapping[int, int]
) -> tuple[TaskGraph, list[int]]:
    """Returns the block as tasks, and the buffer of each of the graph's numbers.

    Args:
        block: The block.
        buffers: All buffers.
        sequence: Its nodes in an order that respects `after`.
        groups: Groups of nodes other than 0.
    """
    numbers: dict[int, int] = {}

    def local(memory: Sequence[int]) -> tuple[int, ...]:
        distinct = dict.fromkeys(buffers.find(buffer) for buffer in memory)
        return tuple(numbers.setdefault(buffer, len(numbers)) for buffer in distinct)

    arguments = {buffers.find(buffer) for buffer in block.arguments}
    place = {index: task for task, index in enumerate(sequence)}
    tasks = []
    for index in sequence:
        node = block.nodes[index]
        reads = local(node.reads)
        writes = tuple(b for b in node.writes if buffers.find(b) not in arguments)
        kind = buffers[writes[0]].category if writes else None
        overwritable = [b for b in node.overwritable if buffers[b].category == kind]
        tasks.append(
            Task(
                after=tuple(sorted(place[earlier] for earlier in node.after)),
                reads=reads,
                writes=local(writes),
                takes_over=local(overwritable),
                temporary_bytes=_temporary_bytes(node),
                group=groups.get(index, 0),
            )
        )
    results = [buffers.find(value.buffer) for value in block.results]
    always_live = [buffer for buffer in numbers if buffers[buffer].always_live]
    kept_buffers = {numbers[b] for b in (*arguments, *results, *always_live) if b in numbers}
    sizes = [buffers.footprint_bytes(buffer) for buffer in numbers]
    graph = TaskGraph(tasks=tasks, buffer_bytes=sizes, live_at_end=frozenset(kept_buffers))
    return graph, list(numbers)


def _temporary_bytes(node: Node) -> int:
    """Returns the bytes on all tiles that are in use only while a node runs."""
    node_bytes = _bytes(node.lowered.scratch) + _bytes(node.lowered.exchange_buffers)
    return max([node_bytes, *(body.peak_bytes for body, _ in node.bodies)])


def _bytes(footprints: Sequence[Footprint]) -> int:
    return sum(footprint.tiles * footprint.tile_bytes for footprint in footprints)


def _take_over(
    graph: TaskGraph, order: Sequence[int], buffers: BufferTable, numbers: Sequence[int]
) -> None:
    """Merges a buffer that a task may take over and reads last with the task's result."""
    reader_counts = [len(readers) for readers in graph.readers()]
    for index in order:
        task = graph.tasks[index]
        donor = taken_over(task, graph.live_at_end, reader_counts)
        if donor is not None:
            buffers.merge(numbers[task.writes[0]], into=numbers[donor])
        for buffer in task.reads:
            reader_counts[buffer] -= 1
