"""`IpuUserOp`: custom ops written for Poplar, and their gradients.

An op of a graph has a key of its call (library, functions, attributes), by which its gradient is
found, and a key of its program, which is built when all shapes are known. Both hold in this process
alone: a graph from a file runs no code of the user's.
"""

from __future__ import annotations

import ctypes
import dataclasses
import functools
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import tensorflow as tf

from ipu_tf import config
from ipu_tf.ops.kernels import library
from ipu_tf.poplar import user_ops
from ipu_tf.poplar.user_op_bridge import (
    DTYPES,
    TensorType,
    UserOpCall,
    UserOpError,
    UserOpShapes,
    UserProgram,
)

OPS = frozenset({"IpuUserOp", "IpuStatelessUserOp"})
"""The types of the ops in graphs."""

UNKNOWN = ""
"""The key of the program of an op whose shapes are not known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DifferentiableUserOp:
    """A custom op with the gradients that it may have.

    Attributes:
        call: The forward op, or one of its gradients.
        gradient_attributes: Text that the function of the gradient gets.
        separate_gradients: Whether that is called once for each input.
        gradient_inputs: Numbers of the inputs that have a gradient.
    """

    call: UserOpCall
    gradient_attributes: str = ""
    separate_gradients: bool = False
    gradient_inputs: tuple[int, ...] = ()

    @property
    def name(self) -> str:
        """The name for messages."""
        return f"precompiled_user_op '{self.call.label}' ({self.call.function})"

    def gradient(self, of: int) -> DifferentiableUserOp:
        """Returns the gradient for an input, or for all of them."""
        call = dataclasses.replace(
            self.call,
            function=f"{self.call.function}{user_ops.GRADIENT}",
            attributes=self.gradient_attributes,
            is_gradient=True,
            gradient_of=of,
        )
        return DifferentiableUserOp(call=call)


def user_op(
    op: DifferentiableUserOp,
    inputs: Sequence[tf.Tensor],
    specs: Sequence[tf.TensorSpec],
    forward_outputs: int = 0,
) -> list[tf.Tensor | None]:
    """Returns the outputs of a custom op.

    Args:
        op: The op.
        inputs: Its inputs.
        specs: Its outputs.
        forward_outputs: The outputs of the forward op, of a gradient.

    Returns:
        A tensor for each output; None for those that a gradient leaves out.

    Raises:
        ValueError: The op cannot be called or built, or a tensor has a type that Poplar has not.
    """
    try:
        isolated = config.device_configuration().isolate_custom_ops
        is_stateless = user_ops.is_stateless(op.call, len(inputs), isolated=isolated)
        program = _program(op, inputs, specs, forward_outputs)
    except UserOpError as error:
        raise ValueError(f"{op.name}: {error}") from error
    has_output = (True,) * len(specs) if program is None else program.has_output
    output_specs = [spec for spec, has in zip(specs, has_output, strict=True) if has]
    call = library.load().ipu_stateless_user_op if is_stateless else library.load().ipu_user_op
    results = call(
        inputs=inputs,
        Tout=[spec.dtype for spec in output_specs],
        output_shapes=[spec.shape for spec in output_specs],
        call=_key_of(op),
        program=UNKNOWN if program is None else _key_of_program(program, _sizes(inputs)),
        label=op.call.label,
        name=op.call.label,
    )
    values = iter(results if output_specs else ())
    return [next(values) if has else None for has in has_output]


def _program(
    op: DifferentiableUserOp,
    inputs: Sequence[tf.Tensor],
    specs: Sequence[tf.TensorSpec],
    forward_outputs: int,
) -> UserProgram | None:
    """Returns the program of an op; None while a shape is not known, as in a symbolic call."""
    for each in (*inputs, *specs):
        if each.dtype.name not in DTYPES:
            raise UserOpError(
                f"Poplar has no tensors of type {each.dtype.name}. Cast them to 32 bits or less."
            )
    if not all(each.shape.is_fully_defined() for each in (*inputs, *specs)):
        return None
    device = config.device_configuration()
    shapes = UserOpShapes(
        call=op.call,
        inputs=tuple(map(_type, inputs)),
        outputs=tuple(map(_type, specs)),
        target=device.target,
        forward_outputs=forward_outputs,
    )
    return _build(shapes, device.isolate_custom_ops)


@functools.cache
def _build(op: UserOpShapes, isolated: bool) -> UserProgram:
    return user_ops.build(op, isolated=isolated)


def _type(tensor: tf.Tensor | tf.TensorSpec) -> TensorType:
    return TensorType(dtype=tensor.dtype.name, shape=tuple(tensor.shape))


def _sizes(inputs: Sequence[tf.Tensor]) -> tuple[int, ...]:
    """Returns the bytes of each input."""
    return tuple(each.shape.num_elements() * each.dtype.size for each in inputs)


_OPS_BY_KEY: dict[str, DifferentiableUserOp] = {}
_PROGRAMS_BY_KEY: dict[str, UserProgram] = {}


@functools.cache
def _key_of(op: DifferentiableUserOp) -> str:
    key = uuid.uuid4().hex
    _OPS_BY_KEY[key] = op
    return key


@functools.cache
def _key_of_program(program: UserProgram, sizes: tuple[int, ...]) -> str:
    """Returns the key by which the kernel finds a program."""
    key = uuid.uuid4().hex
    counts = (ctypes.c_int64 * len(sizes))(*sizes)
    library.add_user_program(key, program.run, program.op, counts)
    _PROGRAMS_BY_KEY[key] = program
    return key


def program_of(key: str) -> UserProgram:
    """Returns the program of an op of this process.

    Raises:
        KeyError: The op is not of this process, or its shapes are not known.
    """
    return _PROGRAMS_BY_KEY[key]


@tf.RegisterGradient("IpuUserOp")
@tf.RegisterGradient("IpuStatelessUserOp")
def _gradient(op: tf.Operation, *upstream: tf.Tensor | None) -> list[tf.Tensor | None]:
    """Returns the gradients of the inputs, which the library's function of the gradient makes."""
    key = op.get_attr("call").decode()
    if key not in _OPS_BY_KEY:
        raise LookupError(
            f"The custom op '{op.get_attr('label').decode()}' was made in another process, so its "
            "gradient is not known. Build the model again from its Python code."
        )
    forward = _OPS_BY_KEY[key]
    if forward.call.is_gradient:
        raise LookupError(f"{forward.name} is a gradient, and has none itself.")
    outputs = list(op.outputs)
    gradients = [
        tf.zeros_like(output) if grad is None else tf.convert_to_tensor(grad)
        for output, grad in zip(outputs, upstream, strict=True)
    ]
    inputs = list(op.inputs)
    operands = [*gradients, *outputs, *inputs]
    gradient_of_inputs: dict[int, tf.Tensor | None] = {}
    for group in _groups(forward):
        specs = [tf.TensorSpec(inputs[index].shape, inputs[index].dtype) for index in group]
        backward = forward.gradient(group[0] if forward.separate_gradients else 0)
        group_gradients = user_op(backward, operands, specs, len(outputs))
        gradient_of_inputs.update(zip(group, group_gradients, strict=True))
    return [
        gradient_of_inputs.get(index) if tensor.dtype.is_floating else None
        for index, tensor in enumerate(inputs)
    ]


def _groups(op: DifferentiableUserOp) -> Iterator[tuple[int, ...]]:
    """Yields the inputs whose gradients one call makes."""
    if op.separate_gradients:
        yield from ((index,) for index in op.gradient_inputs)
    elif op.gradient_inputs:
        yield op.gradient_inputs
