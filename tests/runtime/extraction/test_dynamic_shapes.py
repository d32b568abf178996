"""Sizes that depend on data are refused; sizes that XLA knows when it compiles are not."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from ipu_tf import IPUConfig, IPUStrategy, UncompilableProgram, config

X = np.arange(32, dtype="float32").reshape(8, 4) - 12
ROWS = np.array([1, 0, 1, 1, 0, 0, 1, 0], "int32")
COUNT = np.int32(3)


@pytest.fixture
def strategy():
    cfg = IPUConfig()
    cfg.ipu_model.tiles_per_ipu = 16
    cfg.configure_ipu_system()
    yield IPUStrategy()
    config.reset_ipu_configuration()


def total(values):
    return tf.reduce_sum(values)


def in_a_loop(x, rows, count):
    result = tf.constant(0.0)
    for step in tf.range(3):
        result += total(x[: step + 1])
    return result


def slices_in_a_loop(x, rows, count):
    result = tf.constant(0.0)
    for step in tf.range(3):
        result += total(x[step : step + 2] * tf.cast(step, tf.float32))
    return result


def in_a_branch(x, rows, count):
    return total(tf.cond(count > 2, lambda: x[:2], lambda: x[:4]))


DYNAMIC = {
    "mask": (
        lambda x, rows, count: total(tf.boolean_mask(x, rows > 0)),
        r"Where \(Where\): .*tf\.where\(condition, x, 0\)",
    ),
    "where": (
        lambda x, rows, count: total(tf.cast(tf.where(x > 0), tf.int32)),
        r"Where \(Where\): ",
    ),
    "slice": (
        lambda x, rows, count: total(x[:count]),
        r"strided_slice \(StridedSlice\): use `tf\.slice",
    ),
    "slice between two places": (
        lambda x, rows, count: total(x[count : 2 * count]),
        r"strided_slice \(StridedSlice\)",
    ),
    "unique": (
        lambda x, rows, count: total(tf.unique(rows)[0]),
        r"Unique \(Unique\): find unique values in `Dataset\.map`",
    ),
    "partition": (
        lambda x, rows, count: total(tf.dynamic_partition(x, rows, 2)[0]),
        r"DynamicPartition \(DynamicPartition\): ",
    ),
    "largest": (
        lambda x, rows, count: total(tf.math.top_k(x, count)[0]),
        r"TopKV2 \(TopKV2\): give `k` as a Python integer",
    ),
    "boxes": (
        lambda x, rows, count: tf.image.non_max_suppression(x, x[:, 0], 4),
        r"NonMaxSuppressionV3 \(NonMaxSuppressionV3\): .*non_max_suppression_padded",
    ),
    "loop": (in_a_loop, r"while/strided_slice \(StridedSlice\)"),
    "branch": (in_a_branch, r"cond \(StatelessIf\)"),
}

STATIC = {
    "constant mask": lambda x, rows, count: total(tf.boolean_mask(x, [True, False] * 4)),
    "mask of a shape": lambda x, rows, count: total(
        tf.boolean_mask(x, tf.range(tf.shape(x)[0]) < 3)
    ),
    "constant where": lambda x, rows, count: total(
        tf.gather(x, tf.where(tf.constant(ROWS) > 0)[:, 0])
    ),
    "constant partition": lambda x, rows, count: total(tf.dynamic_partition(x, ROWS, 2)[1]),
    "slice by a shape": lambda x, rows, count: total(x[: tf.shape(x)[0] // 2]),
    "slice of a static size": lambda x, rows, count: total(tf.slice(x, [count, 0], [2, 4])),
    "moving slice": lambda x, rows, count: total(x[count : count + 2]),
    "moving box": lambda x, rows, count: total(x[count + 1 : count + 4, count - 2 : count]),
    "moving block": lambda x, rows, count: total(x[count * 2 : (count + 1) * 2]),
    "moving slice in a loop": slices_in_a_loop,
    "row": lambda x, rows, count: total(x[count]),
    "where of three": lambda x, rows, count: total(tf.where(x > 0, x, 0.0)),
}


@pytest.mark.fast_cells(1)
@pytest.mark.parametrize("name", DYNAMIC)
def test_a_size_that_depends_on_data_is_refused(strategy, name):
    fn, op = DYNAMIC[name]
    message = rf"(?s)Shapes are static on the IPU.*depend on data.*layer '\S+': \S*{op}"
    with pytest.raises(UncompilableProgram, match=message):
        strategy.run(tf.function(fn), (tf.constant(X), tf.constant(ROWS), tf.constant(COUNT)))


@pytest.mark.fast_cells(1)
@pytest.mark.parametrize("name", STATIC)
def test_a_size_that_xla_knows_is_not(strategy, name):
    arguments = (tf.constant(X), tf.constant(ROWS), tf.constant(COUNT))
    result = strategy.run(tf.function(STATIC[name]), arguments)
    np.testing.assert_allclose(result, STATIC[name](*arguments), rtol=1e-6)


class Positive(keras.layers.Layer):
    """Keeps the rows whose first value is positive."""

    def call(self, x):
        return tf.boolean_mask(x, x[:, 0] > 0)


class TestLayers:
    def test_the_layer_is_named(self, strategy):
        with strategy.scope():
            inputs = keras.Input((4,))
            model = keras.Model(inputs, Positive(name="positive")(inputs), name="net")
        message = r"'net\.predict_step' cannot be compiled.*\n  layer '(net/)?positive': .*/Where"
        with pytest.raises(UncompilableProgram, match=message) as caught:
            model.predict(X, batch_size=4, verbose=0)
        (op,) = caught.value.refused
        assert (op.op_type, op.layer.rpartition("/")[2]) == ("Where", "positive")

    def test_a_tile_op_names_the_op_that_lost_the_size(self, strategy):
        with strategy.scope():
            inputs = keras.Input((4,))
            outputs = keras.layers.Dense(2)(Positive(name="positive")(inputs))
            model = keras.Model(inputs, outputs, name="net")
        message = r"MatMul' .*unknown from op '\S*positive\S*/boolean_mask/Where' \(Where\) on"
        with pytest.raises(ValueError, match=message):
            model.predict(X, batch_size=4, verbose=0)

    @pytest.mark.slow
    def test_masks_of_recurrent_layers_go_on(self, strategy):
        def predicted():
            keras.utils.set_random_seed(1)
            model = keras.Sequential(
                [
                    keras.Input((3,), dtype="int32"),
                    keras.layers.Embedding(5, 4, mask_zero=True),
                    keras.layers.LSTM(2),
                    keras.layers.Dense(2),
                ]
            )
            return model.predict(ROWS.reshape(-1, 2).repeat(3, 1)[:, :3], batch_size=2, verbose=0)

        with strategy.scope():
            ours = predicted()
        np.testing.assert_allclose(ours, predicted(), rtol=1e-5)


class TestSparseGradients:
    """RMSprop adds up the rows of a table that occur more than once: XLA knows a bound of them."""

    TOKENS = np.array([[0, 3, 3], [3, 1, 0]] * 2, "int32")

    def model(self):
        keras.utils.set_random_seed(1)
        model = keras.Sequential(
            [
                keras.Input((3,), dtype="int32"),
                keras.layers.Embedding(9, 2),
                keras.layers.Flatten(),
                keras.layers.Dense(2),
            ]
        )
        model.compile("rmsprop", "mse")
        return model

    @pytest.mark.slow
    def test_optimizers_may_count_rows(self, strategy):
        def losses(model):
            targets = np.ones((4, 2), "float32")
            return model.fit(self.TOKENS, targets, batch_size=2, verbose=0, shuffle=False).history

        with strategy.scope():
            ours = losses(self.model())
        np.testing.assert_allclose(ours["loss"], losses(self.model())["loss"], rtol=1e-5)

    @pytest.mark.fast_cells(1)
    @pytest.mark.parametrize("masked", [False, True])
    @pytest.mark.slow
    def test_the_loss_of_the_same_program_may_not(self, strategy, masked):
        with strategy.scope():
            model = self.model()
            model.optimizer.build(model.trainable_variables)

        @tf.function
        def step(tokens):
            with tf.GradientTape() as tape:
                outputs = model(tokens)
                if masked:
                    outputs = tf.boolean_mask(outputs, tokens[:, 0] > 0)
                loss = tf.reduce_sum(outputs**2)
            weights = model.trainable_variables
            model.optimizer.apply_gradients(zip(tape.gradient(loss, weights), weights, strict=True))
            return loss

        if not masked:
            assert strategy.run(step, (tf.constant(self.TOKENS),)) > 0.0
            return
        with pytest.raises(UncompilableProgram, match="boolean_mask/Where") as caught:
            strategy.run(step, (tf.constant(self.TOKENS),))
        assert {op.op_type for op in caught.value.refused} == {"Where"}

    @pytest.mark.slow
    def test_nor_may_what_reads_the_new_weights(self, strategy):
        with strategy.scope():
            model = self.model()
            model.optimizer.build(model.trainable_variables)

        @tf.function
        def step(tokens):
            with tf.GradientTape() as tape:
                loss = tf.reduce_sum(model(tokens) ** 2)
            weights = model.trainable_variables
            model.optimizer.apply_gradients(zip(tape.gradient(loss, weights), weights, strict=True))
            table = weights[0].value
            return tf.reduce_sum(tf.boolean_mask(table, table[:, 0] > 0))

        with pytest.raises(UncompilableProgram, match="boolean_mask/Where"):
            strategy.run(step, (tf.constant(self.TOKENS),))
