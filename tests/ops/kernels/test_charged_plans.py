"""The plan that is charged is the plan that the tile op executes."""

import numpy as np
import pytest
import tensorflow as tf

from ipu_tf import IPUStrategy, config, ops
from ipu_tf.ops.kernels.op_shapes import OpInputs
from ipu_tf.ops.kernels.twins import STOCK_OF, TWINS
from ipu_tf.ops.reference import Rounding
from ipu_tf.planner.plan import ConvPlan, MatMulPlan, MatMulShape
from ipu_tf.planner.plan_cost import plan_cost
from ipu_tf.planner.plan_steps import plan_supersteps
from ipu_tf.planner.planner import plan_op
from ipu_tf.runtime.tracing import op_attributes as attributes
from tests.ops.tile_op_calls import operands, run_op, run_reference


def tile_ops(graph):
    """Returns the tile ops of a graph and of the functions that it calls."""
    graphs = [graph, *(f.graph for f in graph._functions.values() if hasattr(f, "graph"))]
    return [op for g in graphs for op in g.get_operations() if op.type in STOCK_OF]


def shape_of(op):
    """Returns the shape that a plan of a tile op splits, from the op alone."""
    stock = STOCK_OF[op.type]
    twin = TWINS[stock]
    sizes = None
    if twin.sizes_input is not None:
        # The sizes that a gradient op is given are those of its result.
        sizes = op.outputs[0].shape.as_list()
    known = attributes.from_protos({name: op.node_def.attr[name] for name in op.node_def.attr})
    return twin.shape(
        OpInputs(
            op=op.name,
            attributes=known,
            shapes=[value.shape.as_list() for value in op.inputs],
            sizes=sizes,
            dtype=op.outputs[0].dtype.name,
        )
    )


def step(x, w, kernel):
    with tf.GradientTape() as tape:
        tape.watch([w, kernel])
        image = tf.nn.conv2d(x, kernel, 1, "SAME")
        loss = tf.reduce_sum(tf.matmul(tf.reshape(image, [x.shape[0], -1]), w))
    return tape.gradient(loss, [w, kernel])


@pytest.mark.fast_cells(1)
@pytest.mark.parametrize("dtype", [tf.float32, tf.float16])
def test_ops_in_a_graph_execute_the_plans_whose_cost_is_charged(dtype):
    traced = tf.function(lambda *args: IPUStrategy().run(step, args)).get_concrete_function(
        tf.TensorSpec([4, 8, 8, 3], dtype),
        tf.TensorSpec([8 * 8 * 16, 10], dtype),
        tf.TensorSpec([3, 3, 3, 16], dtype),
    )
    found = tile_ops(traced.graph)
    assert {STOCK_OF[op.type] for op in found} >= {"Conv2D", "MatMul", "Conv2DBackpropFilter"}
    machine = config.device_configuration().target
    for op in found:
        shape, executed = shape_of(op), ops.plan_of(op.outputs[0])
        planned = plan_op(shape, machine, partials=executed.partials)
        assert executed == planned
        steps = plan_supersteps(shape, executed, machine)
        assert sum(superstep.total_cycles for superstep in steps) == plan_cost(
            shape, planned, machine
        )


def test_methods_and_steps_reach_the_op():
    plan = MatMulPlan(
        rows=4,
        columns=2,
        reduction=2,
        serial_rows=2,
        serial_reduction=2,
        method="horizontal_mac_swapped",
    )
    a, b = tf.TensorSpec([8, 64], tf.float16), tf.TensorSpec([64, 32], tf.float16)
    assert ops.plan_of(ops.matmul, a, b, plan=plan) == plan


def test_steps_of_a_reduction_add_up_as_the_reference_says():
    shape = MatMulShape(m=7, k=96, n=9, dtype="float16")
    values = operands(shape, seed=3)
    for partials in ("float32", "float16"):
        for mode in ("nearest", "stochastic"):
            plan = MatMulPlan(reduction=6, serial_reduction=3, partials=partials)
            rounding = Rounding(mode=mode, seed=5, stream=1)
            np.testing.assert_array_equal(
                run_op(shape, plan, values, rounding),
                run_reference(shape, plan, values, rounding),
            )


def test_steps_and_methods_do_not_show_in_the_numbers():
    shape = MatMulShape(m=16, k=64, n=32, dtype="float16")
    values = operands(shape, seed=4)
    rounding = Rounding(mode="stochastic", seed=5)
    splits = {"rows": 4, "columns": 2, "reduction": 2, "partials": "float16"}
    plain = run_op(shape, MatMulPlan(**splits), values, rounding)
    for changes in ({"serial_rows": 4}, {"serial_reduction": 2}, {"method": "amp_1x1_swapped"}):
        changed = MatMulPlan(**splits, **changes)
        np.testing.assert_array_equal(run_op(shape, changed, values, rounding), plain)


def test_a_conv_plan_in_steps_is_read_back():
    plan = ConvPlan(batch=2, out_channels=2, serial_batch=2, serial_out_channels=2)
    x, w = tf.TensorSpec([2, 8, 8, 4]), tf.TensorSpec([3, 3, 4, 4])
    assert ops.plan_of(ops.conv2d, x, w, 1, "SAME", plan=plan) == plan
