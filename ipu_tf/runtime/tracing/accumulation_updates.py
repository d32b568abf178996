"""Updates of variables by sums of gradients wait until the sums are complete."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

import tensorflow as tf

from ipu_tf.ops.functions.stateful_accumulation import Accumulation, accumulations_in

_NEUTRAL_INPUTS: Mapping[str, tuple[int, Mapping[int, float]]] = MappingProxyType(
    {
        "ResourceApplyGradientDescent": (2, {2: 0.0}),
        "ResourceApplyMomentum": (3, {2: 0.0, 3: 0.0, 4: 1.0}),
    }
)
"""For the op of an update, the place of its gradient, and the values of inputs by their places with
which it leaves its variables as they are."""

_PLACES_OF_GRADIENTS: Mapping[str, int] = MappingProxyType(
    {"ResourceApplyAdam": 9, "ResourceApplyAdagrad": 3, "ResourceApplyRMSProp": 7}
)
"""The places of gradients of other updates; the last input of those that are in neither table."""


def update_inputs(
    op_type: str, inputs: Sequence[tf.Tensor], graph: tf.Graph
) -> tuple[Sequence[tf.Tensor], int]:
    """Returns the inputs of an update, and the executions of the sum that it takes.

    An update whose gradient comes from `ipu_stateful_gradient_accumulate` leaves its variables as
    they are before the last execution.

    Args:
        op_type: Its type.
        inputs: Its inputs.
        graph: The graph that gets it.

    Raises:
        ValueError: The update is neither one of gradient descent nor one of momentum.
    """
    accumulations = accumulations_in(graph)
    if not accumulations:
        return inputs, 1
    place, values = _NEUTRAL_INPUTS.get(op_type, (_PLACES_OF_GRADIENTS.get(op_type, -1), None))
    accumulation = _behind(inputs[place], accumulations)
    if accumulation is None:
        return inputs, 1
    if values is None:
        raise ValueError(
            f"{op_type} takes a gradient of ipu_stateful_gradient_accumulate, which is zero "
            "before its sum is complete. Only the updates of gradient descent and momentum wait "
            "for it. Use GradientAccumulationOptimizerV2 around the optimizer."
        )
    inputs_by_step = list(inputs)
    for index, value in values.items():
        value_of_step = inputs[index]
        inputs_by_step[index] = tf.where(
            accumulation.is_done,
            value_of_step,
            tf.constant(value, value_of_step.dtype, value_of_step.shape),
        )
    return inputs_by_step, accumulation.executions


def _behind(tensor: tf.Tensor, accumulations: Sequence[Accumulation]) -> Accumulation | None:
    """Returns the accumulation that a tensor is computed from, None if there is none."""
    by_result = {one.total.ref(): one for one in accumulations}
    worklist, references = [tensor], set()
    while worklist:
        here = worklist.pop()
        if here.ref() in by_result:
            return by_result[here.ref()]
        if here.ref() not in references:
            references.add(here.ref())
            worklist += here.op.inputs
    return None
