"""What TensorFlow keeps private of graphs does what the functions that use it say."""

import pytest
import tensorflow as tf

from ipu_tf.internals.graphs import leave_unordered, op_def_of


class Ended(Exception):
    pass


@pytest.mark.parametrize(("is_left", "ordered"), [(False, 1), (True, 0)])
def test_ops_of_a_graph_that_never_runs_are_left_unordered(is_left, ordered):
    variable, found = tf.Variable(0.0), []

    @tf.function(autograph=False)
    def step():
        updates = [variable.assign_add(1.0).op for _ in range(2)]
        graph = tf.compat.v1.get_default_graph()
        found.extend(op for op in graph.get_operations() if op.type == "AssignAddVariableOp")
        if is_left:
            leave_unordered(graph)
        raise Ended(updates)

    with pytest.raises(Ended):
        step.get_concrete_function()
    assert [len(op.control_inputs) for op in found] == [0, ordered]


def test_definitions_of_ops_are_those_of_their_types():
    with tf.Graph().as_default():
        ops = [tf.constant(1.0).op, tf.random.uniform([2]).op]
    assert [op_def_of(op) for op in ops] == [op.op_def for op in ops]
    assert op_def_of(ops[0]) is op_def_of(ops[0])
