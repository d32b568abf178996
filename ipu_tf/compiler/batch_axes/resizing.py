"""Derives the step of another batch size from that of one."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from ipu_tf.compiler.batch_axes.extents import Axes, Extents, NotInferable
from ipu_tf.compiler.batch_axes.inference import AxesByName, live, sample_extents
from ipu_tf.compiler.hlo import Array, Instruction, InvalidModule, Module, TupleType, Type, verify
from ipu_tf.compiler.lowering.contractions.contraction_shape import dot_shape
from ipu_tf.compiler.option_plans import plan_of
from ipu_tf.compiler.traced_step import TracedStep
from ipu_tf.planner.plan import OpShape, Plan
from ipu_tf.planner.shapes import ConvShape, MatMulShape


def resized(step: TracedStep, samples: int) -> TracedStep:
    """Returns the step of another number of samples, as a trace for that number gives it.

    Contents of constants stay: no figure depends on the reciprocal of the samples. Not of a step of
    one sample: there XLA leaves out the broadcasts along the batch, and an average of one sample
    is no division. The tile ops are planned for their new shapes.

    Args:
        step: The step, as traced.
        samples: The samples of a run of the wanted step.

    Raises:
        NotInferable: The sizes of the wanted step do not follow from the step.
        PlanDoesNotFit: No plan of a tile op fits a tile.
    """
    if min(step.samples_per_run, samples) < 2:
        raise NotInferable("arrays of one sample are broadcast otherwise than those of several")
    module = step.module
    extents, axes_by_name = sample_extents(module, step.samples_per_run)
    _check_known(module, extents, axes_by_name)
    scale = _Scale(
        extents=extents, axes=axes_by_name, samples=step.samples_per_run, new_samples=samples
    )
    new = module.replace(
        computations={
            name: dataclasses.replace(computation, instructions=tuple(map(scale, computation)))
            for name, computation in module.computations.items()
        }
    )
    try:
        verify(new)
    except InvalidModule as error:
        raise NotInferable(str(error)) from error
    return dataclasses.replace(
        step, module=new, plans=_plans(step, new, scale), samples_per_run=samples
    )


def _check_known(module: Module, extents: Extents, axes_by_name: AxesByName) -> None:
    """Raises NotInferable if it is open of an extent that the result needs."""
    for computation in module.computations.values():
        for instruction in live(computation):
            for axes in axes_by_name[instruction.name]:
                if any(extents.counts_samples(extent) is None for extent in axes):
                    raise NotInferable(
                        f"nothing says which sizes of '{instruction.name}' "
                        f"({instruction.opcode}, {instruction.type}) grow with the samples"
                    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Scale:
    """Changes the sizes that grow with the samples.

    Attributes:
        extents: Which extents grow.
        axes: The extents of each instruction.
        samples: The samples of the step.
        new_samples: Those of the wanted step.
    """

    extents: Extents
    axes: AxesByName
    samples: int
    new_samples: int

    def size(self, size: int) -> int:
        """Returns a size that grows with the samples."""
        return size // self.samples * self.new_samples

    def __call__(self, instruction: Instruction) -> Instruction:
        """Returns an instruction with its new sizes."""
        type_ = self._type(instruction.type, iter(self.axes[instruction.name]))
        if type_ == instruction.type:
            return instruction
        changes = _changed_attributes(instruction, type_) if isinstance(type_, Array) else {}
        attributes = {**instruction.attributes, **changes}
        return instruction.replace(type=type_, attributes=attributes)

    def _type(self, type_: Type, axes: Iterator[Axes]) -> Type:
        if isinstance(type_, TupleType):
            return TupleType(tuple(self._type(part, axes) for part in type_.parts))
        counts = map(self.extents.counts_samples, next(axes))
        dims = [
            self.size(dim) if counts_samples else dim
            for dim, counts_samples in zip(type_.dims, counts, strict=True)
        ]
        return Array(type_.dtype, tuple(dims))


def _changed_attributes(instruction: Instruction, type_: Array) -> Mapping[str, object]:
    """Returns the attributes of an instruction that repeat the sizes of its new type."""
    attributes, opcode = instruction.attributes, instruction.opcode
    if opcode == "slice":
        before = instruction.array.dims
        slices = [
            part if size == old else dataclasses.replace(part, limit=size)
            for part, size, old in zip(
                attributes["slice_dimensions"], type_.dims, before, strict=True
            )
        ]
        return {"slice_dimensions": tuple(slices)}
    if opcode == "dynamic-slice":
        return {"dynamic_slice_sizes": type_.dims}
    if opcode == "constant" and "literal" in attributes:
        values = np.unique(attributes["literal"])
        if values.size != 1:
            raise NotInferable(f"'{instruction.name}' lists a value for each sample")
        return {"literal": np.full(type_.dims, values[0], attributes["literal"].dtype)}
    if opcode == "gather":
        offsets = attributes["gather_dimension_numbers"].offset_dims
        before = instruction.array.dims
        if any(before[axis] != type_.dims[axis] for axis in offsets):
            raise NotInferable(f"'{instruction.name}' takes all samples in each slice")
    return {}


def _plans(step: TracedStep, new: Module, scale: _Scale) -> Mapping[str, tuple[OpShape, Plan]]:
    """Returns the plans of the tile ops at their new shapes."""
    shapes = dict(_new_shapes(step, new, scale))
    if shapes.keys() != step.plans.keys():
        raise NotInferable("the step has other products than its tile ops")
    plans: dict[str, tuple[OpShape, Plan]] = {}
    for name, (shape, plan) in step.plans.items():
        if plan != plan_of(shape, step.options):
            raise NotInferable(f"the plan of '{name}' is not that of the planner")
        plans[name] = shapes[name], plan_of(shapes[name], step.options)
    return plans


def _new_shapes(step: TracedStep, new: Module, scale: _Scale) -> Iterator[tuple[str, OpShape]]:
    """Yields the new shape of each tile op, by its name."""
    for computation in step.module.computations.values():
        after = new.computations[computation.name].by_name()
        before = computation.by_name()
        for instruction in computation:
            name = instruction.op_name
            if instruction.opcode not in ("dot", "convolution") or name not in step.plans:
                continue
            shape, _ = step.plans[name]
            old, resized_sizes = (
                [by_name[operand].array for operand in instruction.operands]
                for by_name in (before, after)
            )
            if isinstance(shape, ConvShape):
                yield name, shape if old == resized_sizes else _with_batch(shape, scale)
            else:
                products = dot_shape(instruction, *old), dot_shape(instruction, *resized_sizes)
                yield name, _product(shape, *products)


def _with_batch(shape: ConvShape, scale: _Scale) -> ConvShape:
    if shape.batch % scale.samples:
        raise NotInferable(f"{shape.batch} images are no multiple of {scale.samples} samples")
    return dataclasses.replace(shape, batch=scale.size(shape.batch))


def _product(shape: MatMulShape, old: MatMulShape, new: MatMulShape) -> MatMulShape:
    """Returns the new shape of a product; HLO may write it with its operands exchanged."""
    sizes = (shape.batch, shape.m, shape.k, shape.n)
    if sizes == (old.batch, old.m, old.k, old.n):
        return dataclasses.replace(shape, batch=new.batch, m=new.m, k=new.k, n=new.n)
    if sizes == (old.batch, old.n, old.k, old.m):
        return dataclasses.replace(shape, batch=new.batch, m=new.n, k=new.k, n=new.m)
    raise NotInferable(f"a product of {sizes} is written as another one")
