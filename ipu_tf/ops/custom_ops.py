"""Operations of the user: expressions of elements, functions of libraries that the host runs, and
ops written for Poplar."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import tensorflow as tf

from ipu_tf.internals.structures import TensorStructure
from ipu_tf.ops.functions.host_function import HostFunction
from ipu_tf.ops.kernels import user_op
from ipu_tf.poplar.user_op_bridge import UserOpCall

__all__ = ["codelet_expression_op", "cpu_user_operation", "precompiled_user_op"]


@tf.autograph.experimental.do_not_convert
def codelet_expression_op(vertex_expression: Callable[..., object], *args: tf.Tensor) -> tf.Tensor:
    """Returns an expression of the elements of tensors, which are broadcast to one shape.

    It has no gradient: taking one raises a `LookupError`, as the machine's operation does.

    Args:
        vertex_expression: The expression, a function of as many arguments as there are tensors.
        *args: The tensors.

    Returns:
        A tensor of the dtype of the first tensor.

    Raises:
        ValueError: There is no tensor.
    """
    if not args:
        raise ValueError("codelet_expression_op: pass the tensors of the expression.")
    tensors = [tf.convert_to_tensor(value) for value in args]
    result = tf.cast(vertex_expression(*tensors), tensors[0].dtype)
    return tf.raw_ops.PreventGradient(
        input=result,
        message="codelet_expression_op has no gradient. Write the expression with TensorFlow ops.",
    )


@tf.autograph.experimental.do_not_convert
def cpu_user_operation(
    inputs: Sequence[tf.Tensor],
    library_path: str,
    outs: Mapping[str, Sequence[object]] | None = None,
    name: str = "UserOp",
    op_name: str = "Callback",
    separate_gradients: bool = False,
    inputs_with_gradients: Sequence[int] | None = None,
    attributes: str | None = None,
    gradient_attributes: str | None = None,
) -> TensorStructure:
    """Returns the outputs of a C++ function that the host calls with the inputs.

    The function is `extern "C" void NAME(const std::vector<const void*>& data, const
    std::vector<std::uint32_t>& number_of_elements, const std::vector<void*>& outputs, const
    std::string& attributes, const std::string& name)`, and its gradient is `NAME_grad`, with the
    same parameters. The data of the gradient are the gradients of the outputs, then the outputs,
    then the inputs; its outputs are the gradients of the inputs.

    Args:
        inputs: Tensors.
        library_path: Path of the shared library.
        outs: "output_types" and "output_shapes" of the outputs, lists; None for no outputs.
        name: Name of the operation.
        op_name: Name of the function.
        separate_gradients: Whether the gradient is called once for each input.
        inputs_with_gradients: Numbers of the inputs that have a gradient; all of them if None.
        attributes: Text that the function receives.
        gradient_attributes: Text that the gradient receives.

    Returns:
        The list of outputs; the operation where there are none.

    Raises:
        ValueError: The library or the function does not exist, or an argument is out of its range.
    """
    face = f"cpu_user_operation '{name}'"
    _check_texts(face, attributes=attributes, gradient_attributes=gradient_attributes)
    tensors = [tf.convert_to_tensor(value) for value in inputs]
    forward = HostFunction(library_path, op_name, name, attributes or "")
    backward = HostFunction(library_path, f"{op_name}_grad", name, gradient_attributes or "")
    numbers = _gradient_inputs(face, inputs_with_gradients, len(tensors))
    specs = _specs(face, outs)
    _check_static(face, specs)
    forward.check()

    @tf.custom_gradient
    def operation(*tensors: tf.Tensor) -> Any:
        results = forward.outputs(tensors, specs)

        def gradient(*upstream: tf.Tensor) -> list[tf.Tensor | None]:
            backward.check()
            data = [*upstream, *results, *tensors]
            specs = [tf.TensorSpec(tensors[index].shape, tensors[index].dtype) for index in numbers]
            groups = [[spec] for spec in specs] if separate_gradients else [specs]
            gradients = [value for group in groups for value in backward.outputs(data, group)]
            by_input = dict(zip(numbers, gradients, strict=True))
            return [by_input.get(index) for index in range(len(tensors))]

        return tuple(results), gradient

    if not specs:
        return forward.call(tensors, specs)
    return list(operation(*tensors))


@tf.autograph.experimental.do_not_convert
def precompiled_user_op(
    inputs: Sequence[tf.Tensor],
    library_path: str,
    gp_path: str = "",
    outs: Mapping[str, Sequence[object]] | None = None,
    name: str = "UserOp",
    op_name: str = "Build",
    separate_gradients: bool = False,
    inputs_with_gradients: Sequence[int] | None = None,
    attributes: str | None = None,
    gradient_attributes: str | None = None,
) -> list[tf.Tensor]:
    """Returns the outputs of an op that C++ code for Poplar builds (docs/poplar.md).

    The code runs in this process, as the user: pass libraries and codelets that you trust.

    Args:
        inputs: Tensors.
        library_path: Path of the shared library, or of its C++ source, which is compiled.
        gp_path: Path of codelets that the op needs, a .gp file or C++; "" for none.
        outs: "output_types" and "output_shapes" of the outputs, lists; None for no outputs.
        name: Name of the operation, and of its steps in reports.
        op_name: Name of the function that builds the op; that of its gradient is `{op_name}_grad`.
        separate_gradients: Whether the gradient is built once for each input.
        inputs_with_gradients: Numbers of the inputs that have a gradient; all of them if None.
        attributes: Text that the function receives.
        gradient_attributes: Text that the gradient receives.

    Returns:
        The list of outputs.

    Raises:
        ValueError: The library cannot be loaded or compiled, its functions are not those of the
            API, building the op fails, or an argument is out of its range.
    """
    face = f"precompiled_user_op '{name}'"
    _check_texts(face, attributes=attributes, gradient_attributes=gradient_attributes)
    tensors = [tf.convert_to_tensor(value) for value in inputs]
    specs = _specs(face, outs)
    call = UserOpCall(
        library=str(library_path),
        codelets=str(gp_path or ""),
        function=op_name,
        label=name,
        attributes=attributes or "",
    )
    op = user_op.DifferentiableUserOp(
        call=call,
        gradient_attributes=gradient_attributes or "",
        separate_gradients=separate_gradients,
        gradient_inputs=tuple(_gradient_inputs(face, inputs_with_gradients, len(tensors))),
    )
    return [result for result in user_op.user_op(op, tensors, specs) if result is not None]


def _check_texts(face: str, **texts: object) -> None:
    for argument, text in texts.items():
        if text is not None and not isinstance(text, str):
            raise ValueError(f"{face}: `{argument}` must be a str. Received: {text!r}.")


def _gradient_inputs(face: str, numbers: Sequence[int] | None, inputs: int) -> list[int]:
    """Returns the numbers of the inputs that have a gradient."""
    if numbers is None:
        return list(range(inputs))
    if any(number not in range(inputs) for number in numbers):
        raise ValueError(
            f"{face}: `inputs_with_gradients` must be numbers of the "
            f"{inputs} inputs. Received: {list(numbers)}."
        )
    return list(numbers)


def _specs(face: str, outs: Mapping[str, Sequence[Any]] | None) -> list[tf.TensorSpec]:
    """Returns shapes and dtypes of the outputs."""
    if outs is None:
        return []
    try:
        pairs = zip(outs["output_shapes"], outs["output_types"], strict=True)
        specs = [tf.TensorSpec(shape, dtype) for shape, dtype in pairs]
    except (KeyError, ValueError) as error:
        raise ValueError(
            f"{face}: `outs` must have lists of equal length, "
            f"`output_types` and `output_shapes`. Received: {outs!r}."
        ) from error
    return specs


def _check_static(face: str, specs: Sequence[tf.TensorSpec]) -> None:
    for spec in specs:
        if not spec.shape.is_fully_defined():
            raise ValueError(f"{face}: outputs must have static shapes. Received: {spec.shape}.")
