"""What each opcode says of the extents of its operands and results: which are equal, or fixed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from ipu_tf.compiler.batch_axes.extents import Axes, Extents, NotInferable
from ipu_tf.compiler.hlo import Array, Instruction, TupleType, Type, Window
from ipu_tf.compiler.hlo.verify import SAME_SHAPE


@dataclass(frozen=True, slots=True, kw_only=True)
class InstructionExtents:
    """An instruction with the extents of its arrays.

    Attributes:
        extents: All extents of the module.
        instruction: The instruction.
        operands: The extents of the arrays of each operand.
        types: The types of the operands.
        results: The extents of the arrays of the result.
    """

    extents: Extents
    instruction: Instruction
    operands: Sequence[tuple[Axes, ...]]
    types: Sequence[Type]
    results: tuple[Axes, ...]

    @property
    def result(self) -> Axes:
        """The extents of the result, which is one array."""
        return self.results[0]

    def operand(self, number: int) -> Axes:
        """Returns the extents of an operand, which is one array."""
        return self.operands[number][0]

    def array(self, number: int) -> Array:
        """Returns the type of an operand, which is one array."""
        type_ = self.types[number]
        assert isinstance(type_, Array)
        return type_

    def fix(self, *extents: int) -> None:
        """Notes that extents do not grow with the samples."""
        for extent in extents:
            self.extents.fix(extent, counts_samples=False)


Rule: TypeAlias = Callable[[InstructionExtents], None]


def apply(work: InstructionExtents) -> None:
    """Notes what an instruction that calls no computation says of its extents.

    Raises:
        NotInferable: It contradicts what is known, or its opcode has no rule.
    """
    opcode = work.instruction.opcode
    if opcode in SAME_SHAPE:
        _elementwise(work)
    elif opcode in RULES:
        RULES[opcode](work)
    else:
        raise NotInferable(f"nothing is known of '{opcode}'")


def _elementwise(work: InstructionExtents) -> None:
    for arrays in work.operands:
        if arrays[0]:  # A scalar stands for all elements.
            work.extents.join_all(arrays[0], work.result)


def _no_rule(work: InstructionExtents) -> None:
    """Says nothing: readers say what the extents are."""


def _fix_all(work: InstructionExtents) -> None:
    for axes in work.results:
        work.fix(*axes)


def _passed_on(work: InstructionExtents) -> None:
    operand_axes = [axes for arrays in work.operands for axes in arrays]
    for axes, result in zip(operand_axes, work.results, strict=True):
        work.extents.join_all(axes, result)


def _each(work: InstructionExtents) -> None:
    """Joins each operand with the result of its number."""
    for arrays, result in zip(work.operands, work.results, strict=True):
        work.extents.join_all(arrays[0], result)


def _broadcast(work: InstructionExtents) -> None:
    dimensions = work.instruction.attributes["dimensions"]
    work.extents.join_all(work.operand(0), [work.result[dimension] for dimension in dimensions])


def _transpose(work: InstructionExtents) -> None:
    dimensions = work.instruction.attributes["dimensions"]
    operand = work.operand(0)
    work.extents.join_all([operand[dimension] for dimension in dimensions], work.result)


def _reduce(work: InstructionExtents) -> None:
    reduced = set(work.instruction.attributes["dimensions"])
    for arrays, result in zip(work.operands, work.results, strict=False):
        kept_extents = [extent for number, extent in enumerate(arrays[0]) if number not in reduced]
        work.extents.join_all(kept_extents, result)


def _windows(work: InstructionExtents, whole: Axes, windowed: Axes) -> None:
    """Joins the extents along which a window takes one element at a time, and fixes the others."""
    window: Window = work.instruction.attributes["window"]
    for one, other, dimension in zip(whole, windowed, window.dimensions, strict=True):
        padding = dimension.padding_low, dimension.padding_high
        if (dimension.size, dimension.stride, dimension.base_dilation, *padding) == (1, 1, 1, 0, 0):
            work.extents.join(one, other)
        else:
            work.fix(one, other)


def _reduce_window(work: InstructionExtents) -> None:
    for arrays, result in zip(work.operands, work.results, strict=False):
        _windows(work, arrays[0], result)


def _select_and_scatter(work: InstructionExtents) -> None:
    work.extents.join_all(work.operand(0), work.result)
    _windows(work, work.operand(0), work.operand(1))


def _convolution(work: InstructionExtents) -> None:
    attributes = work.instruction.attributes
    numbers = attributes["convolution_dimension_numbers"]
    left, right, result = work.operand(0), work.operand(1), work.result
    work.fix(*(left[axis] for axis in numbers.input_spatial))
    work.fix(*(right[axis] for axis in numbers.kernel_spatial))
    work.fix(*(result[axis] for axis in numbers.output_spatial))
    work.extents.join(right[numbers.kernel_output_feature], result[numbers.output_feature])
    images, channels = left[numbers.input_batch], left[numbers.input_feature]
    if attributes.get("batch_group_count", 1) == 1:
        work.extents.join(images, result[numbers.output_batch])
    else:
        work.fix(images, result[numbers.output_batch], result[numbers.output_feature])
    if attributes.get("feature_group_count", 1) == 1:
        work.extents.join(channels, right[numbers.kernel_input_feature])
    else:
        work.fix(channels, right[numbers.kernel_input_feature], result[numbers.output_feature])


def _dot(work: InstructionExtents) -> None:
    numbers = work.instruction.attributes["dot_dimension_numbers"]
    left, right = work.operand(0), work.operand(1)
    pairs = [
        *zip(numbers.lhs_batch, numbers.rhs_batch, strict=True),
        *zip(numbers.lhs_contracting, numbers.rhs_contracting, strict=True),
    ]
    for one, other in pairs:
        work.extents.join(left[one], right[other])
    free = [
        *(left[axis] for axis in numbers.lhs_batch),
        *_without(left, (*numbers.lhs_batch, *numbers.lhs_contracting)),
        *_without(right, (*numbers.rhs_batch, *numbers.rhs_contracting)),
    ]
    work.extents.join_all(free, work.result)


def _concatenate(work: InstructionExtents) -> None:
    (along,) = work.instruction.attributes["dimensions"]
    work.fix(work.result[along], *(arrays[0][along] for arrays in work.operands))
    for arrays in work.operands:
        work.extents.join_all(_without(arrays[0], (along,)), _without(work.result, (along,)))


def _slice(work: InstructionExtents) -> None:
    slices = work.instruction.attributes["slice_dimensions"]
    sizes = work.array(0).dims
    for part, size, one, other in zip(slices, sizes, work.operand(0), work.result, strict=True):
        if (part.start, part.limit, part.stride) == (0, size, 1):
            work.extents.join(one, other)
        else:
            work.fix(one, other)


def _pad(work: InstructionExtents) -> None:
    padding = work.instruction.attributes["padding_config"]
    for part, one, other in zip(padding, work.operand(0), work.result, strict=True):
        if (part.low, part.high, part.interior) == (0, 0, 0):
            work.extents.join(one, other)
        else:
            work.fix(one, other)


def _dynamic_slice(work: InstructionExtents) -> None:
    dims = work.instruction.array.dims
    _moving(work, work.operand(0), work.array(0).dims, work.result, dims)


def _dynamic_update_slice(work: InstructionExtents) -> None:
    work.extents.join_all(work.operand(0), work.result)
    part = work.array(1).dims
    _moving(work, work.operand(0), work.array(0).dims, work.operand(1), part)


def _moving(
    work: InstructionExtents,
    whole: Axes,
    sizes: Sequence[int],
    part: Axes,
    part_sizes: Sequence[int],
) -> None:
    """Joins the extents that a slice at a computed place takes whole, and fixes the others.

    Of an extent of one element it may take the whole or one element.
    """
    for one, other, size, part_size in zip(whole, part, sizes, part_sizes, strict=True):
        if size == part_size != 1:
            work.extents.join(one, other)
        else:
            work.fix(one, other)


def _gather(work: InstructionExtents) -> None:
    attributes = work.instruction.attributes
    numbers, sizes = attributes["gather_dimension_numbers"], attributes["gather_slice_sizes"]
    collapsed = {*numbers.collapsed_slice_dims, *numbers.operand_batching_dims}
    offset_axes = [axis for axis in range(len(sizes)) if axis not in collapsed]
    offsets = [work.result[axis] for axis in numbers.offset_dims]
    for axis, result in zip(offset_axes, offsets, strict=True):
        whole = work.operand(0)[axis]
        if sizes[axis] == work.array(0).dims[axis] != 1:
            work.extents.join(whole, result)
        else:
            work.fix(whole, result)
    work.fix(*(work.operand(0)[axis] for axis in numbers.collapsed_slice_dims))
    indices = _without(work.operand(1), (numbers.index_vector_dim,))
    work.extents.join_all(indices, _without(work.result, numbers.offset_dims))
    for axis, other in zip(
        numbers.operand_batching_dims, numbers.start_indices_batching_dims, strict=True
    ):
        work.extents.join(work.operand(0)[axis], work.operand(1)[other])


def _scatter(work: InstructionExtents) -> None:
    numbers = work.instruction.attributes["scatter_dimension_numbers"]
    if len(work.operands) != 3 or numbers.input_batching_dims:
        raise NotInferable("nothing is known of a 'scatter' of several arrays, or of batches")
    whole, indices, updates = (work.operand(number) for number in range(3))
    work.extents.join_all(whole, work.result)
    update_axes = [axis for axis in range(len(whole)) if axis not in numbers.inserted_window_dims]
    work.fix(*(whole[axis] for axis in numbers.inserted_window_dims))
    for axis, update in zip(update_axes, numbers.update_window_dims, strict=True):
        if work.array(0).dims[axis] == work.array(2).dims[update] != 1:
            work.extents.join(whole[axis], updates[update])
        else:
            work.fix(whole[axis], updates[update])
    work.extents.join_all(
        _without(indices, (numbers.index_vector_dim,)),
        _without(updates, numbers.update_window_dims),
    )


def _element(work: InstructionExtents) -> None:
    type_, index = work.types[0], work.instruction.attributes["tuple_index"]
    assert isinstance(type_, TupleType)
    first = sum(_arrays(part) for part in type_.parts[:index])
    for number, result in enumerate(work.results):
        work.extents.join_all(work.operands[0][first + number], result)


def _arrays(type_: Type) -> int:
    return 1 if isinstance(type_, Array) else sum(_arrays(part) for part in type_.parts)


def _batch_norm(work: InstructionExtents) -> None:
    """Joins the normalised array with its operand: the others have an element a feature."""
    feature = work.instruction.attributes["feature_index"]
    work.extents.join_all(work.operand(0), work.results[0])
    work.fix(work.operand(0)[feature])
    if work.instruction.opcode == "batch-norm-grad":
        work.extents.join_all(work.operand(0), work.operand(4))
    small = [*(arrays[0] for arrays in work.operands), *work.results]
    work.fix(*(axes[0] for axes in small if len(axes) == 1 and len(work.operand(0)) > 1))


def _without(axes: Sequence[int], left_out: Sequence[int]) -> Axes:
    return tuple(extent for number, extent in enumerate(axes) if number not in left_out)


RULES: Mapping[str, Rule] = {
    "all-reduce": _each,
    "batch-norm-grad": _batch_norm,
    "batch-norm-inference": _batch_norm,
    "batch-norm-training": _batch_norm,
    "broadcast": _broadcast,
    "clamp": _elementwise,
    "concatenate": _concatenate,
    "constant": _no_rule,
    "convolution": _convolution,
    "dot": _dot,
    "dynamic-slice": _dynamic_slice,
    "dynamic-update-slice": _dynamic_update_slice,
    "gather": _gather,
    "get-tuple-element": _element,
    "iota": _no_rule,
    "opt-barrier": _passed_on,
    "pad": _pad,
    "partition-id": _fix_all,
    "reduce": _reduce,
    "reduce-precision": _elementwise,
    "reduce-window": _reduce_window,
    "replica-id": _fix_all,
    "reshape": _no_rule,
    "reverse": _elementwise,
    "rng": _no_rule,
    "scatter": _scatter,
    "select": _elementwise,
    "select-and-scatter": _select_and_scatter,
    "slice": _slice,
    "sort": _each,
    "transpose": _transpose,
    "tuple": _passed_on,
}
