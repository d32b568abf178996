"""The data that methods of a model in the scope refuse, and their messages."""

import contextlib
import logging
import warnings

import keras
import numpy as np
import pytest
import scipy.sparse
import tensorflow as tf

from ipu_tf.keras.data import narrowing, preparation
from ipu_tf.keras.data.lengths import DataUse
from tests.grids import mostly_slow
from tests.keras.equivalence import strategy_of
from tests.keras.small_models import CLASSES, FEATURES, compile_model, sequential


@pytest.fixture(scope="module")
def model():
    """A model of all tests that look at no state of it."""
    with strategy_of(1).scope():
        return compile_model(sequential())


@pytest.fixture
def new_model(strategy):
    with strategy.scope():
        return compile_model(sequential())


@pytest.fixture
def name(model):
    return model.name


def arrays(count):
    return np.zeros((count, FEATURES), "float32"), np.zeros(count, "int32")


def generator():
    yield arrays(4)


def dataset_of(count, batch_size, **kwargs):
    return tf.data.Dataset.from_tensor_slices(arrays(count)).batch(batch_size, **kwargs)


def static(count=32, batch_size=8):
    return dataset_of(count, batch_size, drop_remainder=True)


METHODS = ["fit", "evaluate", "predict"]


def call(model, method, x, y=None, **kwargs):
    if method == "predict":
        return model.predict(x, verbose=0, **kwargs)
    return getattr(model, method)(x, y, verbose=0, **kwargs)


@pytest.mark.parametrize("method", METHODS)
def test_partial_batches_are_refused(model, name, method):
    message = (
        rf"`{method}` of model '{name}': The provided set of data has a partial batch.*"
        r"the 40 samples of x are not a multiple of batch_size=16\. "
        r"Pass batch_size=10, or leave out the last 8 samples\."
    )
    with pytest.raises(ValueError, match=message):
        call(model, method, *arrays(40), batch_size=16)


@pytest.mark.parametrize(
    ("count", "arguments", "message"),
    [
        (20, {}, r"batch_size=32 \(not given\)\. Pass batch_size=20\.$"),
        (37, {}, r"batch_size=32 \(not given\)\. Leave out the last 5 samples\.$"),
        (40, {"steps_per_epoch": 3}, r"batch_size=14 \(not given\)\. Pass batch_size=10, or"),
    ],
)
def test_the_advice_fits_the_data(model, count, arguments, message):
    with pytest.raises(ValueError, match=message):
        model.fit(*arrays(count), **arguments)


def test_partial_batches_of_validation_data_are_refused(model):
    message = r"', validation data: .*the 10 samples of x are not a multiple of batch_size=16"
    with pytest.raises(ValueError, match=message):
        model.fit(*arrays(32), batch_size=16, validation_data=arrays(10))
    with pytest.raises(ValueError, match=message.replace("16", "4")):
        model.fit(*arrays(32), batch_size=16, validation_data=arrays(10), validation_batch_size=4)


def test_partial_batches_of_a_split_are_refused(model):
    with pytest.raises(ValueError, match="the 30 samples of x are not a multiple of batch_size=8"):
        model.fit(*arrays(40), batch_size=8, validation_split=0.25)


@pytest.mark.parametrize("method", METHODS)
def test_shapes_that_are_not_static_are_refused(model, name, method):
    message = (
        rf"`{method}` of model '{name}': the dataset yields x of shape \(None, {FEATURES}\) which "
        r"is not fully defined.*`drop_remainder=True`"
    )
    with pytest.raises(ValueError, match=message):
        call(model, method, dataset_of(32, 8))


def test_other_axes_that_are_not_static_are_refused(model):
    signature = tf.TensorSpec((8, None), tf.float32)
    dataset = tf.data.Dataset.from_generator(generator, output_signature=signature)
    with pytest.raises(ValueError, match=r"shape \(8, None\).*`tf.ensure_shape`"):
        model.predict(dataset)


@pytest.mark.fast_cells(2)
@pytest.mark.parametrize("labels", [True, False])
@pytest.mark.parametrize("length", [3, None])
def test_shapes_that_a_layer_of_a_dataset_loses_are_refused(model, labels, length):
    layer = keras.layers.TextVectorization(output_sequence_length=length, vocabulary=["a", "b"])
    texts = tf.data.Dataset.from_tensor_slices(["a b", "b"] * 4).batch(4, drop_remainder=True)
    dataset = texts.map(lambda text: (layer(text), tf.zeros(4)) if labels else layer(text))
    method = model.fit if labels else model.predict
    with pytest.raises(
        ValueError, match=rf"x of shape \(None, {length}\) which.*`tf.ensure_shape`"
    ) as e:
        method(dataset, verbose=0)
    assert "drop_remainder" not in str(e.value)


def test_validation_datasets_that_are_not_static_are_refused(model):
    with pytest.raises(ValueError, match=r"validation data.*which is not fully defined"):
        model.fit(static(), validation_data=dataset_of(32, 8))


def test_what_cannot_be_split_is_refused(model, name):
    x, y = arrays(8)
    with pytest.raises(ValueError, match=r"same number of samples\. Received: x: 8, y: 6\."):
        model.fit(x, y[:6], validation_split=0.25)
    with pytest.raises(ValueError, match="input x is a SparseTensor"):
        model.fit(tf.sparse.eye(8), y, validation_split=0.25)
    with pytest.raises(ValueError, match="only supported for [tT]ensors or NumPy arrays"):
        model.fit(static(), validation_split=0.25)
    with pytest.raises(ValueError, match="not sufficient to split"):
        model.fit(x[:1], y[:1], batch_size=1, validation_split=0.25)


@pytest.mark.fast_cells(4)
@pytest.mark.parametrize("fraction", [2, 1.0, -0.5, "half", float("nan")])
@pytest.mark.parametrize("as_dataset", [True, False])
def test_a_part_to_validate_with_is_a_fraction(model, name, fraction, as_dataset):
    data = (static(),) if as_dataset else arrays(8)
    message = (
        rf"`fit` of model '{name}': `validation_split` must be the fraction of the data.*at least "
        rf"0 and less than 1\. Received: {fraction!r}\."
    )
    with pytest.raises(ValueError, match=message):
        model.fit(*data, validation_split=fraction)


class Batches(keras.utils.Sequence):
    def __len__(self):
        return 1

    def __getitem__(self, index):
        return arrays(4)


@pytest.mark.fast_cells(4)
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    ("make", "is_iterator"),
    [
        (generator, True),
        (lambda: iter([arrays(4)]), True),
        (lambda: iter(static()), True),
        (Batches, False),
    ],
    ids=["generator", "iterator", "dataset iterator", "PyDataset"],
)
def test_python_iterables_are_refused(model, name, method, make, is_iterator):
    x = make()
    with pytest.raises(ValueError, match=rf"`{method}` of model '{name}': Python gen") as error:
        call(model, method, x)
    assert "`tf.data.Dataset.from_generator`" in str(error.value)
    assert f"Received: x of type {type(x)}" in str(error.value)
    assert ("cannot start again" in str(error.value)) == is_iterator


@pytest.mark.parametrize("method", ["fit", "evaluate", "train_on_batch", "test_on_batch"])
def test_lengths_that_differ_are_refused(model, name, method):
    x, _ = arrays(8)
    message = (
        rf"`{method}` of model '{name}': Data cardinality is ambiguous: all arrays must have the "
        r"same number of samples\. "
        r"Received: x: 8, y: 6\."
    )
    with pytest.raises(ValueError, match=message):
        getattr(model, method)(x, arrays(6)[1])


def test_lengths_of_weights_are_checked(model):
    with pytest.raises(ValueError, match="x: 8, y: 8, sample_weight: 7"):
        model.fit(*arrays(8), sample_weight=np.ones(7, "float32"))


def test_inputs_of_a_structure_are_named(strategy):
    a, b = keras.Input((2,), name="a"), keras.Input((2,), name="b")
    with strategy.scope():
        model = keras.Model({"a": a, "b": b}, keras.layers.Add()([a, b]))
    x = {"a": np.zeros((4, 2)), "b": np.zeros((5, 2))}
    with pytest.raises(ValueError, match=r"x\['a'\]: 4, x\['b'\]: 5"):
        model.predict(x)


@pytest.mark.parametrize("method", METHODS)
def test_no_data_is_refused(model, name, method):
    with pytest.raises(ValueError, match=rf"`{method}` of model '{name}': the data is empty"):
        call(model, method, *arrays(0))
    with pytest.raises(ValueError, match=r"the data is empty: the dataset has no batch"):
        call(model, method, static(count=4))


@pytest.mark.parametrize("as_dataset", [True, False])
def test_axes_of_size_zero_are_refused(model, as_dataset):
    x = np.zeros((4, 0), "float32")
    if as_dataset:
        x = tf.data.Dataset.from_tensor_slices(x).batch(2, drop_remainder=True)
    with pytest.raises(ValueError, match=r"x (with|has) an axis of size 0. Received: shape \("):
        model.predict(x)


def test_not_enough_data_for_the_steps_is_refused(model):
    message = r"Your input does not have enough data: 3 steps in each of 2 epochs need 6 batches"
    with pytest.raises(ValueError, match=message):
        model.fit(static(), steps_per_epoch=3, epochs=2, shuffle=False)
    with pytest.raises(ValueError, match=r"5 steps need 5 batches.*Received: 4 batches"):
        model.predict(static(), steps=5)
    with pytest.raises(ValueError, match=r"5 steps need 5 batches.*Received: 4 batches"):
        model.evaluate(*arrays(32), batch_size=8, steps=5)


@pytest.mark.slow
def test_enough_data_for_the_steps(new_model):
    new_model.fit(static(), steps_per_epoch=2, epochs=2, shuffle=False, verbose=0)
    new_model.fit(static().repeat(), steps_per_epoch=3, epochs=2, shuffle=False, verbose=0)
    new_model.fit(static(), steps_per_epoch=2, epochs=5, initial_epoch=3, shuffle=False, verbose=0)
    assert int(new_model.optimizer.iterations) == 4 + 6 + 4


@pytest.mark.slow
def test_arrays_are_read_again_only_between_epochs(new_model):
    x, y = arrays(40)  # 5 batches.
    message = r"2 steps in each of 3 epochs need 6 batches.*Received: 5 batches"
    with pytest.raises(ValueError, match=message):
        new_model.fit(x, y, batch_size=8, steps_per_epoch=2, epochs=3, verbose=0)
    new_model.fit(x, y, batch_size=8, steps_per_epoch=2, epochs=2, verbose=0)
    new_model.fit(x, y, batch_size=8, steps_per_epoch=5, epochs=3, verbose=0)
    assert int(new_model.optimizer.iterations) == 4 + 15


def test_a_dataset_as_long_as_an_epoch_is_read_again_in_each(new_model):
    new_model.fit(static(), steps_per_epoch=len(static()), epochs=3, shuffle=False, verbose=0)
    assert int(new_model.optimizer.iterations) == 3 * 4


@pytest.mark.slow
@pytest.mark.parametrize("as_dataset", mostly_slow([True, False], fast=["True"]))
def test_each_evaluation_reads_validation_data_from_its_beginning(strategy, as_dataset):
    x, y = np.random.default_rng(5).normal(size=(40, FEATURES)), arrays(40)[1]
    data = (x.astype("float32"), y)
    if as_dataset:
        data = tf.data.Dataset.from_tensor_slices(data).batch(8, drop_remainder=True)

    def losses():
        keras.utils.set_random_seed(7)
        model = compile_model(sequential(), optimizer=keras.optimizers.SGD(0.0))
        history = model.fit(
            static(),
            epochs=3,
            validation_data=data,
            validation_steps=2,  # Of five batches.
            validation_batch_size=None if as_dataset else 8,
            shuffle=False,
            verbose=0,
        ).history
        return history["val_loss"]

    with strategy.scope():
        ours = losses()
    np.testing.assert_allclose(ours, losses(), rtol=1e-6)
    assert len(set(ours)) == 1


def test_more_validation_steps_than_data_are_refused(model):
    message = r"validation data: Your input .* 6 steps need 6 batches.*Received: 5 batches"
    with pytest.raises(ValueError, match=message):
        model.fit(static(), validation_data=static(40), validation_steps=6, shuffle=False)


@pytest.mark.parametrize(
    ("method", "argument"),
    [
        ("fit", "steps_per_epoch"),
        ("fit", "validation_steps"),
        ("evaluate", "steps"),
        ("predict", "steps"),
    ],
)
@pytest.mark.parametrize(
    ("steps", "message"),
    [
        (0, r"Received: 0 of type int\."),
        (-1, r"Received: -1 of type int\."),
        (True, r"Received: True of type bool\."),
        ("all", r"Received: 'all' of type str\."),
        (2.5, r"Divide with `//`\. Received: 2\.5 of type float\."),
    ],
)
def test_steps_are_positive_integers(model, method, argument, steps, message):
    data = {"validation_data": static()} if argument == "validation_steps" else {}
    words = rf"`{method}` of model '{model.name}'.*: `{argument}` must be a positive integer.*"
    with pytest.raises(ValueError, match=words + message):
        getattr(model, method)(static(), **{argument: steps}, **data)


@pytest.mark.fast_cells(1)
@pytest.mark.parametrize("steps", [np.int64(2), tf.constant(2)], ids=["NumPy", "tensor"])
def test_steps_may_be_integers_of_numpy_and_scalar_tensors(model, steps):
    assert len(model.predict(static().map(lambda x, _: x), steps=steps, verbose=0)) == 2 * 8


@pytest.mark.parametrize("steps_per_execution", [1, 2])
@pytest.mark.parametrize(
    ("method", "steps"), [("fit", "steps_per_epoch"), ("evaluate", "steps"), ("predict", "steps")]
)
@pytest.mark.slow
def test_data_of_unknown_size_that_ends_early(strategy, method, steps, steps_per_execution):
    with strategy.scope():
        model = compile_model(sequential(), steps_per_execution=steps_per_execution)
    unknown = static(batch_size=8, count=24).filter(lambda *_: True)
    if method == "predict":
        unknown = unknown.map(lambda x, _: x)
    message = (
        rf"`{method}` of model '{model.name}': Your input does not have enough data: it ended "
        "before the 4 steps of an epoch had run"
    )
    with pytest.raises(ValueError, match=message):
        getattr(model, method)(unknown, **{steps: 4}, verbose=0)


@pytest.mark.parametrize(("method", "argument"), [("fit", "steps_per_epoch"), ("predict", "steps")])
def test_endless_data_needs_steps(model, method, argument):
    message = rf"Could not infer the size of the data.*Pass `{argument}`"
    with pytest.raises(ValueError, match=message):
        call(model, method, static().repeat())
    if method == "fit":
        with pytest.raises(ValueError, match="Pass `validation_steps`"):
            model.fit(static(), validation_data=static().repeat(), shuffle=False)


def test_ragged_and_sparse_data_is_refused(model):
    ragged = tf.ragged.constant([[1.0], [2.0, 3.0]])
    with pytest.raises(ValueError, match="input x is a RaggedTensor"):
        model.predict(ragged)
    with pytest.raises(ValueError, match="input x is a SparseTensor"):
        model.predict(tf.sparse.eye(4))
    matrix = scipy.sparse.eye(FEATURES, format="csr")
    with pytest.raises(ValueError, match=r"input x is a sparse csr_matrix of SciPy.*`toarray\(\)`"):
        model.predict(matrix)
    dataset = tf.data.Dataset.from_tensors(ragged)
    message = r"for x the dataset yields a RaggedTensor\..*`tf.ensure_shape` in `Dataset.map`"
    with pytest.raises(ValueError, match=message):
        model.predict(dataset)


@pytest.mark.parametrize("as_dataset", [True, False])
def test_elements_that_are_no_numbers_are_refused(model, as_dataset):
    x = tf.constant(["a", "b"])
    if as_dataset:
        x = tf.data.Dataset.from_tensors(x)
    with pytest.raises(ValueError, match=r"input x has elements of type string"):
        model.predict(x)


class Table:
    """The attributes of an array that a table with a type for every column has."""

    dtypes = ("int64", "float32")
    shape = (8, FEATURES)

    def to_numpy(self):
        return np.zeros(self.shape)


def test_tables(model):
    assert model.predict(Table(), batch_size=4, verbose=0).shape == (8, CLASSES)


def test_data_of_no_known_kind_is_left_to_keras(model):
    with pytest.raises(ValueError, match="Unrecognized data type"):
        model.predict([1, 2, 3])
    with pytest.raises(ValueError, match="Unrecognized data type"):
        model.fit(arrays(3)[0], [1, 2, 3])


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.slow
def test_too_many_parts_are_left_to_keras(model, dtype):
    x = np.zeros((4, FEATURES), dtype)
    with pytest.raises(ValueError, match="Data is expected to be in format"):
        model.fit(*arrays(4), batch_size=4, validation_data=(x, x, x, x))
    with pytest.raises(ValueError, match="Data is expected to be in format"):
        model.fit(tf.data.Dataset.from_tensors((x, x, x, x)), shuffle=False)


@pytest.mark.fast_cells(1)
@pytest.mark.parametrize("as_dataset", [True, False])
def test_wide_data_is_narrowed_and_said_once(new_model, caplog, as_dataset):
    x = np.random.default_rng(0).normal(size=(16, FEATURES))
    y = np.arange(16) % CLASSES
    data = (x, y)
    if as_dataset:
        data = (tf.data.Dataset.from_tensor_slices(data).batch(8, drop_remainder=True),)
    with caplog.at_level(logging.WARNING, "ipu_tf"):
        for _ in range(2):
            new_model.fit(
                *data, verbose=0, **({"shuffle": False} if as_dataset else {"batch_size": 8})
            )
    messages = [record.getMessage() for record in caplog.records if "ipu_tf" in record.name]
    assert len(messages) == 1
    assert f"Model '{new_model.name}'" in messages[0]
    assert "x: float64 to float32; y: int64 to int32" in messages[0]


def test_narrowing_of_a_dataset_is_not_converted_by_autograph(monkeypatch):
    seen = []

    def narrow_tensor(name, tensor, model):
        seen.append(tf.__internal__.autograph.control_status_ctx().status.name)
        return tensor

    monkeypatch.setattr(narrowing, "narrow_tensor", narrow_tensor)
    data = preparation.Data(x=tf.data.Dataset.from_tensors(np.zeros((4, FEATURES))))
    preparation.prepare(data, DataUse(model="net", method="fit"))
    assert seen == ["DISABLED"]


@pytest.mark.parametrize("wide", [2**31, -(2**31) - 1])
def test_labels_out_of_range_are_refused(model, name, wide):
    x, _ = arrays(4)
    y = np.array([0, wide, 0, 0])
    with pytest.raises(ValueError, match=rf"Model '{name}': input y is int64 and has values"):
        model.fit(x, y, batch_size=4)


@pytest.mark.slow
def test_labels_of_a_dataset_out_of_range_are_refused(new_model):
    x, _ = arrays(4)
    dataset = tf.data.Dataset.from_tensors((x, np.array([0, 2**31, 0, 0])))
    message = r"input y is int64 and has values that do not fit into int32"
    with pytest.raises(tf.errors.InvalidArgumentError, match=message):
        new_model.fit(dataset, shuffle=False, verbose=0)


@pytest.mark.slow
def test_batches_are_narrowed(new_model):
    x = np.zeros((4, FEATURES))
    y = np.zeros(4, "int64")
    assert np.isfinite(new_model.train_on_batch(x, y)[0])
    assert np.isfinite(new_model.test_on_batch(x, tf.constant(y))[0])
    assert new_model.predict_on_batch(tf.constant(x)).dtype == np.float32


ASKED = {"default": {}, "no": {"shuffle": False}, "yes": {"shuffle": True}}


@pytest.mark.fast_cells(1)
@pytest.mark.parametrize("asked", mostly_slow(ASKED, fast=["default", "yes"]))
def test_shuffling_of_a_dataset_is_warned_about_where_it_is_asked_for(new_model, asked):
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        new_model.fit(static(), verbose=0, **asked)
    ignored = [str(one.message) for one in said if "will be ignored" in str(one.message)]
    assert len(ignored) == (asked == {"shuffle": True})


@pytest.mark.parametrize("asked", mostly_slow(ASKED, fast=["default"]))
def test_arrays_are_shuffled_as_stock_does(strategy, asked):
    x = np.random.default_rng(0).normal(size=(32, FEATURES)).astype("float32")
    y = np.arange(32) % CLASSES
    weights = []
    for scope in (contextlib.nullcontext, strategy.scope):
        keras.utils.set_random_seed(3)
        with scope():
            model = compile_model(sequential())
        model.fit(x, y, batch_size=8, epochs=2, verbose=0, **asked)
        weights.append(model.get_weights())
    for ours, stock in zip(*weights, strict=True):
        np.testing.assert_allclose(ours, stock, rtol=1e-4, atol=1e-6)
