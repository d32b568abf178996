"""Every step runs at static shapes, and every shape is traced once."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from ipu_tf import IPUConfig, IPUStrategy, scopes
from tests.grids import covering
from tests.keras.small_models import CLASSES, FEATURES, compile_model


@pytest.fixture
def watched(strategy, monkeypatch):
    """Builds a model, and notes step and batch size of every program that is traced."""
    trace = IPUStrategy._trace

    def build(traces, steps_per_execution):
        def noting(self, fn, args, kwargs):
            traces.append((fn.__name__.removesuffix("_step"), batch_size_of(args)))
            return trace(self, fn, args, kwargs)

        monkeypatch.setattr(IPUStrategy, "_trace", noting)
        with strategy.scope():
            layers = [keras.Input((FEATURES,)), keras.layers.Dense(CLASSES)]
            model = keras.Sequential(layers)
            return compile_model(model, steps_per_execution=steps_per_execution)

    return build


def batch_size_of(data):
    return tf.nest.flatten(data)[0].shape[0]


def arrays(count):
    random = np.random.default_rng(1)
    x = random.normal(size=(count, FEATURES)).astype("float32")
    return x, random.integers(0, CLASSES, count).astype("int32")


def batches_of(count, batch_size):
    dataset = tf.data.Dataset.from_tensor_slices(arrays(count))
    return dataset.batch(batch_size, drop_remainder=True)


@pytest.mark.parametrize(*covering(1, as_dataset=[True, False], steps_per_execution=[4, 1]))
@pytest.mark.slow
def test_each_shape_is_traced_once(watched, steps_per_execution, as_dataset):
    traces = []
    model = watched(traces, steps_per_execution)

    def run(method, count, batch_size):
        if as_dataset:
            data = (batches_of(count, batch_size),)
            arguments = {"shuffle": False} if method == "fit" else {}
        else:
            data = arrays(count)
            data = data[:1] if method == "predict" else data
            arguments = {"batch_size": batch_size}
        getattr(model, method)(*data, verbose=0, **arguments)

    for _ in range(2):
        run("fit", 256, 64)
        run("fit", 128, 32)
        run("evaluate", 64, 16)
        run("predict", 64, 16)
        run("fit", 256, 64)
    assert traces == [("train", 64), ("train", 32), ("test", 16), ("predict", 16)]


@pytest.mark.slow
def test_batches_of_the_on_batch_methods_are_traced_once_each(watched):
    traces = []
    model = watched(traces, 1)
    for count in (8, 4, 8, 4):
        x, y = arrays(count)
        model.train_on_batch(x, y)
        model.test_on_batch(x, y)
        model.predict_on_batch(x)
    expected = [(step, count) for count in (8, 4) for step in ("train", "test", "predict")]
    assert traces == expected


@pytest.mark.slow
def test_a_model_that_is_built_by_its_first_batch_takes_others(strategy):
    with strategy.scope():
        layers = [
            keras.layers.Reshape((2, -1)),
            keras.layers.Flatten(),
            keras.layers.Dense(CLASSES),
        ]
        model = compile_model(keras.Sequential(layers))
    for batch_size in (16, 8):
        model.fit(*arrays(16), batch_size=batch_size, verbose=0)
    assert model.predict(arrays(4)[0], batch_size=2, verbose=0).shape == (4, CLASSES)


@pytest.mark.slow
def test_programs_have_static_shapes(strategy, watched):
    model = watched([], 3)
    model.fit(batches_of(96, 16), shuffle=False, verbose=0)
    assert strategy.report().tile_ops
    model.predict(batches_of(96, 16), verbose=0)
    names = {program.name.rpartition(".")[2] for program in strategy.report().programs}
    assert {"train_step", "predict_step"} <= names


@pytest.mark.slow
def test_recompiling_makes_new_functions(watched):
    traces = []
    model = watched(traces, 1)
    model.fit(*arrays(16), batch_size=16, verbose=0)
    compile_model(model)
    model.fit(*arrays(16), batch_size=16, verbose=0)
    assert traces == [("train", 16)] * 2


@pytest.mark.slow
def test_another_configuration_makes_new_programs(watched):
    traces = []
    model = watched(traces, 1)

    def train_and_predict():
        x, y = arrays(16)
        model.fit(x, y, batch_size=16, verbose=0)
        model.predict(x, batch_size=16, verbose=0)

    train_and_predict()
    train_and_predict()
    once = [("train", 16), ("predict", 16)]
    assert traces == once
    with scopes.stochastic_rounding(True):
        train_and_predict()
    assert traces == once * 2
    cfg = IPUConfig()
    cfg.auto_select_ipus = 1
    cfg.ipu_model.tiles_per_ipu = 4
    cfg.configure_ipu_system()
    train_and_predict()
    assert traces == once * 3


def test_forced_functions_are_new(watched):
    model = watched([], 1)
    for make, attribute in (
        (model.make_train_function, "train_function"),
        (model.make_test_function, "test_function"),
        (model.make_predict_function, "predict_function"),
    ):
        first = make()
        assert make() is first
        assert make(force=True) is not first
        assert getattr(model, attribute) is not first
