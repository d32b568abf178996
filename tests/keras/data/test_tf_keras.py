"""The data of tf_keras models gives the logs of stock tf_keras, whatever its form."""

import contextlib

import numpy as np
import pytest
import tensorflow as tf

from ipu_tf.internals.tf_keras import as_array
from tests.grids import mostly_slow
from tests.keras.tf_keras_training import X, Y, check_equal, strategy_of

tf_keras = pytest.importorskip("tf_keras")

layers = tf_keras.layers
WEIGHTS = np.linspace(0.5, 1.5, 48).astype("float32")
CLASSES = {0: 1.0, 1: 2.0, 2: 0.5}


def single():
    model = tf_keras.Sequential([layers.Dense(8, activation="tanh"), layers.Dense(3)])
    loss = tf_keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile("sgd", loss, metrics=["accuracy"], weighted_metrics=["accuracy"])
    return model


def named():
    inputs = {"a": tf_keras.Input((6,), name="a"), "b": tf_keras.Input((6,), name="b")}
    x = layers.Concatenate()([inputs["b"], inputs["a"]])
    outputs = {"c": layers.Dense(3, name="c")(x), "d": layers.Dense(1, name="d")(x)}
    model = tf_keras.Model(inputs, outputs)
    loss = tf_keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(
        tf_keras.optimizers.Adam(),
        {"c": loss, "d": "mse"},
        metrics={"c": "accuracy", "d": "mae"},
        loss_weights={"c": 0.7, "d": 0.3},
    )
    return model


def listed():
    inputs = [tf_keras.Input((6,)), tf_keras.Input((6,))]
    x = layers.Add()(inputs)
    model = tf_keras.Model(inputs, [layers.Dense(3, name="c")(x), layers.Dense(1, name="d")(x)])
    loss = tf_keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(tf_keras.optimizers.legacy.Adam(), [loss, "mse"], metrics=[["accuracy"], ["mae"]])
    return model


def dataset(*parts, repeats=False):
    made = tf.data.Dataset.from_tensor_slices(parts).batch(8, drop_remainder=True)
    return made.repeat() if repeats else made


TARGETS = {"c": Y, "d": X[:, :1]}
FORMS = {
    "weights of samples": (
        single,
        lambda: {"x": X, "y": Y, "sample_weight": WEIGHTS, "batch_size": 8},
    ),
    "weights of classes and validation": (
        single,
        lambda: {
            "x": X,
            "y": Y,
            "class_weight": CLASSES,
            "batch_size": 8,
            "validation_data": (X[:16], Y[:16], WEIGHTS[:16]),
            "validation_freq": 2,
            "epochs": 4,
        },
    ),
    "both weights and a split": (
        single,
        lambda: {
            "x": X,
            "y": Y,
            "sample_weight": WEIGHTS,
            "class_weight": CLASSES,
            "batch_size": 8,
            "validation_split": 1 / 3,
        },
    ),
    "shuffled arrays": (
        single,
        lambda: {"x": tf.constant(X), "y": tf.constant(Y), "batch_size": 8, "shuffle": True},
    ),
    "steps of arrays": (
        single,
        lambda: {"x": X, "y": Y, "batch_size": 8, "steps_per_epoch": 2, "validation_split": 1 / 3},
    ),
    "dataset": (
        single,
        lambda: {
            "x": dataset(X, Y, WEIGHTS),
            "validation_data": dataset(X[:16], Y[:16], repeats=True),
            "validation_steps": 2,
        },
    ),
    "dataset that repeats": (
        single,
        lambda: {
            "x": dataset(X, Y, repeats=True),
            "steps_per_epoch": 4,
            "class_weight": CLASSES,
            "validation_data": dataset(X[:16], Y[:16], WEIGHTS[:16]),
        },
    ),
    "dictionaries": (
        named,
        lambda: {
            "x": {"a": X, "b": X[::-1]},
            "y": TARGETS,
            "sample_weight": {"c": WEIGHTS, "d": WEIGHTS[::-1].copy()},
            "batch_size": 8,
            "validation_split": 1 / 3,
        },
    ),
    "dataset of dictionaries": (
        named,
        lambda: {
            "x": dataset({"a": X, "b": X[::-1]}, TARGETS),
            "validation_data": ({"a": X[:8], "b": X[:8]}, {"c": Y[:8], "d": X[:8, :1]}),
            "validation_batch_size": 8,
        },
    ),
    "lists": (
        listed,
        lambda: {
            "x": [X, X[::-1]],
            "y": [Y, X[:, :1]],
            "sample_weight": [WEIGHTS, WEIGHTS],
            "batch_size": 8,
        },
    ),
    "lists of numbers": (
        single,
        lambda: {
            "x": X.tolist(),
            "y": Y.tolist(),
            "batch_size": 8,
            "validation_data": (X[:8].tolist(), Y[:8].tolist()),
            "validation_batch_size": 8,
        },
    ),
    "list of epochs with validation": (
        single,
        lambda: {
            "x": X,
            "y": Y,
            "batch_size": 8,
            "validation_data": (X[:8], Y[:8]),
            "validation_freq": [2],
        },
    ),
}


def test_lists_of_numbers_alone_are_arrays():
    numbers = [[1, 2], [3, 4]]
    np.testing.assert_array_equal(as_array(numbers), numbers)
    for other in ([X, X], (1, 2), X, None, 3):
        assert as_array(other) is other


@pytest.mark.parametrize("form", mostly_slow(FORMS, fast=[]))
def test_logs_are_those_of_stock_tf_keras(form):
    build, data = form

    def run(strategy):
        with strategy.scope() if strategy else contextlib.nullcontext():
            tf_keras.utils.set_random_seed(3)
            model = build()
            model.steps_per_execution = 2 if strategy else 1
            how = {"shuffle": False, "epochs": 2, "verbose": 0, **data()}
            return model, model.fit(**how).history

    check_equal(run(strategy_of()), run(None))


@pytest.mark.slow
def test_single_batches_and_evaluations_are_those_of_stock_tf_keras():
    def run(strategy):
        with strategy.scope() if strategy else contextlib.nullcontext():
            tf_keras.utils.set_random_seed(3)
            model = single()
            results = [
                model.train_on_batch(X[:8], Y[:8], sample_weight=WEIGHTS[:8], return_dict=True),
                model.train_on_batch(X[8:16], Y[8:16], class_weight=CLASSES),
                model.train_on_batch(X[8:16], Y[8:16], reset_metrics=False),
                model.test_on_batch(X[:8], Y[:8], sample_weight=WEIGHTS[:8]),
                model.predict_on_batch(X[:8]),
                model.evaluate(X, Y, sample_weight=WEIGHTS, batch_size=8, verbose=0),
                model.evaluate(dataset(X, Y), return_dict=True, steps=4, verbose=0),
                model.predict(dataset(X), verbose=0),
            ]
        return tf.nest.flatten(results)

    for ours, stock in zip(run(strategy_of()), run(None), strict=True):
        np.testing.assert_allclose(ours, stock, rtol=1e-5, atol=1e-6)


class Batches(tf_keras.utils.Sequence):
    """Batches that Python makes."""

    def __len__(self):
        return 6

    def __getitem__(self, index):
        rows = slice(8 * index, 8 * index + 8)
        return X[rows], Y[rows]


@pytest.mark.fast_cells(2)
@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"x": X, "y": Y, "batch_size": 10}, "the 48 samples of x are not a multiple of batch_siz"),
        ({"x": X, "y": Y, "batch_size": 8, "validation_data": (X[:9], Y[:9])}, "a partial batch"),
        ({"x": tf.data.Dataset.from_tensor_slices((X, Y)).batch(8)}, "not fully defined"),
        ({"x": Batches()}, "generators, iterators and sequences cannot feed the IPU"),
        ({"x": iter([(X, Y)])}, "generators, iterators and sequences cannot feed the IPU"),
    ],
)
def test_data_without_whole_batches_of_known_shape_is_refused(data, message):
    with strategy_of().scope():
        model = single()
        with pytest.raises(ValueError, match=message):
            model.fit(**data)
