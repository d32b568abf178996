"""The gradients of a micro-batch and their application, by the optimizer of a pipeline."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import keras
import tensorflow as tf

from ipu_tf.eager.backprop import GradientCaptureTape
from ipu_tf.gradient_accumulation import GradientAccumulationReductionMethod as Method
from ipu_tf.ops import grad_util_ops
from ipu_tf.pipelining import accumulation
from ipu_tf.pipelining.arguments import PipelineArguments
from ipu_tf.pipelining.optimizer_output import OptimizerFunctionOutput
from ipu_tf.runtime.tracing.gradient_sums import in_optimizer_type

_CAPTURED = "captured_grads"


@dataclass(frozen=True, slots=True, kw_only=True)
class Gradients:
    """The gradients of a micro-batch.

    Attributes:
        output: The result of the optimizer function.
        variables: The variables that the loss depends on.
        values: A gradient for each of them, dense.
        captured: Captured gradients by tag.
        sum_specs: Shapes and types of the gradients' sums.
        captured_specs: The same of the captured gradients.
        reduction_method: How micro-batches are reduced.
    """

    output: OptimizerFunctionOutput
    variables: tuple[tf.Variable, ...]
    values: list[tf.Tensor]
    captured: dict[str, list[tf.Tensor]]
    sum_specs: list[tf.TensorSpec]
    captured_specs: dict[str, list[tf.TensorSpec]]
    reduction_method: Method

    @property
    def loss(self) -> tf.Tensor:
        """The loss of the micro-batch."""
        loss: tf.Tensor = tf.convert_to_tensor(self.output.loss)
        return loss

    def apply(self, sums: list[tf.Tensor], captured: dict[str, list[tf.Tensor]]) -> None:
        """Applies reduced gradients with the optimizer.

        Args:
            sums: One for each variable, in the types of `sum_specs`.
            captured: Captured gradients by tag.
        """
        optimizer = self.output.opt
        totals = [
            in_optimizer_type(total, variable, optimizer)
            for total, variable in zip(
                _true_gradients(optimizer, sums), self.variables, strict=True
            )
        ]
        arguments = dict(self.output.apply_gradients_kwargs or {})
        if captured and _takes_captures(optimizer):
            arguments[_CAPTURED] = captured
        pairs = zip(totals, self.variables, strict=True)
        optimizer.apply_gradients(pairs, *(self.output.apply_gradients_args or ()), **arguments)
        if captured and self.output.captured_gradient_outfeed is not None:
            self.output.captured_gradient_outfeed.enqueue(captured)


def gradients_of(
    output: object, arguments: PipelineArguments, trainable: Sequence[tf.Variable]
) -> Gradients:
    """Returns the gradients of the loss in an optimizer function's result.

    Args:
        output: The result of the optimizer function.
        arguments: Those of the pipeline.
        trainable: The trainable variables that the stages use.

    Raises:
        RuntimeError: There are no variables to optimize.
        TypeError: The optimizer function returned something else.
    """
    if not isinstance(output, OptimizerFunctionOutput):
        raise TypeError(
            "`optimizer_function` must return an OptimizerFunctionOutput. "
            f"Received: {output!r} of type {type(output).__name__}."
        )
    pairs = [pair for pair in _pairs(output, trainable) if pair[0] is not None]
    if not pairs:
        raise RuntimeError(
            "No variables to optimize: the loss of the pipeline depends on no trainable variable. "
            "Create the variables of the stages as tf.Variable with `trainable=True`."
        )
    # The densified gradients belong to the backward pass.
    with tf.name_scope("gradients/"):
        values = [tf.convert_to_tensor(gradient) for gradient, _ in pairs]
    captured = grad_util_ops.take_captured_gradients() if _captures(output) else {}
    dtype = arguments.gradient_accumulation_dtype
    return Gradients(
        output=output,
        variables=tuple(variable for _, variable in pairs),
        values=values,
        captured=captured,
        sum_specs=[
            tf.TensorSpec(value.shape, accumulation.dtype_of(variable, dtype))
            for value, (_, variable) in zip(values, pairs, strict=True)
        ],
        captured_specs=tf.nest.map_structure(
            lambda tensor: tf.TensorSpec(
                tensor.shape,
                accumulation.dtype_of(tensor, dtype)
                if arguments.accumulates_captured
                else tensor.dtype,
            ),
            captured,
        ),
        reduction_method=arguments.reduction_method,
    )


def _pairs(
    output: OptimizerFunctionOutput, trainable: Sequence[tf.Variable]
) -> Sequence[tuple[Any, Any]]:
    """Returns gradients, None where the loss does not depend on a variable, and variables."""
    loss = tf.convert_to_tensor(output.loss)
    if not output.is_of_keras:
        arguments = dict(output.compute_gradients_kwargs or {})
        positional = output.compute_gradients_args or ()
        if not positional and arguments.get("var_list") is None and not _graph_variables():
            arguments["var_list"] = list(trainable)
        pairs: Sequence[tuple[Any, Any]] = output.opt.compute_gradients(
            loss, *positional, **arguments
        )
        return pairs
    variables = _variables(output)
    scaled_loss = _scaled_loss(output.opt, loss)
    # A Keras variable holds the variable of TensorFlow.
    tensors = [
        variable.value if isinstance(variable, keras.Variable) else variable
        for variable in variables
    ]
    return list(zip(tf.gradients(scaled_loss, tensors), variables, strict=True))


def _scaled_loss(optimizer: Any, loss: tf.Tensor) -> tf.Tensor:
    """Returns the loss as scaled by a Keras optimizer; those of tf_keras may scale none."""
    scale = getattr(optimizer, "scale_loss", None) or getattr(optimizer, "get_scaled_loss", None)
    return loss if scale is None else scale(loss)


def _true_gradients(optimizer: Any, gradients: list[Any]) -> list[Any]:
    """Returns gradients without the scale of the loss, if applying them leaves it to others."""
    if hasattr(optimizer, "scale_loss") or not hasattr(optimizer, "get_unscaled_gradients"):
        return gradients
    unscaled_gradients: list[Any] = optimizer.get_unscaled_gradients(gradients)
    return unscaled_gradients


def _variables(output: OptimizerFunctionOutput) -> list[Any]:
    """Returns the variables that a Keras optimizer updates.

    Raises:
        RuntimeError: None were given.
    """
    if output.tape is not None:
        return list(output.tape.watched_variables())
    if output.variables:
        return list(output.variables)
    raise RuntimeError(
        "No variables to optimize. With a Keras optimizer, OptimizerFunctionOutput needs "
        "`variables`, or a `tape` that has watched them."
    )


def _graph_variables() -> list[Any]:
    """Returns the trainable variables that the graph itself collects, as in TensorFlow 1."""
    return tf.compat.v1.trainable_variables()


def _captures(output: OptimizerFunctionOutput) -> bool:
    """Returns whether gradients are captured beside those of the variables."""
    return (
        output.gradient_capture_context is not None
        or isinstance(output.tape, GradientCaptureTape)
        or _takes_captures(output.opt)
    )


def _takes_captures(optimizer: Any) -> bool:
    """Returns whether an optimizer takes captured gradients when it applies gradients."""
    if getattr(optimizer, "supports_captured_grads", False):
        return True
    return _CAPTURED in inspect.signature(optimizer.apply_gradients).parameters
