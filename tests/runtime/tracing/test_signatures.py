"""Functions with an `input_signature` are traced for the shapes that they are called with."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from ipu_tf import IPUConfig, IPUStrategy, config

X = np.linspace(-1, 1, 24, dtype="float32").reshape(6, 4)
W = tf.constant(np.linspace(1, 2, 8, dtype="float32").reshape(4, 2))


@pytest.fixture
def strategy():
    cfg = IPUConfig()
    cfg.ipu_model.tiles_per_ipu = 16
    cfg.configure_ipu_system()
    yield IPUStrategy()
    config.reset_ipu_configuration()


def product_of(*specs, **options):
    @tf.function(input_signature=specs or None, **options)
    def product(x, scale=2.0):
        if not tf.is_tensor(scale):
            scale = -tf.ones(())  # A signature makes tensors of numbers.
        return tf.matmul(x, W) * scale

    return product


OPEN = (tf.TensorSpec([None, 4]), tf.TensorSpec([]))


@pytest.mark.fast_cells(1)
@pytest.mark.parametrize("arguments", [(X,), (X, 3.0), (X.tolist(), 3)])
def test_nested_functions_run_on_tiles(strategy, arguments):
    product = product_of(*OPEN)
    expected = product(*arguments)
    given = arguments[1:]

    @tf.function
    def step(x):
        return product(x, *given)

    ours = strategy.run(step, (tf.constant(X),))
    np.testing.assert_allclose(ours, expected, rtol=1e-5)
    (program,) = strategy.report().programs
    assert len(program.tile_ops) == 1
    assert not program.native_ops
    assert product.experimental_get_tracing_count() == 2
    np.testing.assert_allclose(product(X[:3]), expected[:3] if not given else product(X)[:3])
    assert product.experimental_get_tracing_count() == 2


def test_their_gradients_do(strategy):
    product = product_of(*OPEN)

    def step(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            loss = tf.reduce_sum(product(x) ** 2)
        return tape.gradient(loss, x)

    ours = strategy.run(tf.function(step), (tf.constant(X),))
    np.testing.assert_allclose(ours, step(tf.constant(X)), rtol=1e-5)


@pytest.mark.fast_cells(1)
@pytest.mark.parametrize("options", [{}, {"reduce_retracing": True}])
def test_several_shapes_in_one_program(strategy, options):
    product = product_of(*(() if options else OPEN), **options)

    def step(x):
        return [product(x[:size], tf.constant(1.0)) for size in (2, 3, 4, 6)]

    ours = strategy.run(tf.function(step), (tf.constant(X),))
    for ours_, expected in zip(ours, step(tf.constant(X)), strict=True):
        np.testing.assert_allclose(ours_, expected, rtol=1e-5)


def test_arguments_that_do_not_fit_are_refused_as_by_tensorflow(strategy):
    product = product_of(*OPEN)
    with pytest.raises(TypeError, match=r"(?s)Can not cast.*shape=\(4, 6\)"):
        strategy.run(tf.function(lambda x: product(tf.transpose(x))), (tf.constant(X),))


@pytest.mark.filterwarnings("ignore::UserWarning")
class TestSavedModels:
    @pytest.fixture
    def exported(self, tmp_path):
        keras.utils.set_random_seed(1)
        model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(2)])
        model.export(tmp_path, verbose=False)
        return str(tmp_path)

    @pytest.mark.slow
    @pytest.mark.parametrize("endpoint", ["serve", "serving_default"])
    def test_as_layers_of_a_model(self, strategy, exported, endpoint):
        def model():
            inputs = keras.Input((4,))
            layer = keras.layers.TFSMLayer(exported, call_endpoint=endpoint)
            outputs = keras.tree.flatten(layer(inputs))[0]
            return keras.Model(inputs, keras.layers.Dense(1, kernel_initializer="ones")(outputs))

        def trained(made):
            made.compile("sgd", "mse")
            losses = made.fit(X, X[:, :1], batch_size=2, epochs=2, verbose=0, shuffle=False)
            return losses.history["loss"], made.predict(X, batch_size=2, verbose=0)

        with strategy.scope():
            ours = trained(model())
        for ours_, expected in zip(ours, trained(model()), strict=True):
            np.testing.assert_allclose(ours_, expected, rtol=1e-4)
        train = next(p for p in strategy.report().programs if "train_step" in p.name)
        assert any("tfsm_layer" in op.name for op in train.tile_ops)

    @pytest.mark.slow
    def test_called(self, strategy, exported):
        loaded = tf.saved_model.load(exported)
        ours = strategy.run(tf.function(lambda x: loaded.serve(x)), (tf.constant(X),))
        np.testing.assert_allclose(ours, loaded.serve(tf.constant(X)), rtol=1e-5)
