"""A strategy compiles the functions that it traces: once, and before they run."""

import logging
import types

import keras
import numpy as np
import pytest
import tensorflow as tf

import ipu_tf
from ipu_tf import IPUConfig, IPUStrategy, config, ops
from ipu_tf.config.resolve import resolve
from ipu_tf.profile.figures import program_figures as figures
from ipu_tf.profile.report import Report
from ipu_tf.runtime.extraction.uncompilable import UncompilableProgram
from ipu_tf.runtime.programs import device_programs


@pytest.fixture
def configured():
    """Returns a function that configures a small machine and gives a strategy on it."""

    def configure(**simulator):
        cfg = IPUConfig()
        cfg.ipu_model.tiles_per_ipu = 16
        for name, value in simulator.items():
            setattr(cfg.simulator, name, value)
        cfg.configure_ipu_system()
        return IPUStrategy()

    yield configure
    config.reset_ipu_configuration()


def mlp(strategy, width=16):
    with strategy.scope():
        model = keras.Sequential(
            [
                keras.Input((8,)),
                keras.layers.Dense(width, activation="relu", name="hidden"),
                keras.layers.Dense(4, name="logits"),
            ],
            name="mlp",
        )
        model.compile(loss="mse", optimizer=keras.optimizers.SGD(0.1, momentum=0.9))
    return model


X, Y = np.ones((8, 8), "float32"), np.ones((8, 4), "float32")


@pytest.fixture(scope="module")
def of_a_fit():
    """A model that was trained and evaluated and that predicted, and the report of that."""
    cfg = IPUConfig()
    cfg.ipu_model.tiles_per_ipu = 16
    cfg.configure_ipu_system()
    strategy = IPUStrategy()
    model = mlp(strategy)
    model.fit(X, Y, batch_size=4, verbose=0)
    model.evaluate(X, Y, batch_size=4, verbose=0)
    model.predict(X, batch_size=4, verbose=0)
    report = strategy.report()
    config.reset_ipu_configuration()
    return model, report


class TestFit:
    def test_train_test_and_predict_are_in_one_report(self, of_a_fit):
        programs = of_a_fit[1].programs
        assert [program.name.rpartition(".")[2] for program in programs] == [
            "train_step",
            "test_step",
            "predict_step",
        ]
        cycles = [program.device.cycles for program in programs]
        assert cycles[0] > max(cycles[1:])
        assert {program.device.samples_per_run for program in programs} == {4}

    def test_layers_and_roles_are_keras(self, of_a_fit):
        model, report = of_a_fit
        program = report.programs[0]
        layers = {layer.layer: layer for layer in figures.layers(program.device)}
        for name in ("hidden", "logits"):
            layer = next(layer for path, layer in layers.items() if path.endswith(name))
            assert set(layer.by_phase) == {"forward", "backward", "update"}
        sizes = {}
        for tensor in program.device.tensors:
            sizes[tensor.category] = sizes.get(tensor.category, 0) + tensor.bytes
        weights = 4 * sum(int(np.prod(weight.shape)) for weight in model.trainable_weights)
        assert sizes["weights"] == weights
        assert weights <= sizes["optimizer_state"] < weights + 64  # momenta, rate, counter

    def test_the_plan_that_is_charged_is_the_plan_that_runs(self, of_a_fit):
        for program in of_a_fit[1].programs:
            charged = {step.op_name: step.plan for step in program.device.steps if step.plan}
            assert charged == {op.name: op.plan for op in program.tile_ops}

    def test_reports_survive_a_file(self, of_a_fit, tmp_path):
        report = of_a_fit[1]
        report.to_json(tmp_path / "report.json")
        assert Report.from_json(tmp_path / "report.json").summary() == report.summary()


class TestRunOutsideOfKeras:
    def test_trainable_variables_are_weights(self, configured):
        strategy = configured()
        weight = tf.Variable(tf.ones((8, 8)))
        total = tf.Variable(tf.zeros((4, 8)), trainable=False)

        @tf.function
        def step(x):
            total.assign_add(tf.matmul(x, weight))

        strategy.run(step, args=(tf.ones((4, 8)),))
        (program,) = strategy.report().programs
        sizes = {tensor.category: tensor.bytes for tensor in program.device.tensors}
        assert (sizes["weights"], sizes["state"]) == (4 * 64, 4 * 32)


class TestCache:
    def test_a_function_traced_again_is_not_compiled_again(self, configured):
        strategy = configured()
        w = tf.Variable(tf.ones((8, 8)))

        def step(x):
            return tf.matmul(x, w)

        def compiled():
            run = tf.function(lambda x: strategy.run(step, args=(x,)))
            run.get_concrete_function(tf.TensorSpec((4, 8)))
            return strategy.report().programs[-1].device

        assert compiled() is compiled()

    def test_other_shapes_are_other_programs(self, configured):
        strategy = configured()
        step = tf.function(lambda x: tf.matmul(x, x))
        for size in (4, 8):
            strategy.run(step, args=(tf.ones((size, size)),))
        first, second = (program.device.cycles for program in strategy.report().programs)
        assert first != second


def test_a_report_says_that_strings_are_the_hosts(configured):
    strategy = configured()
    strategy.run(tf.function(lambda x: (tf.constant("done"), x + 1.0)), args=(tf.ones(4),))
    (program,) = strategy.report().programs
    note = "the host makes the results of type string (1): they take no cycles and memory"
    assert program.device.notes == (note,)
    assert f"note: {note}" in strategy.report().summary()


class TestOutOfMemory:
    WIDE = 4096

    def test_fit_raises_before_it_runs(self, configured):
        model = mlp(configured(), self.WIDE)
        before = model.get_weights()
        with pytest.raises(ipu_tf.IPUOutOfMemoryError, match=r"'mlp.train_step' does not fit"):
            model.fit(X.repeat(64, 0), Y.repeat(64, 0), batch_size=512, verbose=0)
        for old, new in zip(before, model.get_weights(), strict=True):
            np.testing.assert_array_equal(old, new)

    def test_run_raises(self, configured):
        strategy = configured()
        big = tf.ones((2048, 2048))
        with pytest.raises(ipu_tf.IPUOutOfMemoryError, match="does not fit on a bow IPU"):
            strategy.run(tf.function(lambda x: x + 1.0), args=(big,))

    def test_what_did_not_fit_is_reported(self, configured):
        strategy = configured()
        with pytest.raises(ipu_tf.IPUOutOfMemoryError) as raised:
            strategy.run(tf.function(lambda x: x + 1.0), args=(tf.ones((2048, 2048)),))
        (program,) = strategy.report().programs
        assert program.device is raised.value.compiled
        assert not program.device.memory.fits
        assert "OUT OF MEMORY by" in strategy.report().summary()

    def test_a_report_says_that_an_op_fits_in_no_way(self, configured):
        strategy = configured()
        strategy.run(tf.function(lambda x: x + 1.0), args=(tf.ones(4),))
        big = tf.ones((2048, 2048))
        unsplit = tf.function(lambda x: ops.matmul(x, x, plan=ops.MatMulPlan(grain=8)))
        with pytest.raises(ipu_tf.IPUOutOfMemoryError) as raised:
            strategy.run(unsplit, args=(big,))
        assert raised.value.compiled is None
        _, program = strategy.report().programs
        assert program.refusal == str(raised.value)
        assert not program.complete

    def test_functions_that_autograph_converts_raise_it_too(self, configured):
        strategy = configured()

        @tf.function
        def outer(x):
            return strategy.run(lambda y: y + 1.0, args=(x,))

        with pytest.raises(ipu_tf.IPUOutOfMemoryError):
            outer(tf.ones((2048, 2048)))

    def test_warning_goes_on_and_reports(self, configured, caplog):
        strategy = configured(out_of_memory="warn")
        model = mlp(strategy, self.WIDE)
        with caplog.at_level(logging.WARNING, logger="ipu_tf"):
            model.fit(X.repeat(64, 0), Y.repeat(64, 0), batch_size=512, verbose=0)
        assert "'mlp.train_step' does not fit" in caplog.text
        assert "OUT OF MEMORY by" in strategy.report().summary()


class TestUnsupported:
    @staticmethod
    def integers(x):
        y = tf.cast(x, tf.int32)
        with tf.name_scope("net/whole"):
            return tf.matmul(y, y)

    @staticmethod
    def strings(x):
        with tf.name_scope("net/words"):
            return tf.strings.length(tf.strings.as_string(x))

    def test_an_op_without_a_cost_is_an_error_with_its_layer(self, configured):
        with pytest.raises(ipu_tf.UnsupportedOpcodeError, match="dot in 'net/whole"):
            configured().run(tf.function(self.integers), args=(tf.ones((4, 4)),))

    def test_warning_marks_the_report(self, configured):
        strategy = configured(unsupported="warn")
        result = strategy.run(tf.function(self.integers), args=(tf.ones((4, 4)),))
        assert int(result[0, 0]) == 4
        report = strategy.report()
        assert not report.complete
        assert "incomplete: 'dot' has no cost" in report.summary()

    def test_a_function_without_hlo_is_an_error_with_its_layer(self, configured):
        with pytest.raises(UncompilableProgram, match=r"layer 'net/words'.*\(AsString\)"):
            configured().run(tf.function(self.strings), args=(tf.ones((4,)),))

    def test_or_a_warning(self, configured, caplog):
        strategy = configured(unsupported="warn")
        with caplog.at_level(logging.WARNING, logger="ipu_tf"):
            result = strategy.run(tf.function(self.strings), args=(tf.ones((4,)),))
        assert result.shape == (4,)
        assert "AsString" in caplog.text
        assert not strategy.report().complete
        assert "is not compiled for the machine" in strategy.report().summary()
        assert "AsString" in strategy.report().programs[0].refusal


class TestOptions:
    def code_bytes(self, **optimizations):
        machine = IPUConfig()
        machine.ipu_model.tiles_per_ipu = 16
        for name, value in optimizations.items():
            setattr(machine.optimizations, name, value)

        def model():
            layers = [keras.layers.Dense(64, activation="relu") for _ in range(8)]
            return keras.Sequential([keras.Input((64,)), *layers])

        report = ipu_tf.estimate(model, batch_size=8, training=False, config=machine)
        memory = report.programs[0].device.memory
        return sum(memory.always_live[name].sum() for name in ("vertex_code", "exchange_code"))

    def test_outlining_shares_code(self):
        assert self.code_bytes(enable_graph_outlining=False) > self.code_bytes()

    def test_blocks_of_factorisations(self):
        machine = IPUConfig()
        machine.optimizations.cholesky_block_size = 32
        machine.optimizations.triangular_solve_expander_block_size = 16
        options = device_programs.compiler_options(resolve(machine))
        assert (options.cholesky_block, options.triangular_solve_block) == (32, 16)

    def test_tiles_for_io_do_not_compute(self):
        machine = IPUConfig()
        machine.io_tiles.num_io_tiles = 32
        assert device_programs.compiler_options(resolve(machine)).target.tiles == 1472 - 32


def test_samples_are_the_shared_leading_dimension(configured):
    strategy = configured()
    step = tf.function(lambda x, y: tf.reduce_sum(x) + tf.reduce_sum(y))
    strategy.run(step, args=(tf.ones((4, 2)), tf.ones((4,))))
    strategy.run(step, args=(tf.ones((4, 2)), tf.ones((3,))))
    strategy.run(step, args=(tf.ones((4, 2)), tf.ones(())))
    programs = strategy.report().programs
    assert [program.device.samples_per_run for program in programs] == [4, 0, 0]


class TestParts:
    """Parts that the host runs apart and the device runs together."""

    def test_what_is_on_the_host_is_no_program(self, configured):
        strategy = configured()

        @tf.function
        def run(x):
            with device_programs.on_host():
                return strategy.run(lambda y: tf.matmul(y, y), args=(x,))

        np.testing.assert_array_equal(run(tf.eye(4)), np.eye(4))
        assert strategy.report().programs == ()

    def test_accumulators_are_known_by_their_variables(self, configured):
        strategy = configured()
        model = mlp(strategy)
        name = f"{model.layers[0].kernel.path}_sum"
        total = tf.Variable(tf.zeros((8, 16)), name=name)

        def train_step(model, x):
            with tf.GradientTape() as tape:
                loss = tf.reduce_sum(model(x))
            total.assign_add(tape.gradient(loss, model.layers[0].kernel.value))
            return loss

        @tf.function
        def run(x):
            with device_programs.accumulating_in([total]):
                return strategy.run(types.MethodType(train_step, model), args=(x,))

        run(tf.constant(X))
        (program,) = strategy.report().programs
        (kept,) = [t for t in program.device.tensors if t.category == "accumulators"]
        assert (kept.name, kept.layer) == (name, model.layers[0].path)
        assert kept.bytes == 8 * 16 * 4

    def test_a_loop_of_the_script_runs_an_unknown_number_of_steps(self, configured):
        strategy = configured()

        @tf.function
        def loop():
            total = tf.constant(0.0)
            for _ in tf.range(tf.constant(3)):
                total += strategy.run(tf.function(lambda: tf.reduce_sum(tf.constant(X) * 2)))
            return total

        loop()
        (program,) = strategy.report().programs
        assert program.steps_per_execution == 0
        assert "a call from the host" not in strategy.report().summary()

    def test_a_call_runs_the_steps_of_an_execution(self, configured):
        strategy = configured()
        model = mlp(strategy)
        model.compile(loss="mse", optimizer="sgd", steps_per_execution=4)
        model.fit(np.repeat(X, 2, 0), np.repeat(Y, 2, 0), batch_size=4, verbose=0)
        (program,) = strategy.report().programs
        assert program.steps_per_execution == 4
        assert "a call from the host runs 4 steps in" in strategy.report().summary()
