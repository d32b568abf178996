"""Folds a scale and a shift of channels into the convolution before them: batch norm at inference.

The scale goes to the filter, which is smaller than the result; the shift becomes a bias.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import dataclass

from ipu_tf.compiler.hlo import Array, Computation, Instruction, Module, Type
from ipu_tf.compiler.passes.rewrite import each_program, with_instructions

_FLOATS = frozenset({"f32", "f16", "bf16"})


def run(module: Module) -> Module:
    """Returns the module in which convolutions of scaled filters replace scaled convolutions.

    The result of such a convolution has no other readers. In training it has: the statistics that
    the scale comes from.
    """
    return each_program(module, lambda computation: _Rewriter(computation).computation())


@dataclass(frozen=True, slots=True, kw_only=True)
class _ChannelScale:
    """A convolution whose channels are scaled and shifted.

    Attributes:
        convolution: The convolution.
        bias: Name of addends before the scale, one a channel; None without them.
        scale: Name of the factors.
        shift: Name of the addends after it.
        result: The result of the shift, in the type of the convolution.
    """

    convolution: Instruction
    bias: str | None
    scale: str
    shift: str
    result: Instruction


@dataclass(frozen=True, slots=True, kw_only=True)
class _Channels:
    """A value of every channel: the name of an instruction, and its type."""

    name: str
    type: Array


class _Rewriter:
    """Rewrites one computation."""

    def __init__(self, computation: Computation) -> None:
        self._computation = computation
        self._definitions = computation.by_name()
        self._read_by = computation.users

    def computation(self) -> Computation:
        """Returns the computation with folded scales."""
        folded_products = {
            scaled.result.name: scaled
            for instruction in self._computation
            if (scaled := self._scaled(instruction)) is not None
        }
        if not folded_products:
            return self._computation
        instructions: list[Instruction] = []
        for instruction in self._computation:
            scaled = folded_products.get(instruction.name)
            instructions += [instruction] if scaled is None else self._folded(scaled)
        return with_instructions(self._computation, instructions)

    def _scaled(self, convolution: Instruction) -> _ChannelScale | None:
        """Returns how the channels of a convolution are scaled and shifted, if they are."""
        if convolution.opcode != "convolution":
            return None
        before = convolution
        biased = self._only_reader(convolution)
        bias = self._channels(biased, "add", convolution)
        if biased is not None and bias is not None:
            before = biased
        product = self._only_reader(self._uncast(before))
        scale = self._channels(product, "multiply", convolution)
        if product is None or scale is None:
            return None
        total = self._only_reader(product)
        shift = self._channels(total, "add", convolution)
        if total is None or shift is None:
            return None
        result = self._uncast(total)
        if result.type != convolution.type:
            return None
        return _ChannelScale(
            convolution=convolution, bias=bias, scale=scale, shift=shift, result=result
        )

    def _uncast(self, instruction: Instruction) -> Instruction:
        """Returns the cast between floating point types that alone reads an instruction."""
        reader = self._only_reader(instruction)
        is_cast = reader is not None and reader.opcode == "convert" and _is_float(reader)
        return reader if reader is not None and is_cast else instruction

    def _only_reader(self, instruction: Instruction) -> Instruction | None:
        readers = self._read_by[instruction.name]
        alone = len(readers) == 1 and instruction.name != self._computation.root
        return readers[0] if alone else None

    def _channels(
        self, instruction: Instruction | None, opcode: str, convolution: Instruction
    ) -> str | None:
        """Returns the values that an operation combines with the channels of a convolution."""
        if instruction is None or instruction.opcode != opcode:
            return None
        feature = convolution.attributes["convolution_dimension_numbers"].output_feature
        for name in instruction.operands:
            broadcast = self._definitions[name]
            if broadcast.opcode != "broadcast":
                continue
            if tuple(broadcast.attributes["dimensions"]) == (feature,):
                return broadcast.operands[0]
        return None

    def _folded(self, scaled: _ChannelScale) -> Iterator[Instruction]:
        """Yields a convolution with a scaled filter and a bias; the last has the result's name."""
        convolution, result = scaled.convolution, scaled.result
        numbers = convolution.attributes["convolution_dimension_numbers"]
        image, kernel = convolution.operands
        filter_type = self._definitions[kernel].type
        prefix = f"{convolution.name}.folded"
        origin = result.replace(operands=(), attributes={}, computations=())
        factors = yield from _repeated(
            origin,
            f"{prefix}.scale",
            self._channels_of(scaled.scale),
            filter_type,
            numbers.kernel_output_feature,
        )
        scaled_kernel = f"{prefix}.filter"
        yield origin.replace(
            name=scaled_kernel, opcode="multiply", type=filter_type, operands=(kernel, factors)
        )
        yield convolution.replace(name=prefix, operands=(image, scaled_kernel))
        shift = yield from self._shift(origin, prefix, scaled)
        bias = yield from _repeated(
            origin, f"{prefix}.bias", shift, convolution.type, numbers.output_feature
        )
        yield origin.replace(opcode="add", operands=(prefix, bias))

    def _shift(
        self, origin: Instruction, prefix: str, scaled: _ChannelScale
    ) -> Generator[Instruction, None, _Channels]:
        """Yields the sum of the shift and the scaled bias; returns it."""
        shift, scale = self._channels_of(scaled.shift), self._channels_of(scaled.scale)
        if scaled.bias is None:
            return shift
        bias = self._channels_of(scaled.bias)
        bias = yield from _cast(origin, f"{prefix}.before", bias, scale.type.dtype)
        product, total = f"{prefix}.scaled", f"{prefix}.shift"
        yield origin.replace(
            name=product, opcode="multiply", type=scale.type, operands=(bias.name, scale.name)
        )
        yield origin.replace(
            name=total, opcode="add", type=shift.type, operands=(product, shift.name)
        )
        return _Channels(name=total, type=shift.type)

    def _channels_of(self, name: str) -> _Channels:
        return _Channels(name=name, type=self._definitions[name].array)


def _repeated(
    origin: Instruction, name: str, values: _Channels, type_: Type, dimension: int
) -> Generator[Instruction, None, str]:
    """Yields values of channels, cast and repeated to a type; returns the name of the last."""
    dtype = type_.dtype if isinstance(type_, Array) else values.type.dtype
    values = yield from _cast(origin, name, values, dtype)
    yield origin.replace(
        name=name,
        opcode="broadcast",
        type=type_,
        operands=(values.name,),
        attributes={"dimensions": (dimension,)},
    )
    return name


def _cast(
    origin: Instruction, name: str, values: _Channels, dtype: str
) -> Generator[Instruction, None, _Channels]:
    """Yields a cast of values of channels if their type differs; returns the values."""
    if values.type.dtype == dtype:
        return values
    cast = _Channels(name=f"{name}.cast", type=Array(dtype, values.type.dims))
    yield origin.replace(name=cast.name, opcode="convert", type=cast.type, operands=(values.name,))
    return cast


def _is_float(instruction: Instruction) -> bool:
    return isinstance(instruction.type, Array) and instruction.type.dtype in _FLOATS
