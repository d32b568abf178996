"""Counts the activations that wait for the backward pass."""

from __future__ import annotations

import itertools

from ipu_tf.compiler.blocks import BufferTable, Node
from ipu_tf.compiler.hlo.module import LOSS, METRICS


class ActivationLiveness:
    """Counts the results of layers that are kept for the backward pass, over time.

    Recomputed results count as those of the forward pass. A value counts from the step that makes
    it to the last that reads it, even if another one takes over its memory then.
    """

    def __init__(self, buffers: BufferTable) -> None:
        self._buffers = buffers
        self._first: dict[int, int] = {}
        self._last: dict[int, int] = {}
        self._backward_operands: set[int] = set()

    def add(self, node: Node, first: int, last: int) -> None:
        """Adds a node that runs from one step to another; nodes come in their order."""
        instruction = node.instruction
        for buffer in node.reads:
            if buffer in self._first:
                self._last[buffer] = last
                if instruction.phase == "backward":
                    self._backward_operands.add(buffer)
        is_loss = instruction.layer in (LOSS, METRICS)
        if (instruction.phase == "forward" or instruction.recomputed) and not is_loss:
            for buffer in node.writes:
                if self._buffers[buffer].category == "activations":
                    self._first.setdefault(buffer, first)

    def most(self, steps: int) -> int:
        """Returns the most of them that are in memory at a time, of a program of so many steps."""
        changes = [0] * (steps + 1)
        for buffer in self._backward_operands:
            changes[self._first[buffer]] += 1
            changes[min(self._last[buffer] + 1, steps)] -= 1
        return max(itertools.accumulate(changes), default=0)
