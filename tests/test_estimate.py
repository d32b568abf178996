"""Estimates trace the model's real step and leave everything else as it was."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import ipu_tf
from ipu_tf import IPUConfig, config
from ipu_tf.internals.tensorflow import ConcreteFunction
from ipu_tf.keras.adapters.estimates import estimates_of
from ipu_tf.profile.figures import program_figures as figures
from ipu_tf.runtime.execution.placeholder_variables import placeholder_variables
from tests import sample_models


def resident_bytes():
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * 4096


class TestUntouchedVariables:
    def test_large_variables_take_no_memory(self):
        before = resident_bytes()
        with placeholder_variables():
            variable = keras.Variable(initializer="glorot_uniform", shape=(1 << 14, 1 << 14))
        assert variable.shape == (1 << 14, 1 << 14)
        assert resident_bytes() - before < 1 << 26  # of 1 GiB

    @pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "int32", "bool"])
    def test_variables_larger_than_the_host_take_no_memory(self, dtype):
        before = resident_bytes()
        with placeholder_variables():
            variable = tf.Variable(lambda: tf.zeros((1 << 21, 1 << 20), dtype))
        assert (variable.shape, variable.dtype.name) == ((1 << 21, 1 << 20), dtype)
        assert resident_bytes() - before < 1 << 26  # of 2 TiB and more

    def test_scopes_inside_one_another_are_as_one(self):
        before = resident_bytes()
        with placeholder_variables(), placeholder_variables():
            variable = tf.Variable(lambda: tf.zeros((1 << 21, 1 << 20)))
        assert variable.shape == (1 << 21, 1 << 20)
        assert resident_bytes() - before < 1 << 26

    def test_their_values_may_be_written(self):
        with placeholder_variables():
            variable = tf.Variable(lambda: tf.zeros((256, 256)))
        variable[3].assign(tf.ones(256))
        assert tf.reduce_sum(variable) == 256

    def test_small_variables_have_their_values(self):
        with placeholder_variables():
            variable = keras.Variable(initializer="ones", shape=(4, 4))
        np.testing.assert_array_equal(variable, np.ones((4, 4)))

    def test_outside_large_variables_have_their_values(self):
        with placeholder_variables():
            pass
        variable = keras.Variable(initializer="ones", shape=(256, 256))
        np.testing.assert_array_equal(variable, np.ones((256, 256)))


class TestTraining:
    def test_the_models_own_step_is_traced(self):
        report = ipu_tf.estimate(sample_models.compiled, batch_size=8)
        (program,) = report.programs
        assert program.name == "mlp.train_step"
        assert [op.layer for op in program.tile_ops][:2] == ["mlp/hidden", "mlp/classes"]
        assert {op.shape.dtype for op in program.tile_ops} == {"float32"}
        assert report.notes == ()

    @pytest.mark.fast_cells(1)
    @pytest.mark.parametrize("training", [True, False])
    def test_no_function_is_finished_that_never_runs(self, training, monkeypatch):
        stock = ConcreteFunction.__init__

        def refused(*_):
            raise AssertionError("prepared to run")

        def updates_alone(made, function, *args, **kwargs):
            assert "_update_" in str(function.name), "prepared to run"
            stock(made, function, *args, **kwargs)

        monkeypatch.setattr("ipu_tf.runtime.execution.fusion.fuse", refused)
        monkeypatch.setattr(ConcreteFunction, "__init__", updates_alone)
        report = ipu_tf.estimate(
            sample_models.compiled, batch_size=2, training=training, insights=False
        )
        assert report.programs[0].device.fits

    def test_an_uncompiled_model_is_given_a_loss_that_fits(self):
        report = ipu_tf.estimate(sample_models.mlp, batch_size=8)
        assert report.notes == (
            "model 'mlp' is not compiled: SGD and sparse_categorical_crossentropy are assumed",
        )
        assert "note: model 'mlp' is not compiled" in report.summary()

    def test_sparse_gradients_are_charged_at_their_bound(self):
        def model():
            layers = [
                keras.layers.Input((16,), dtype="int32"),
                keras.layers.Embedding(1000, 32, name="table"),
                keras.layers.Flatten(),
                keras.layers.Dense(5),
            ]
            network = keras.Sequential(layers, name="words")
            # This optimizer first adds up the rows that occur more than once.
            network.compile(optimizer="rmsprop", loss="mse")
            return network

        (program,) = ipu_tf.estimate(model, batch_size=4).programs
        assert program.device.complete
        table = next(
            entry for entry in figures.layers(program.device) if entry.layer == "words/table"
        )
        assert min(table.by_phase.values()) > 0

    @pytest.mark.parametrize(
        ("activation", "loss"), [("sigmoid", "binary_crossentropy"), (None, "mean_squared_error")]
    )
    @pytest.mark.slow
    def test_other_losses(self, activation, loss):
        def model():
            dense = keras.layers.Dense(2, activation=activation)
            return keras.Sequential([keras.Input((4,)), dense])

        assert loss in ipu_tf.estimate(model, batch_size=2).notes[0]

    def test_structures_of_inputs_and_outputs(self):
        def model():
            tokens = keras.Input((6,), dtype="int64", name="b")
            inputs = {"a": keras.Input((4,), name="a"), "b": tokens}
            b = keras.layers.Embedding(5, 3)(tokens)
            both = keras.layers.concatenate([inputs["a"], keras.layers.Flatten()(b)])
            outputs = {"c": keras.layers.Dense(3)(both), "d": keras.layers.Dense(2)(both)}
            made = keras.Model(inputs, outputs)
            losses = {"c": keras.losses.SparseCategoricalCrossentropy(True), "d": "mse"}
            made.compile(optimizer="sgd", loss=losses)
            return made

        assert len(ipu_tf.estimate(model, batch_size=2).tile_ops) == 6

    @pytest.mark.slow
    def test_lists_of_outputs(self):
        def model():
            x = keras.Input((4,))
            made = keras.Model(x, [keras.layers.Dense(3)(x), keras.layers.Dense(2)(x)])
            made.compile(loss=["sparse_categorical_crossentropy", keras.losses.mean_squared_error])
            return made

        assert ipu_tf.estimate(model, batch_size=2).tile_ops

    def test_targets_may_be_given(self):
        def model():
            made = sample_models.mlp()
            made.compile(loss=lambda y, p: keras.ops.mean(p) * keras.ops.mean(y))
            return made

        targets = tf.TensorSpec((2, 7, 7))
        assert ipu_tf.estimate(model, batch_size=2, targets=targets).tile_ops

    def test_a_subclass_takes_given_inputs(self):
        def model():
            made = sample_models.subclass()
            made.compile(loss="mse", optimizer="sgd")
            return made

        report = ipu_tf.estimate(model, batch_size=2, inputs=tf.TensorSpec((None, 5)))
        assert [op.shape.k for op in report.tile_ops] == [5, 2]


class TestGivenModels:
    def test_a_compiled_model_is_left_as_it_is(self):
        model = sample_models.compiled()
        weights, optimizer = model.get_weights(), model.optimizer
        ipu_tf.estimate(model, batch_size=8)
        assert model.optimizer is optimizer
        assert not optimizer.built
        for before, after in zip(weights, model.get_weights(), strict=True):
            np.testing.assert_array_equal(before, after)

    def test_the_optimizer_of_a_trace_is_a_copy_of_any_class(self):
        model = sample_models.mlp()
        model.compile(keras.optimizers.Lamb(0.5), "mse")
        with estimates_of(model).with_new_optimizer():
            assert type(model.optimizer) is keras.optimizers.Lamb
            assert float(model.optimizer.learning_rate) == 0.5

    def test_an_uncompiled_model_stays_uncompiled(self):
        model = sample_models.mlp()
        report = ipu_tf.estimate(model, batch_size=8)
        assert not model.compiled
        assert [op.layer for op in report.tile_ops][:2] == ["mlp/hidden", "mlp/classes"]

    @pytest.mark.slow
    def test_it_trains_as_if_nothing_had_been(self):
        x, y = np.ones((8, 16), "float32"), np.eye(4, dtype="float32")[[0, 1] * 4]
        losses = []
        for estimated in (False, True):
            keras.utils.set_random_seed(1)
            model = sample_models.compiled()
            if estimated:
                ipu_tf.estimate(model, batch_size=8)
            losses.append(model.fit(x, y, epochs=3, verbose=0).history["loss"])
        assert losses[0] == losses[1]


class TestInAScope:
    @pytest.mark.slow
    def test_it_gives_what_it_gives_outside(self):
        outside = ipu_tf.estimate(sample_models.compiled, batch_size=8)
        strategy = ipu_tf.IPUStrategy()
        with strategy.scope():
            inside = ipu_tf.estimate(sample_models.compiled, batch_size=8)
        cycles = [
            [layer.by_phase for layer in figures.layers(report.programs[0].device)]
            for report in (inside, outside)
        ]
        assert cycles[0] == cycles[1]
        assert strategy.report().programs == ()

    @pytest.mark.fast_cells(1)
    @pytest.mark.parametrize("compiled", [True, False])
    def test_models_of_the_scope(self, compiled):
        strategy = ipu_tf.IPUStrategy()
        with strategy.scope():
            model = sample_models.compiled() if compiled else sample_models.mlp()
            report = ipu_tf.estimate(model, batch_size=8)
        assert [program.name for program in report.programs] == ["mlp.train_step"]
        assert model.compiled == compiled

    @pytest.mark.slow
    def test_the_model_trains_afterwards_and_is_reported(self):
        strategy = ipu_tf.IPUStrategy()
        with strategy.scope():
            model = sample_models.compiled()
            ipu_tf.estimate(model, batch_size=8)
            model.fit(np.ones((8, 16), "float32"), np.zeros((8, 4), "float32"), 8, verbose=0)
        assert len(strategy.report().programs) == 1

    def test_scopes_of_others_are_refused(self):
        with (
            tf.distribute.OneDeviceStrategy("/cpu:0").scope(),
            pytest.raises(ValueError, match="not an IPUStrategy.*Received: <.*OneDeviceStrategy"),
        ):
            ipu_tf.estimate(sample_models.compiled, batch_size=8)


class TestInference:
    def test_only_the_forward_pass_is_traced(self):
        report = ipu_tf.estimate(sample_models.mlp, batch_size=8, training=False)
        (program,) = report.programs
        assert program.name == "mlp.predict_step"
        assert len(program.tile_ops) == 2
        assert report.notes == ()

    @pytest.mark.fast_cells(1)
    @pytest.mark.parametrize("inputs", [None, "list", "tuple"])
    def test_several_inputs_are_all_inputs(self, inputs):
        def model():
            left, right = keras.Input((4,), name="left"), keras.Input((3,), name="right")
            joined = keras.layers.concatenate([left, right])
            return keras.Model([left, right], keras.layers.Dense(2, name="joined")(joined))

        specs = [tf.TensorSpec((None, 4)), tf.TensorSpec((None, 3))]
        given = {None: None, "list": specs, "tuple": tuple(specs)}[inputs]
        report = ipu_tf.estimate(model, batch_size=8, training=False, inputs=given)
        assert [op.shape.k for op in report.tile_ops] == [7]

    @pytest.mark.fast_cells(1)
    @pytest.mark.parametrize("structure", [list, tuple])
    def test_several_inputs_of_a_subclass(self, structure):
        class Pair(keras.Model):
            def __init__(self):
                super().__init__()
                self.dense = keras.layers.Dense(2)

            def call(self, x):
                return self.dense(x[0]) + self.dense(x[1])

        specs = structure([tf.TensorSpec((None, 4)), tf.TensorSpec((None, 4))])
        report = ipu_tf.estimate(Pair, batch_size=8, training=False, inputs=specs)
        assert [op.shape.k for op in report.tile_ops] == [4, 4]


def packed_graphs():
    """A graph network: inputs of different leading sizes."""
    nodes = keras.Input(batch_shape=(9, 4), name="nodes")
    senders = keras.Input(batch_shape=(12,), dtype="int32", name="senders")
    picked = keras.ops.take(keras.layers.Dense(8)(nodes), senders, axis=0)
    return keras.Model([nodes, senders], keras.layers.Dense(2, name="out")(picked), name="graphs")


def of_any_size():
    """Takes images of any height and width."""
    pixels = keras.Input((None, None, 3), name="pixels")
    x = keras.layers.GlobalAveragePooling2D()(keras.layers.Conv2D(4, 3)(pixels))
    return keras.Model(pixels, keras.layers.Dense(2)(x), name="open")


class TestShapes:
    @pytest.mark.fast_cells(1)
    @pytest.mark.parametrize("training", [True, False])
    def test_without_a_batch_axis_inputs_keep_their_sizes(self, training):
        report = ipu_tf.estimate(packed_graphs, batch_size=3, batch_axis=None, training=training)
        (program,) = report.programs
        assert [op.shape.m for op in program.tile_ops][:2] == [9, 12]
        assert program.device.samples_per_run == 3  # Graphs, whatever the rows of inputs.

    def test_inputs_of_different_leading_sizes_may_be_given(self):
        def model():
            nodes = keras.Input((4,), name="nodes")
            senders = keras.Input((), dtype="int32", name="senders")
            picked = keras.ops.take(nodes, senders, axis=0)
            return keras.Model([nodes, senders], keras.layers.Dense(2)(picked))

        shapes = {"nodes": (9, 4)}
        report = ipu_tf.estimate(model, batch_size=12, input_shapes=shapes, training=False)
        assert [op.shape.m for op in report.tile_ops] == [12]

    @pytest.mark.fast_cells(1)
    @pytest.mark.parametrize("training", [True, False])
    @pytest.mark.parametrize("named", [True, False])
    def test_free_height_and_width_are_given(self, training, named):
        shape = (None, 20, 30, 3)
        report = ipu_tf.estimate(
            of_any_size,
            batch_size=2,
            training=training,
            input_shapes={"pixels": shape} if named else shape,
        )
        first = report.tile_ops[0].shape
        assert (first.batch, first.in_rows, first.in_columns) == (2, 20, 30)

    @pytest.mark.parametrize(
        ("shapes", "message"),
        [
            ({"image": (2, 8, 8, 3)}, "'open' has no input 'image'. Its inputs are pixels"),
            ((2, 8, 8), r"'pixels': .* contradicts the declared \(None, None, None, 3\)"),
            ((2, 8, 8, 4), r"contradicts the declared .*Received: \(2, 8, 8, 4\)"),
            ((2, None, 8, 3), r"has no static shape.*pass its shape in `input_shapes`"),
            ((2, 0, 8, 3), "a sequence of positive ints.*Received: \\(2, 0, 8, 3\\)"),
            ("wide", "a sequence of positive ints.*Received: 'wide'"),
        ],
    )
    def test_shapes_that_are_refused(self, shapes, message):
        with pytest.raises(ValueError, match=message):
            ipu_tf.estimate(of_any_size, batch_size=2, input_shapes=shapes)

    def test_shapes_of_several_inputs_are_given_by_name(self):
        with pytest.raises(ValueError, match="'graphs' has 2 inputs: give `input_shapes` by name"):
            ipu_tf.estimate(packed_graphs, batch_size=2, input_shapes=(9, 4))

    @pytest.mark.parametrize("axis", [1, False, "nodes"])
    def test_other_batch_axes_are_refused(self, axis):
        with pytest.raises(ValueError, match=f"`batch_axis` must be 0, or None .*: {axis!r}"):
            ipu_tf.estimate(packed_graphs, batch_size=2, batch_axis=axis)

    def test_leading_sizes_without_leave_say_what_to_do(self):
        with pytest.raises(ValueError, match="pass `batch_axis=None`, or its shape in `input_sha"):
            ipu_tf.estimate(packed_graphs, batch_size=2)


class TestLargeModels:
    @pytest.mark.fast_cells(1)
    @pytest.mark.parametrize("training", [True, False])
    def test_weights_may_be_larger_than_the_host(self, training):
        def model():
            layers = [keras.Input((800_000,)), keras.layers.Dense(1_000_000, name="wide")]
            network = keras.Sequential(layers)
            network.compile(loss="mse", optimizer="adam")
            return network

        before = resident_bytes()
        report = ipu_tf.estimate(model, batch_size=4, training=training)
        assert resident_bytes() - before < 1 << 29  # of 3 TB and more
        (program,) = report.programs
        assert program.tile_ops[0].shape.n == 1_000_000
        assert not figures.fits(program.device.memory)

    def test_sums_of_gradients_take_no_memory(self):
        def model():
            network = keras.Sequential([keras.Input((12288,)), keras.layers.Dense(49152)])
            network.compile(loss="mse", optimizer="adam")
            network.set_gradient_accumulation_options(gradient_accumulation_steps_per_replica=8)
            return network

        before = resident_bytes()
        (program,) = ipu_tf.estimate(model, batch_size=1).programs
        assert resident_bytes() - before < 1 << 29  # of 9 GiB
        assert program.device.micro_batches == 8


class TestConfiguration:
    def test_the_process_keeps_its_own(self):
        before = config.device_configuration()
        machine = IPUConfig()
        machine.simulator.chip = "gc200"
        machine.ipu_model.tiles_per_ipu = 4
        report = ipu_tf.estimate(sample_models.mlp, batch_size=8, config=machine)
        assert max(op.plan.tiles for op in report.tile_ops) <= 4
        assert config.device_configuration() is before

    def test_the_process_own_is_the_default(self):
        machine = IPUConfig()
        machine.ipu_model.tiles_per_ipu = 2
        machine.configure_ipu_system()
        try:
            report = ipu_tf.estimate(sample_models.mlp, batch_size=8)
        finally:
            config.reset_ipu_configuration()
        assert max(op.plan.tiles for op in report.tile_ops) <= 2

    def test_an_invalid_one_is_refused(self):
        machine = IPUConfig()
        machine.simulator.chip = "gc9"
        with pytest.raises(ValueError, match="simulator.chip must be"):
            ipu_tf.estimate(sample_models.mlp, batch_size=8, config=machine)


class TestErrors:
    @pytest.mark.parametrize("batch_size", [0, -1, True, 2.0, 3e9, None])
    def test_batch_size(self, batch_size):
        with pytest.raises(ValueError, match="`batch_size` must be a positive int. Received"):
            ipu_tf.estimate(sample_models.mlp, batch_size=batch_size)

    @pytest.mark.parametrize("batch_size", [2**31, 3_000_000_000, 2**40, 2**70])
    def test_batch_sizes_that_no_shape_holds(self, batch_size):
        message = f"`batch_size` must be at most 2,147,483,647.*Received: {batch_size}."
        with pytest.raises(ValueError, match=message):
            ipu_tf.estimate(sample_models.mlp, batch_size=batch_size)

    @pytest.mark.parametrize("machine", [{"simulator.chip": "gc200"}, "gc200"])
    def test_a_configuration_of_another_type(self, machine):
        message = "`config` must be an IPUConfig instance. Make one .* or fill it with `from_dict`"
        with pytest.raises(TypeError, match=f"{message}. Received: .* of type (dict|str)."):
            ipu_tf.estimate(sample_models.mlp, batch_size=1, config=machine)

    @pytest.mark.parametrize(
        ("model", "received"),
        [(3, "int."), (sample_models.not_a_model, "int, made by <function not_a_model")],
    )
    def test_no_model(self, model, received):
        with pytest.raises(TypeError, match=f"a function that makes one. Received: {received}"):
            ipu_tf.estimate(model, batch_size=1)

    def test_shapes_must_be_static(self):
        message = r"Model 'open': input 'tokens' has no static shape.*\(1, None, 8\)"
        with pytest.raises(ValueError, match=message):
            ipu_tf.estimate(sample_models.without_static_shape, batch_size=1)

    def test_the_batch_of_the_model(self):
        def model():
            inputs = keras.Input(batch_shape=(3, 4))
            return keras.Model(inputs, keras.layers.Dense(2)(inputs))

        with pytest.raises(ValueError, match=r"differs from batch_size=2.*\(3, 4\)"):
            ipu_tf.estimate(model, batch_size=2)

    def test_a_model_that_does_not_say_what_it_takes(self):
        with pytest.raises(ValueError, match="pass `inputs=tf.TensorSpec"):
            ipu_tf.estimate(sample_models.subclass, batch_size=1)

    def test_an_uncompiled_subclass_needs_a_loss(self):
        with pytest.raises(ValueError, match="Model 'subclass' is not compiled. Call its `compile"):
            ipu_tf.estimate(sample_models.subclass, batch_size=1, inputs=tf.TensorSpec((1, 5)))
