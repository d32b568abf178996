"""What a strategy ran, as a value to print."""

from __future__ import annotations

import collections
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ipu_tf.compiler.plan import OpShape, Plan
from ipu_tf.profile.program import NativeOp, Program, TileOp

_LAYER_WIDTH = 36


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """The programs that a strategy traced.

    Attributes:
        programs: One for every function and set of shapes, in the order of their traces.
    """

    programs: tuple[Program, ...]

    @property
    def tile_ops(self) -> tuple[TileOp, ...]:
        """Everything that runs as tile ops."""
        return tuple(op for program in self.programs for op in program.tile_ops)

    @property
    def native_ops(self) -> tuple[NativeOp, ...]:
        """Every contraction that TensorFlow's own kernels run, with its reason."""
        return tuple(op for program in self.programs for op in program.native_ops)

    def summary(self) -> str:
        """Returns the report as a text table."""
        if not self.programs:
            return "No program has been traced: call `strategy.run`, or `fit` a model in the scope."
        return "\n".join(line for program in self.programs for line in _program_lines(program))

    def __str__(self) -> str:
        return self.summary()


def _program_lines(program: Program) -> Iterator[str]:
    counts = f"{len(program.tile_ops)} tile ops, {len(program.native_ops)} native contractions"
    yield f"Program '{program.name}': {counts}"
    if program.tile_ops:
        yield f"  {'layer':<{_LAYER_WIDTH}} {'op':<30} {'size':<30} {'tiles':>5}  plan"
        for op in program.tile_ops:
            yield (
                f"  {_shortened(op.layer):<{_LAYER_WIDTH}} {op.op_type:<30} "
                f"{_size(op.shape):<30} {op.plan.tiles:>5}  {_splits(op)}"
            )
    for reason, ops in _by_reason(program.native_ops).items():
        names = ", ".join(f"{op.name} ({op.op_type})" for op in ops)
        yield f"  native, {reason}: {names}"


def _by_reason(ops: Sequence[NativeOp]) -> dict[str, list[NativeOp]]:
    reasons: dict[str, list[NativeOp]] = collections.defaultdict(list)
    for op in ops:
        reasons[op.reason].append(op)
    return reasons


def _shortened(layer: str) -> str:
    return layer if len(layer) <= _LAYER_WIDTH else "..." + layer[3 - _LAYER_WIDTH :]


def _size(shape: OpShape) -> str:
    sizes = "x".join(str(extent) for extent in shape.extents.values() if extent > 1)
    return f"{sizes or 1} {shape.dtype}"


def _splits(op: TileOp) -> str:
    plan: Plan = op.plan
    splits = [f"{name} {parts}" for name, parts in plan.splits.items() if parts > 1]
    rounding = ["stochastic rounding"] if op.stochastic_rounding else []
    return ", ".join([*splits, f"{plan.partials} partials", *rounding])
