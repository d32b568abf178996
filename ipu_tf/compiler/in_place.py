"""Stores results in their targets: new values of variables, the state of a loop.

A node makes a result in its target if all readers of the old value can run before it; new orderings
ensure that they do. Otherwise it makes the result elsewhere, and a copy runs at the end.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from ipu_tf.compiler.blocks import BufferTable, Node, Value, Values
from ipu_tf.compiler.open_block import OpenBlock


def store(block: OpenBlock, results: Values, targets: Mapping[int, Value]) -> Values:
    """Returns the results of a block after those with a target were stored there.

    Args:
        block: The open block; gets orderings and copies.
        results: The arrays of its root.
        targets: Targets of the results, by their number. A target is memory of the caller, and
            no two are the same.
    """
    find = block.build_state.buffers.find
    result_values = list(results)
    away = {
        number: target
        for number, target in targets.items()
        if find(results[number].buffer) != find(target.buffer)
    }
    values = _with_makers(block, results, away)
    users = _Users(block.nodes, block.build_state.buffers)
    for number, target in targets.items():
        made_by = results[number].made_by
        if number not in away and made_by is not None:  # A conditional has stored it there.
            users.put_before(find(target.buffer), made_by)
    for number, target in away.items():
        made_by = values[number].made_by
        if not _make_in_place(block, users, values[number], target):
            made_by = _copy_into(block, users, values[number], target)
        result_values[number] = dataclasses.replace(target, made_by=made_by)
    return tuple(result_values)


def _with_makers(
    block: OpenBlock, results: Values, targets: Mapping[int, Value]
) -> dict[int, Value]:
    """Returns the results that must move, each made by a node, in its own memory.

    Copies a result that comes from outside (an argument in another place) or is stored twice.
    """
    buffers = block.build_state.buffers
    writers = _Users(block.nodes, buffers).writers
    memories: set[int] = set()
    values = {}
    for number, target in targets.items():
        value = results[number]
        memory = buffers.find(value.buffer)
        if memory in memories or memory not in writers:
            name = f"{buffers[target.buffer].name}.new"
            value = block.copy(value, name=name, placement=target.placement)
            memory = value.buffer
        memories.add(memory)
        values[number] = value
    return values


def _make_in_place(block: OpenBlock, users: _Users, value: Value, target: Value) -> bool:
    """Places a result directly in its target's memory and returns whether that is possible."""
    buffers = block.build_state.buffers
    memory, place = buffers.find(value.buffer), buffers.find(target.buffer)
    alike = buffers[memory].footprint == target.placement.footprint
    if not alike or value.placement != target.placement:
        return False
    maker = users.writers[memory]
    node = block.nodes[maker]
    reads_place = place in map(buffers.find, node.reads)
    if reads_place and place not in map(buffers.find, node.overwritable):
        return False
    if not users.put_before(place, maker):
        return False
    buffers.merge(memory, into=place)
    return True


def _copy_into(block: OpenBlock, users: _Users, value: Value, target: Value) -> int:
    """Returns the index of a node that copies a result into its target's memory."""
    name = block.build_state.buffers[target.buffer].name
    node = block.move(value, target, name=f"{name}.update")
    node.fills = target.buffer
    index = block.add(node)
    users.put_before(block.build_state.buffers.find(target.buffer), index)
    return index


class _Users:
    """The memory that the nodes of a block read and write, and their dependences."""

    def __init__(self, nodes: list[Node], buffers: BufferTable) -> None:
        self.writers: dict[int, int] = {}
        self._nodes = nodes
        self._readers: dict[int, list[int]] = {}
        self._in_sequence = True
        for index, node in enumerate(nodes):
            self.writers.update((buffers.find(buffer), index) for buffer in node.writes)
            for buffer in {buffers.find(buffer) for buffer in node.reads}:
                self._readers.setdefault(buffer, []).append(index)

    def put_before(self, memory: int, index: int) -> bool:
        """Orders all readers of some memory before a node, and returns whether that is possible.

        Changes nothing if it is not.
        """
        readers = [reader for reader in self._readers.get(memory, ()) if reader != index]
        if any(self._needs(reader, index) for reader in readers):
            return False
        self._nodes[index].after.update(readers)
        self._in_sequence = self._in_sequence and all(reader < index for reader in readers)
        return True

    def _needs(self, later: int, earlier: int) -> bool:
        """Returns whether a node has to run after another."""
        if self._in_sequence and later < earlier:
            return False
        predecessors, stack = {later}, [later]
        while stack:
            for index in self._nodes[stack.pop()].after - predecessors:
                if index == earlier:
                    return True
                if not self._in_sequence or index > earlier:
                    predecessors.add(index)
                    stack.append(index)
        return False
