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


def apply(reading: InstructionExtents) -> None:
    """Notes what an instruction that calls no computation says of its extents.

    Raises:
        NotInferable: It contradicts what is known, or its opcode has no rule.
    """
    opcode = reading.instruction.opcode
    if opcode in SAME_SHAPE:
        _elementwise(reading)
    elif opcode in RULES:
        RULES[opcode](reading)
    else:
        raise NotInferable(f"nothing is known of '{opcode}'")


def _elementwise(reading: InstructionExtents) -> None:
    for arrays in reading.operands:
        if arrays[0]:  # A scalar stands for all elements.
            reading.extents.join_all(arrays[0], reading.result)


def _open(reading: InstructionExtents) -> None:
    """Says nothing: readers say what the extents are."""


def _all_fixed(reading: InstructionExtents) -> None:
    for axes in reading.results:
        reading.fix(*axes)


def _passed_on(reading: InstructionExtents) -> None:
    operand_axes = [axes for arrays in reading.operands for axes in arrays]
    for axes, result in zip(operand_axes, reading.results, strict=True):
        reading.extents.join_all(axes, result)


def _each(reading: InstructionExtents) -> None:
    """Joins each operand with the result of its number."""
    for arrays, result in zip(reading.operands, reading.results, strict=True):
        reading.extents.join_all(arrays[0], result)


def _broadcast(reading: InstructionExtents) -> None:
    dimensions = reading.instruction.attributes["dimensions"]
    reading.extents.join_all(
        reading.operand(0), [reading.result[dimension] for dimension in dimensions]
    )


def _transpose(reading: InstructionExtents) -> None:
    dimensions = reading.instruction.attributes["dimensions"]
    operand = reading.operand(0)
    reading.extents.join_all([operand[dimension] for dimension in dimensions], reading.result)


def _reduce(reading: InstructionExtents) -> None:
    reduced = set(reading.instruction.attributes["dimensions"])
    for arrays, result in zip(reading.operands, reading.results, strict=False):
        kept_extents = [extent for number, extent in enumerate(arrays[0]) if number not in reduced]
        reading.extents.join_all(kept_extents, result)


def _windows(reading: InstructionExtents, whole: Axes, windowed: Axes) -> None:
    """Joins the extents along which a window takes one element at a time, and fixes the others."""
    window: Window = reading.instruction.attributes["window"]
    for one, other, dimension in zip(whole, windowed, window.dimensions, strict=True):
        padding = dimension.padding_low, dimension.padding_high
        if (dimension.size, dimension.stride, dimension.base_dilation, *padding) == (1, 1, 1, 0, 0):
            reading.extents.join(one, other)
        else:
            reading.fix(one, other)


def _reduce_window(reading: InstructionExtents) -> None:
    for arrays, result in zip(reading.operands, reading.results, strict=False):
        _windows(reading, arrays[0], result)


def _select_and_scatter(reading: InstructionExtents) -> None:
    reading.extents.join_all(reading.operand(0), reading.result)
    _windows(reading, reading.operand(0), reading.operand(1))


def _convolution(reading: InstructionExtents) -> None:
    attributes = reading.instruction.attributes
    numbers = attributes["convolution_dimension_numbers"]
    left, right, result = reading.operand(0), reading.operand(1), reading.result
    reading.fix(*(left[axis] for axis in numbers.input_spatial))
    reading.fix(*(right[axis] for axis in numbers.kernel_spatial))
    reading.fix(*(result[axis] for axis in numbers.output_spatial))
    reading.extents.join(right[numbers.kernel_output_feature], result[numbers.output_feature])
    images, channels = left[numbers.input_batch], left[numbers.input_feature]
    if attributes.get("batch_group_count", 1) == 1:
        reading.extents.join(images, result[numbers.output_batch])
    else:
        reading.fix(images, result[numbers.output_batch], result[numbers.output_feature])
    if attributes.get("feature_group_count", 1) == 1:
        reading.extents.join(channels, right[numbers.kernel_input_feature])
    else:
        reading.fix(channels, right[numbers.kernel_input_feature], result[numbers.output_feature])


def _dot(reading: InstructionExtents) -> None:
    numbers = reading.instruction.attributes["dot_dimension_numbers"]
    left, right = reading.operand(0), reading.operand(1)
    pairs = [
        *zip(numbers.lhs_batch, numbers.rhs_batch, strict=True),
        *zip(numbers.lhs_contracting, numbers.rhs_contracting, strict=True),
    ]
    for one, other in pairs:
        reading.extents.join(left[one], right[other])
    free = [
        *(left[axis] for axis in numbers.lhs_batch),
        *_without(left, (*numbers.lhs_batch, *numbers.lhs_contracting)),
        *_without(right, (*numbers.rhs_batch, *numbers.rhs_contracting)),
    ]
    reading.extents.join_all(free, reading.result)


def _concatenate(reading: InstructionExtents) -> None:
    (along,) = reading.instruction.attributes["dimensions"]
    reading.fix(reading.result[along], *(arrays[0][along] for arrays in reading.operands))
    for arrays in reading.operands:
        reading.extents.join_all(_without(arrays[0], (along,)), _without(reading.result, (along,)))


def _slice(reading: InstructionExtents) -> None:
    slices = reading.instruction.attributes["slice_dimensions"]
    sizes = reading.array(0).dims
    for part, size, one, other in zip(
        slices, sizes, reading.operand(0), reading.result, strict=True
    ):
        if (part.start, part.limit, part.stride) == (0, size, 1):
            reading.extents.join(one, other)
        else:
            reading.fix(one, other)


def _pad(reading: InstructionExtents) -> None:
    padding = reading.instruction.attributes["padding_config"]
    for part, one, other in zip(padding, reading.operand(0), reading.result, strict=True):
        if (part.low, part.high, part.interior) == (0, 0, 0):
            reading.extents.join(one, other)
        else:
            reading.fix(one, other)


def _dynamic_slice(reading: InstructionExtents) -> None:
    type_ = reading.instruction.type
    assert isinstance(type_, Array)
    _moving(reading, reading.operand(0), reading.array(0).dims, reading.result, type_.dims)


def _dynamic_update_slice(reading: InstructionExtents) -> None:
    reading.extents.join_all(reading.operand(0), reading.result)
    part = reading.array(1).dims
    _moving(reading, reading.operand(0), reading.array(0).dims, reading.operand(1), part)


def _moving(
    reading: InstructionExtents,
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
            reading.extents.join(one, other)
        else:
            reading.fix(one, other)


def _gather(reading: InstructionExtents) -> None:
    attributes = reading.instruction.attributes
    numbers, sizes = attributes["gather_dimension_numbers"], attributes["gather_slice_sizes"]
    collapsed = {*numbers.collapsed_slice_dims, *numbers.operand_batching_dims}
    offset_axes = [axis for axis in range(len(sizes)) if axis not in collapsed]
    offsets = [reading.result[axis] for axis in numbers.offset_dims]
    for axis, result in zip(offset_axes, offsets, strict=True):
        whole = reading.operand(0)[axis]
        if sizes[axis] == reading.array(0).dims[axis] != 1:
            reading.extents.join(whole, result)
        else:
            reading.fix(whole, result)
    reading.fix(*(reading.operand(0)[axis] for axis in numbers.collapsed_slice_dims))
    indices = _without(reading.operand(1), (numbers.index_vector_dim,))
    reading.extents.join_all(indices, _without(reading.result, numbers.offset_dims))
    for axis, other in zip(
        numbers.operand_batching_dims, numbers.start_indices_batching_dims, strict=True
    ):
        reading.extents.join(reading.operand(0)[axis], reading.operand(1)[other])


def _scatter(reading: InstructionExtents) -> None:
    numbers = reading.instruction.attributes["scatter_dimension_numbers"]
    if len(reading.operands) != 3 or numbers.input_batching_dims:
        raise NotInferable("nothing is known of a 'scatter' of several arrays, or of batches")
    whole, indices, updates = (reading.operand(number) for number in range(3))
    reading.extents.join_all(whole, reading.result)
    update_axes = [axis for axis in range(len(whole)) if axis not in numbers.inserted_window_dims]
    reading.fix(*(whole[axis] for axis in numbers.inserted_window_dims))
    for axis, update in zip(update_axes, numbers.update_window_dims, strict=True):
        if reading.array(0).dims[axis] == reading.array(2).dims[update] != 1:
            reading.extents.join(whole[axis], updates[update])
        else:
            reading.fix(whole[axis], updates[update])
    reading.extents.join_all(
        _without(indices, (numbers.index_vector_dim,)),
        _without(updates, numbers.update_window_dims),
    )


def _element(reading: InstructionExtents) -> None:
    type_, index = reading.types[0], reading.instruction.attributes["tuple_index"]
    assert isinstance(type_, TupleType)
    first = sum(_arrays(part) for part in type_.parts[:index])
    for number, result in enumerate(reading.results):
        reading.extents.join_all(reading.operands[0][first + number], result)


def _arrays(type_: Type) -> int:
    return 1 if isinstance(type_, Array) else sum(_arrays(part) for part in type_.parts)


def _batch_norm(reading: InstructionExtents) -> None:
    """Joins the normalised array with its operand: the others have an element a feature."""
    feature = reading.instruction.attributes["feature_index"]
    reading.extents.join_all(reading.operand(0), reading.results[0])
    reading.fix(reading.operand(0)[feature])
    if reading.instruction.opcode == "batch-norm-grad":
        reading.extents.join_all(reading.operand(0), reading.operand(4))
    small = [*(arrays[0] for arrays in reading.operands), *reading.results]
    reading.fix(*(axes[0] for axes in small if len(axes) == 1 and len(reading.operand(0)) > 1))


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
    "constant": _open,
    "convolution": _convolution,
    "dot": _dot,
    "dynamic-slice": _dynamic_slice,
    "dynamic-update-slice": _dynamic_update_slice,
    "gather": _gather,
    "get-tuple-element": _element,
    "iota": _open,
    "opt-barrier": _passed_on,
    "pad": _pad,
    "partition-id": _all_fixed,
    "reduce": _reduce,
    "reduce-precision": _elementwise,
    "reduce-window": _reduce_window,
    "replica-id": _all_fixed,
    "reshape": _open,
    "reverse": _elementwise,
    "rng": _open,
    "scatter": _scatter,
    "select": _elementwise,
    "select-and-scatter": _select_and_scatter,
    "slice": _slice,
    "sort": _each,
    "transpose": _transpose,
    "tuple": _passed_on,
}
