"""The error for a traced function without HLO, or without HLO of static shapes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Self

_ON_THE_HOST = "put the layer in `Dataset.map`, where the host runs it"
_UNIQUE = "find unique values in `Dataset.map`"
_BINCOUNT = f"add up `tf.one_hot(x, depth)`, or {_ON_THE_HOST}"
_INSTEAD: Mapping[str, str] = {
    "Where": "keep all elements and mask them with `tf.where(condition, x, 0)`",
    "StridedSlice": "use `tf.slice(x, begin, size)`, whose `size` is constant",
    "Unique": _UNIQUE,
    "UniqueV2": _UNIQUE,
    "UniqueWithCounts": _UNIQUE,
    "DynamicPartition": "keep all elements and mask each part with `tf.where`",
    "TopKV2": "give `k` as a Python integer",
    "Range": "give its limits as Python integers",
    "ComputeAccidentalHits": "pass `remove_accidental_hits=False`, or use "
    "`ipu_tf.ops.nn_ops.sampled_softmax_loss`",
    "NonMaxSuppressionV3": "use `tf.image.non_max_suppression_padded`",
    "DenseBincount": _BINCOUNT,
    "Bincount": _BINCOUNT,
}
"""Advice for ops that need their own, by their type."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusedOp:
    """An op that has no HLO.

    Attributes:
        op_type: Its TensorFlow type, "" if XLA does not tell.
        op_name: Its name.
        layer: Path of its Keras layer, or its name scope.
    """

    op_type: str
    op_name: str
    layer: str

    def __str__(self) -> str:
        kind = f" ({self.op_type})" if self.op_type else ""
        instead = _INSTEAD.get(self.op_type)
        return f"layer '{self.layer or 'none'}': {self.op_name}{kind}" + (
            f": {instead}" if instead else ""
        )


class UncompilableProgram(ValueError):
    """A traced function has no HLO, or none of static shapes.

    Attributes:
        program: Name of the function.
        refused: The refused ops, as far as they are known.
    """

    def __init__(self, program: str, refused: Sequence[RefusedOp], explanation: str) -> None:
        self.program = program
        self.refused = tuple(refused)
        ops = "".join(f"\n  {op}" for op in refused)
        super().__init__(f"'{program}' cannot be compiled for the IPU. {explanation}{ops}")

    @classmethod
    def by_xla(cls, program: str, refused: Sequence[RefusedOp], reason: str) -> Self:
        """Returns the error for a function that XLA refuses, with the reason."""
        ops = "these ops" if refused else "the ops that it names"
        return cls(
            program,
            refused,
            f"XLA says: {reason}\nReplace {ops}, give them static shapes and constants, or move "
            f"them out of `strategy.run`{':' if refused else '.'}",
        )

    @classmethod
    def by_missing_kernels(cls, program: str, refused: Sequence[RefusedOp]) -> Self:
        """Returns the error for a function with ops that XLA lacks."""
        return cls(
            program,
            refused,
            f"XLA has no kernel for these ops. If they prepare data, {_ON_THE_HOST}; otherwise "
            "replace them, or move them out of `strategy.run`:",
        )

    @classmethod
    def by_arguments(cls, program: str, refused: Sequence[RefusedOp]) -> Self:
        """Returns the error for a function with sizes or axes that depend on data."""
        return cls(
            program,
            refused,
            "Sizes, shapes and axes must be compile-time constants, but those of these ops depend "
            "on data. Give them constants, replace them, or move them out of "
            "`strategy.run`:",
        )

    @classmethod
    def by_dynamic_shapes(cls, program: str, refused: Sequence[RefusedOp]) -> Self:
        """Returns the error for a function with tensors whose sizes depend on data."""
        return cls(
            program,
            refused,
            "Shapes are static on the IPU, but the results of these ops have sizes that depend on "
            "data. "
            "Give them constant sizes, replace them, or move them out of `strategy.run`:",
        )

    @classmethod
    def by_branches(cls, program: str, refused: Sequence[RefusedOp]) -> Self:
        """Returns the error for a function with gradients of nested loops in a branch."""
        return cls(
            program,
            refused,
            "The gradient of a loop within a loop keeps stacks of stacks, which the branches of a "
            "conditional cannot return. Unroll the inner loop, or move the loops out of the "
            "branch:",
        )

    @classmethod
    def by_loops(cls, program: str, loops: Sequence[RefusedOp]) -> Self:
        """Returns the error for a function with loops whose gradients have no bound."""
        return cls(
            program,
            loops,
            "The gradient of a loop keeps values of each of its iterations, but the largest "
            "number of iterations of these loops is unknown. Give them `maximum_iterations`: it "
            "is an argument of tf.while_loop and keras.ops.while_loop; in a loop that AutoGraph "
            "converts, call tf.autograph.experimental.set_loop_options(maximum_iterations=...) "
            "first:",
        )
