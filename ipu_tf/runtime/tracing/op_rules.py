"""How the tracer creates ops of each type: the table from types to rules.

A rule is a function from the trace and a request to the request that is created in its place. A
stock contraction becomes its tile twin; the other rules keep what the machine needs static.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol, cast

import tensorflow as tf

from ipu_tf.config import DeviceConfiguration
from ipu_tf.internals.tensorflow import evaluated_constant, is_recording
from ipu_tf.ops.kernels.numerics import numerics_for, planning_of_gradients
from ipu_tf.ops.kernels.op_shapes import OpInputs, TileOpAttributes, Untileable
from ipu_tf.ops.kernels.twins import (
    STOCK_OF,
    TWINS,
    Twin,
    plan_for,
    plan_from_attributes,
    tile_attributes,
)
from ipu_tf.planner.plan import OpShape, Plan
from ipu_tf.programs.op_names import is_gradient, scope_of
from ipu_tf.programs.program import Program, TileOp
from ipu_tf.runtime.tracing import (
    accumulation_updates,
    assignments,
    float_checks,
    list_sizes,
    replica_reads,
    slices,
    trial_loops,
)
from ipu_tf.runtime.tracing import op_attributes as attributes
from ipu_tf.runtime.tracing.call_ops import LOOPS
from ipu_tf.runtime.tracing.op_request import OpRequest
from ipu_tf.runtime.tracing.snapshots import Snapshots


class TracingState(Protocol):
    """What a rule knows of the trace, and tells it.

    Attributes:
        program: The program that is traced.
        configuration: The device that it is traced for.
        steps_of_update: Iterations of a loop after which an optimizer updates the weights.
        snapshots: Reads variables before they change; None for programs without a replay.
    """

    program: Program
    configuration: DeviceConfiguration
    steps_of_update: int
    snapshots: Snapshots | None

    def next_stream(self) -> int:
        """Returns the number of the next stream of random bits."""

    def layer_of(self, name: str) -> str:
        """Returns the path of an op's Keras layer, or its name scope if it has none."""

    def add_native(self, op_type: str, name: str, reason: str) -> None:
        """Records a contraction that TensorFlow's own kernel runs."""


Rule = Callable[[TracingState, OpRequest], OpRequest]


def _tile_op(trace: TracingState, request: OpRequest) -> OpRequest:
    """Creates a stock contraction as its tile twin, if a tile op can compute it."""
    twin = TWINS[request.op_type]
    try:
        _check_numerics(trace.configuration, request)
        shape = twin.shape(_inputs_of(twin, request))
    except Untileable as reason:
        trace.add_native(request.op_type, request.name, str(reason))
        return request
    layer = trace.layer_of(request.name)
    numerics = numerics_for(
        twin.family, trace.configuration, layer=layer, backward=is_gradient(request.name)
    )
    plan = plan_for(shape, numerics, None, request.name)
    _record(trace, request, layer, request.op_type, shape, plan, numerics.stochastic_rounding)
    own = {
        **tile_attributes(plan, numerics, trace.next_stream()),
        **planning_of_gradients(twin.family, trace.configuration, layer),
    }
    attrs = {**request.attrs, **attributes.to_protos(own)}
    return request.with_changes(op_type=twin.tile_op, attrs=attrs)


def _face_op(trace: TracingState, request: OpRequest) -> OpRequest:
    """Records a tile op that `ipu_tf.ops` or a gradient creates, and numbers its random bits."""
    stock = STOCK_OF[request.op_type]
    shape = TWINS[stock].shape(_inputs_of(TWINS[stock], request))
    own = attributes.from_protos(request.attrs)
    plan = plan_from_attributes(stock, own)
    layer = trace.layer_of(request.name)
    _record(trace, request, layer, stock, shape, plan, own["rounding"] == "stochastic")
    own_attributes: dict[str, attributes.PlainValue] = {
        "stream": trace.next_stream(),
        **planning_of_gradients(TWINS[stock].family, trace.configuration, layer),
    }
    return request.with_changes(attrs={**request.attrs, **attributes.to_protos(own_attributes)})


def _cast(trace: TracingState, request: OpRequest) -> OpRequest:
    """Rounds casts from float32 to float16 as the configuration says."""
    to_half = request.attrs["DstT"].type == tf.float16.as_datatype_enum
    is_native = trace.configuration.numerics == "native"
    if is_native or request.inputs[0].dtype != tf.float32 or not to_half:
        return request
    numerics = numerics_for("matmul", trace.configuration)
    own: dict[str, attributes.PlainValue] = {
        "plan": [],
        "method": "",
        "serial": [],
        "partials": "float32",
        "rounding": "stochastic" if numerics.stochastic_rounding else "nearest",
        "nanoo": numerics.nanoo,
        "stream": trace.next_stream(),
    }
    attrs = {**request.attrs, **attributes.to_protos(own)}
    return request.with_changes(op_type="IpuCast", attrs=attrs)


def _read_of_replica(trace: TracingState, request: OpRequest) -> OpRequest:
    """Gives each replica elements of its own."""
    del trace
    op_type, inputs = replica_reads.of_replica(request.op_type, request.inputs, request.name)
    return request.with_changes(op_type=op_type, inputs=inputs)


def _slice(trace: TracingState, request: OpRequest) -> OpRequest:
    """Makes the sizes of slices static."""
    del trace
    inputs, attrs = slices.with_static_sizes(request.inputs, request.attrs)
    return request.with_changes(inputs=inputs, attrs=attrs)


def _list_size(trace: TracingState, request: OpRequest) -> OpRequest:
    """Replaces the size of a tensor list by a constant if it is static."""
    del trace
    if is_recording():
        return request
    constant = list_sizes.constant_of(request.op_type, request.inputs, request.attrs)
    return request if constant is None else request.with_changes("Const", inputs=[], attrs=constant)


def _loop(trace: TracingState, request: OpRequest) -> OpRequest:
    """Limits the iterations of a loop while a script is tried out."""
    inputs, attrs = trial_loops.loop_with_limit(
        request.graph, request.op_type, request.inputs, request.attrs, trace.steps_of_update
    )
    return request.with_changes(inputs=inputs, attrs=attrs)


def _update(trace: TracingState, request: OpRequest) -> OpRequest:
    """Lets the update of a variable wait until the sum of its gradients is complete."""
    inputs, executions = accumulation_updates.update_inputs(
        request.op_type, request.inputs, request.graph
    )
    trace.steps_of_update = max(trace.steps_of_update, executions)
    return request.with_changes(inputs=inputs)


def _assignment(trace: TracingState, request: OpRequest) -> OpRequest:
    """Takes assignments of steps of optimizers apart, unless operations are checked one by one."""
    is_checked = trace.snapshots is not None or float_checks.are_on(trace.configuration)
    return request if is_checked else assignments.split_assignment(request)


def _descent(trace: TracingState, request: OpRequest) -> OpRequest:
    """Takes updates of plain gradient descent apart, as `_assignment` takes assignments."""
    request = _update(trace, request)
    is_checked = trace.snapshots is not None or float_checks.are_on(trace.configuration)
    return request if is_checked else assignments.split_descent(request)


def _native(trace: TracingState, request: OpRequest) -> OpRequest:
    """Records a contraction that no tile op computes."""
    reason = "no tile op exists for ops of this type"
    trace.add_native(request.op_type, request.name, reason)
    return request


UPDATES = frozenset(
    name for name in dir(tf.raw_ops) if name.startswith(("ResourceApply", "ResourceSparseApply"))
)
"""Types of the ops that update a variable and its slots."""

_CONTRACTIONS_WITHOUT_TWIN = frozenset(
    {
        "SparseMatMul", "SparseTensorDenseMatMul", "QuantizedMatMul",
        "Conv3D", "Conv3DBackpropInputV2", "Conv3DBackpropFilterV2", "Conv", "XlaDotV2",
        "Conv2DBackpropInputV2", "Conv2DBackpropFilterV2", "XlaConvV2", "Dilation2D",
        "CudnnRNN", "CudnnRNNV2", "CudnnRNNV3", "BlockLSTM", "BlockLSTMV2", "GRUBlockCell",
    }
)  # fmt: skip

RULES: Mapping[str, Rule] = {
    **dict.fromkeys(_CONTRACTIONS_WITHOUT_TWIN, _native),
    **dict.fromkeys(UPDATES, _update),
    "ResourceApplyGradientDescent": _descent,
    **dict.fromkeys(assignments.ASSIGNMENTS, _assignment),
    **dict.fromkeys(LOOPS, _loop),
    **dict.fromkeys(list_sizes.SIZES, _list_size),
    "StridedSlice": _slice,
    **dict.fromkeys(replica_reads.READS, _read_of_replica),
    "Cast": _cast,
    **dict.fromkeys(STOCK_OF, _face_op),
    **dict.fromkeys(TWINS, _tile_op),
}
"""The rule of each type of op; ops of other types are created as they are."""


def _record(
    trace: TracingState,
    request: OpRequest,
    layer: str,
    stock: str,
    shape: OpShape,
    plan: Plan,
    stochastic_rounding: bool,
) -> None:
    trace.program.tile_ops.append(
        TileOp(
            name=request.name,
            layer=layer,
            op_type=stock,
            shape=shape,
            plan=plan,
            stochastic_rounding=stochastic_rounding,
        )
    )


def _check_numerics(configuration: DeviceConfiguration, request: OpRequest) -> None:
    if configuration.numerics == "native":
        raise Untileable("cfg.simulator.numerics is 'native'")
    dtypes = {one.dtype for one in request.inputs if one.dtype != tf.int32} or {tf.int32}
    if len(dtypes) > 1 or not dtypes <= {tf.float32, tf.float16}:
        names = ", ".join(sorted(dtype.name for dtype in dtypes))
        raise Untileable(f"inputs of type {names}; tile ops take float32 and float16")
    result = tf.as_dtype(request.attrs["Tout"].type) if "Tout" in request.attrs else None
    if result is not None and result not in dtypes:
        raise Untileable(f"a result of type {result.name}, which differs from that of its inputs")


def _inputs_of(twin: Twin, request: OpRequest) -> OpInputs:
    sizes = None
    if twin.sizes_input is not None:
        sizes = _static_values(request.inputs[twin.sizes_input])
    shapes = [_static_shape(tensor, request.name) for tensor in request.inputs]
    dtype = next(one.dtype.name for one in request.inputs if one.dtype.is_floating)
    return OpInputs(
        op=request.name,
        attributes=cast("TileOpAttributes", attributes.from_protos(request.attrs)),
        shapes=shapes,
        sizes=sizes,
        dtype=dtype,
    )


def _static_values(sizes: tf.Tensor) -> list[int] | None:
    """Returns the values of a tensor of sizes, None if they are not static."""
    op = getattr(sizes, "op", None)  # An eager tensor has none.
    if op is not None and op.type == "ShapeN":
        shape = op.inputs[sizes.value_index].shape
        return shape.as_list() if shape.is_fully_defined() else None
    value = evaluated_constant(sizes)
    return None if value is None else [int(size) for size in value]


def _static_shape(tensor: tf.Tensor, name: str) -> list[int]:
    if not tensor.shape.is_fully_defined():
        layer = scope_of(name) or "the top level"
        maker = _where_size_is_lost(tensor)
        raise ValueError(
            f"Op '{name}' (layer '{layer}') has an input of shape {tensor.shape} which is not "
            f"fully defined; its size is unknown from op '{maker.name}' ({maker.type}) on. Shapes "
            "are static on the IPU: batch data with `drop_remainder=True`, and give variable sizes "
            "as Python integers."
        )
    return tensor.shape.as_list()


def _where_size_is_lost(tensor: tf.Tensor) -> tf.Operation:
    """Returns the first op on the way to a tensor that loses the static size of its inputs."""
    op = tensor.op
    while unknown := [source for source in op.inputs if not source.shape.is_fully_defined()]:
        op = unknown[0].op
    return op
