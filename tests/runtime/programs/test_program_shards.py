"""Programs whose parts `ipu_shard` places on IPUs, and parts that the host runs."""

import numpy as np
import pytest
import tensorflow as tf

from ipu_tf import IPUConfig, IPUStrategy, loops, scopes, sharding
from ipu_tf.config import reset_ipu_configuration
from ipu_tf.optimizers import GradientAccumulationOptimizerV2
from ipu_tf.pipelining import pipeline
from ipu_tf.runtime.extraction.uncompilable import UncompilableProgram

v1 = tf.compat.v1


@pytest.fixture(autouse=True)
def unconfigured():
    yield
    reset_ipu_configuration()


def configure(ipus):
    config = IPUConfig()
    config.auto_select_ipus = ipus
    config.configure_ipu_system()


class Network:
    """Three products, the middle one on another IPU."""

    def __init__(self):
        rng = np.random.default_rng(1)
        shapes = ((8, 16), (16, 16), (16, 4))
        self.weights = [tf.Variable(rng.normal(size=shape).astype("float32")) for shape in shapes]
        self.x = tf.constant(rng.normal(size=(2, 8)).astype("float32"))

    def gradients(self, shard):
        """Returns the gradients of the loss in a program, and the program."""

        @tf.function
        def step(x):
            with tf.GradientTape() as tape:
                for weight, ipu in zip(self.weights, (0, 1, 0), strict=True):
                    with shard(ipu):
                        x = tf.nn.relu(tf.matmul(x, weight))
                loss = tf.reduce_mean(x)
            return tape.gradient(loss, self.weights)

        strategy = IPUStrategy()
        gradients = strategy.run(step, args=(self.x,))
        (program,) = strategy.report().programs
        return [gradient.numpy() for gradient in gradients], program.device


def test_shards_change_places_not_numbers():
    network = Network()
    configure(1)
    expected, whole = network.gradients(lambda ipu: tf.name_scope("part"))
    configure(2)
    found, device = network.gradients(scopes.ipu_shard)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one, other)
    assert len(whole.stages) == 1
    assert [stage.ipu for stage in device.stages] == [0, 1, 0]
    assert [ipu.ipu for ipu in device.ipus] == [0, 1]
    assert (device.replica_ipus, device.replicas, device.schedule) == (2, 1, "sequential")
    for stage in device.stages:  # The gradients follow their forward ops.
        assert stage.forward_cycles > 0
        assert stage.backward_cycles > 0
        dots = [step for step in stage.program.steps if step.opcode == "dot"]
        assert len(dots) == (3 if stage.index else 2)
    crossings = {(c.source, c.destination, c.phase) for c in device.crossings}
    assert {(0, 1, "forward"), (1, 2, "forward"), (2, 1, "backward"), (1, 0, "backward")} <= (
        crossings
    )
    assert device.timeline.bubble_share > 0


def test_the_device_has_replicas_of_all_shards():
    configure(4)

    @tf.function
    def program(x):
        with scopes.ipu_shard(1):
            return x + tf.cast(IPUStrategy().num_replicas, tf.float32)

    assert IPUStrategy().run(program, args=(tf.constant(1.0),)) == 3.0


@pytest.mark.parametrize(
    ("message", "index"),
    [("takes the number of an IPU", -1), ("takes the number of an IPU", 1.5)],
)
def test_refuses_what_is_no_number_of_an_ipu(message, index):
    with pytest.raises(ValueError, match=message), scopes.ipu_shard(index):
        pass


def test_refuses_more_shards_than_ipus():
    configure(2)

    @tf.function
    def program():
        with scopes.ipu_shard(2):
            return tf.zeros([])

    with pytest.raises(ValueError, match="has 2 IPUs attached, .* requires a multiple of 4 IPUs"):
        IPUStrategy().run(program)


def test_refuses_shards_in_stages():
    configure(2)

    def stage(x):
        with scopes.ipu_shard(0):
            return x + 1

    @tf.function
    def program(x):
        pipeline([stage, lambda x: None], 2, inputs=[x])

    with pytest.raises(ValueError, match="remove `ipu_shard` from its function"):
        IPUStrategy().run(program, args=(tf.constant(1.0),))


def test_the_host_runs_what_is_outside_of_the_compilation():
    configure(1)

    @tf.function
    def program(x):
        y = tf.matmul(x, x)
        with scopes.outside_compilation_scope():
            y = tf.matmul(y, y)
        return tf.matmul(y, y)

    strategy = IPUStrategy()
    x = tf.constant([[1.0, 2.0], [3.0, 4.0]])
    np.testing.assert_array_equal(
        strategy.run(program, args=(x,)), np.linalg.matrix_power(x.numpy(), 8)
    )
    (found,) = strategy.report().programs
    steps = found.device.stages[0].program.steps
    assert len(found.tile_ops) == 2
    assert sum(step.opcode == "host-call" for step in steps) == 1


def test_refuses_scopes_outside_of_a_program_or_nested():
    with (
        pytest.raises(ValueError, match="is outside of a program"),
        scopes.outside_compilation_scope(),
    ):
        pass

    @tf.function
    def program():
        with scopes.outside_compilation_scope(), scopes.outside_compilation_scope():
            return tf.zeros([])

    with pytest.raises(ValueError, match="cannot be nested"):
        IPUStrategy().run(program)


def test_other_scopes_take_names_of_devices_and_attributes():
    with (
        pytest.raises(ValueError, match="takes the name of an IPU device"),
        scopes.ipu_scope("/device:CPU:0"),
    ):
        pass
    with pytest.raises(TypeError, match="frontend_attribute takes strings"):
        scopes.frontend_attribute("a", 1)
    with (
        scopes.ipu_scope("/job:localhost/device:IPU:1") as scope,
        scopes.ipu_jit_scope(scope),
        scopes.frontend_attribute("a", "b"),
    ):
        assert scopes.is_on_ipu()
    assert not scopes.is_on_ipu()


def test_operations_say_their_ipus():
    configure(2)
    found = {}

    @tf.function
    def program(x):
        with scopes.ipu_shard(0):
            y = tf.exp(x)
        with scopes.ipu_shard(1):
            z = tf.sin(y)
        after = tf.identity(z) + 1
        graph = z.graph
        assert sharding.get_sharding(after.op) is None
        sharding.enable_sharded_gradient_tape()
        sharding.propagate_sharding(graph)
        found["ipus"] = [sharding.get_sharding(tensor.op) for tensor in (y, z, after)]
        found["ancestors"] = [op.type for op in sharding.dependencies([after])]
        with tf.compat.v1.colocate_with(z.op):
            found["colocated"] = sharding.get_shard_from_colocation(tf.zeros([2]).op)
        assert not sharding.has_attr(y.op, "colour")
        return after

    IPUStrategy().run(program, args=(tf.constant(1.0),))
    assert found["ipus"] == [0, 1, 1]
    assert found["ancestors"].index("Exp") < found["ancestors"].index("Sin")
    assert found["ancestors"][-1] == "AddV2"
    assert found["colocated"] == 1


def halves(x, weights):
    """Returns the product of three matrices, each multiplication on an IPU of its own."""
    for ipu, weight in enumerate(weights):
        with scopes.ipu_shard(ipu):
            x = tf.matmul(x, weight)
    return x


@pytest.fixture
def matrices():
    configure(4)
    return [tf.Variable(tf.eye(16) * scale) for scale in (2.0, 0.75)]


def products(device):
    """Returns the cycles of the products of a program by IPU."""
    return [
        (stage.ipu, step.cycles)
        for stage in device.stages
        for step in stage.program.steps
        if step.opcode == "dot"
    ]


@pytest.mark.slow
def test_the_body_of_a_loop_is_laid_over_ipus(matrices):
    strategy = IPUStrategy()

    @tf.function
    def once(x):
        return halves(x, matrices)

    @tf.function
    def looped(x):
        for _ in tf.range(3):
            x = loops.repeat(2, lambda x: halves(x, matrices), [x])
        return tf.matmul(x, x)

    x = tf.eye(16)
    strategy.run(once, args=(x,))
    np.testing.assert_allclose(strategy.run(looped, args=(x,)), np.eye(16) * 1.5**12, rtol=1e-6)
    alone, outer, inner, around = strategy.report().programs
    assert [program.name for program in (alone, outer, inner)] == [
        "once", "looped.while", "looped.while.while",
    ]  # fmt: skip
    assert [program.steps_per_execution for program in (outer, inner)] == [3, 6]
    assert products(inner.device) == products(alone.device)
    assert [ipu for ipu, _ in products(inner.device)] == [0, 1]
    assert [len(program.tile_ops) for program in (around, outer, inner)] == [1, 0, 2]
    assert inner.device.replicas == 2
    for program in (outer, inner):  # What a loop carries stays on the device.
        opcodes = {step.opcode for stage in program.device.stages for step in stage.program.steps}
        assert not opcodes & {"infeed", "outfeed"}


def test_shards_may_share_a_weight(matrices):
    strategy = IPUStrategy()
    weight = matrices[0]

    @tf.function
    def step(x):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(halves(x, [weight, weight]))
        weight.assign_sub(0.1 * tape.gradient(loss, weight))
        return loss

    assert strategy.run(step, args=(tf.eye(16),)) == 64
    np.testing.assert_allclose(weight.numpy(), 2 * np.eye(16) - 0.4, rtol=1e-6)
    (program,) = strategy.report().programs
    assert [stage.ipu for stage in program.device.stages] == [0, 1]
    assert any(crossing.is_variable for crossing in program.device.crossings)


@pytest.mark.parametrize(
    "optimizer", [v1.train.MomentumOptimizer(0.1, 0.9), v1.train.AdamOptimizer(0.1)]
)
@pytest.mark.slow
def test_an_accumulated_update_in_a_loop_is_on_the_ipus_of_its_weights(matrices, optimizer):
    strategy = IPUStrategy()
    wrapped = GradientAccumulationOptimizerV2(optimizer, 2)

    @tf.function
    def train(x):
        def body(x):
            loss = tf.reduce_mean(tf.square(halves(x, matrices)))
            return x, wrapped.minimize(loss, var_list=matrices)

        return loops.repeat(4, body, [x])

    strategy.run(train, args=(tf.eye(16),))
    program, *_ = strategy.report().programs
    assert [stage.ipu for stage in program.device.stages] == [0, 1]
    assert not any(crossing.is_variable for crossing in program.device.crossings)
    for stage in program.device.stages:
        opcodes = [step.opcode for step in stage.program.steps]
        assert opcodes.count("dot") >= 2
        assert "conditional" in opcodes
        assert stage.update_cycles > 0


def test_a_loop_that_cannot_be_compiled_is_an_error_or_a_warning(matrices):
    @tf.function
    def program(x):
        for _ in tf.range(2):
            x = halves(x, matrices)
            x += tf.cast(tf.strings.length(tf.strings.as_string(x)), tf.float32)
        return x

    with pytest.raises(UncompilableProgram, match=r"AsString"):
        IPUStrategy().run(program, args=(tf.eye(16),))
    config = IPUConfig()
    config.auto_select_ipus = 2
    config.simulator.unsupported = "warn"
    config.configure_ipu_system()
    strategy = IPUStrategy()
    assert strategy.run(program, args=(tf.eye(16),)).shape == (16, 16)
    assert any("AsString" in found.refusal for found in strategy.report().programs)


def test_shards_in_called_functions_are_laid_over_ipus(matrices):
    called = tf.function(lambda x: halves(x, matrices))

    @tf.function
    def program(x):
        return called(x)

    strategy = IPUStrategy()
    strategy.run(program, args=(tf.eye(16),))
    (found,) = strategy.report().programs
    assert [ipu for ipu, _ in products(found.device)] == [0, 1]
    assert not any("shards" in note for note in found.device.notes)


@pytest.mark.slow
def test_the_report_notes_shards_in_branches_and_in_loops_with_a_gradient(matrices):
    called = tf.function(lambda x: halves(x, matrices))

    @tf.function
    def branches(x):
        return tf.cond(x[0, 0] > 0, lambda: called(x), lambda: x), IPUStrategy().num_replicas

    @tf.function
    def differentiates(x):
        with tf.GradientTape() as tape:
            y = loops.repeat(2, lambda x: halves(x, matrices), [x])
        return tape.gradient(y, matrices), IPUStrategy().num_replicas

    for program in (branches, differentiates):
        strategy = IPUStrategy()
        _, replicas = strategy.run(program, args=(tf.eye(16),))
        assert replicas == 2  # Of four IPUs each takes two, all the same.
        (found,) = strategy.report().programs
        assert any("in a branch, or in a loop with a gradient" in n for n in found.device.notes)
