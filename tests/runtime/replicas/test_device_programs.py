"""The device program of a replicated function charges its collectives."""

import dataclasses

import pytest
import tensorflow as tf

from ipu_tf.config import device_configuration, reset_ipu_configuration
from ipu_tf.machine import links
from ipu_tf.machine.system import system_of
from ipu_tf.ops import all_to_all_op, cross_replica_ops, reduce_scatter_op
from tests.runtime.replicas.programs import on_ipus

TRIPS = 3
ELEMENTS = 4096


@pytest.fixture(scope="module")
def program():
    """The device program of four replicas with a loop around their collectives."""
    strategy = on_ipus(4)

    @tf.function
    def replicated(x):
        for _ in tf.range(TRIPS):
            x = cross_replica_ops.cross_replica_sum(x)
        part = reduce_scatter_op.reduce_scatter(x, 4)
        return all_to_all_op.all_gather(part, 4) + all_to_all_op.all_to_all(x[None], 1, 0, 4)

    strategy.run(replicated, args=(tf.ones([ELEMENTS]),))
    (found,) = strategy.report().programs
    yield found.device
    reset_ipu_configuration()


@pytest.mark.parametrize(
    ("opcode", "seconds", "times"),
    [
        ("all-reduce", links.all_reduce_seconds, TRIPS),
        ("reduce-scatter", links.reduce_scatter_seconds, 1),
        ("all-gather", links.all_gather_seconds, 1),
    ],
)
def test_collectives_take_the_time_of_the_links(program, opcode, seconds, times):
    (step,) = [step for step in program.stages[0].program.steps if step.opcode == opcode]
    (superstep,) = step.supersteps
    target = device_configuration().target
    system = dataclasses.replace(system_of(target, 4), target=target)
    expected = round(seconds(system, 4, 4 * ELEMENTS) * target.clock_hz)
    assert (step.repeats, superstep.exchange_cycles) == (times, expected)


def test_all_to_all_is_charged(program):
    assert "all-to-all" in {step.opcode for step in program.stages[0].program.steps}


def test_the_program_is_that_of_all_replicas(program):
    assert (program.replicas, program.replica_ipus) == (4, 1)
    assert program.system == system_of("bow", 4).name
