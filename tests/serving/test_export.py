"""SavedModels of steps of prediction: their values, with and without the device, and errors."""

import json

import keras
import numpy as np
import pytest
import tensorflow as tf

from ipu_tf import IPUStrategy, ops, serving
from ipu_tf.internals.tensorflow import SavedModelProto
from ipu_tf.keras.pipeline import PipelineStage
from tests.keras.equivalence import strategy_of
from tests.keras.small_models import FEATURES, functional, sequential

X = np.random.default_rng(5).normal(size=(4, FEATURES)).astype("float32")
SPEC = tf.TensorSpec((4, FEATURES), tf.float32)


@pytest.fixture(scope="module")
def weights():
    return tf.Variable(np.linspace(-1, 1, FEATURES * 3, dtype="float32").reshape(FEATURES, 3))


def ops_of(folder):
    saved = SavedModelProto.FromString((folder / "saved_model.pb").read_bytes())
    graph = saved.meta_graphs[0]
    listed = {definition.name for definition in graph.meta_info_def.stripped_op_list.op}
    functions = graph.graph_def.library.function
    return listed | {node.op for function in functions for node in function.node_def}


def only_signature(folder):
    return tf.saved_model.load(str(folder)).signatures["serving_default"]


def test_the_strategy_whose_scope_is_open_runs_an_exported_step(strategy, weights, tmp_path):
    with strategy.scope():
        on_device = serving.export_single_step(
            lambda features: ops.matmul(features, weights), tmp_path / "out", 1, [SPEC]
        )
    other = IPUStrategy()
    with other.scope():
        (product,) = on_device(X)
    np.testing.assert_allclose(product, X @ weights.numpy(), rtol=1e-5, atol=1e-6)
    (program,) = other.report().programs
    assert [op.op_type for op in program.tile_ops] == ["MatMul"]


def test_a_step_runs_on_the_device_and_from_its_file(strategy, weights, tmp_path):
    def predict_step(features):
        return ops.matmul(features, weights)

    with strategy.scope():
        on_device = serving.export_single_step(predict_step, tmp_path / "out", 3, [SPEC])
    expected = X @ weights.numpy()
    (product,) = on_device(X)
    np.testing.assert_allclose(product, expected, rtol=1e-5, atol=1e-6)
    (program,) = strategy.report().programs
    assert (program.name, program.steps_per_execution) == ("predict_step.predict_step", 3)
    assert [op.op_type for op in program.tile_ops] == ["MatMul"]
    np.testing.assert_allclose(
        only_signature(tmp_path / "out")(features=X)["output_0"], expected, rtol=1e-5, atol=1e-6
    )
    assert not [name for name in ops_of(tmp_path / "out") if name.startswith("Ipu")]
    description = json.loads((tmp_path / "out/assets.extra/ipu_tf.json").read_text())
    assert description["iterations"] == 3
    strategy.reset_report()


def test_a_function_of_a_program_is_exported_with_stock_ops(strategy, weights, tmp_path):
    kernel = tf.Variable(tf.ones((2, 2, 1, 3)))
    bias = tf.Variable([0.5, -1.0, 0.25])

    @tf.function
    def step(images, labels):
        hidden = tf.nn.relu(tf.nn.conv2d(images, kernel, 1, "VALID") + bias)
        return tf.nn.sparse_softmax_cross_entropy_with_logits(labels, hidden[:, 0, 0])

    @tf.function(
        input_signature=[tf.TensorSpec((2, 2, 2, 1)), tf.TensorSpec((2,), tf.int32)],
    )
    def run_on_device(images, labels):
        return strategy.run(step, args=(images, labels))

    serving.export_single_step(run_on_device, tmp_path, 1)
    assert not [name for name in ops_of(tmp_path) if name.startswith("Ipu")]
    images, labels = tf.reshape(tf.range(8.0), (2, 2, 2, 1)), tf.constant([2, 0])
    loss = only_signature(tmp_path)(images=images, labels=labels)["output_0"]
    np.testing.assert_allclose(loss, step(images, labels), rtol=1e-6)


@pytest.mark.slow
def test_work_of_the_host_before_and_after_is_exported(strategy, weights, tmp_path):
    words = tf.constant(["low", "high"])
    table = tf.lookup.StaticHashTable(
        tf.lookup.KeyValueTensorInitializer(words, tf.constant([-1.0, 1.0])), 0.0
    )

    def before(texts, scale):
        values = table.lookup(texts)
        if tf.reduce_any(values > 0):  # For AutoGraph.
            values = values * scale
        return values

    def after(scores):
        return {"best": tf.argmax(scores, axis=1), "scores": scores}

    with strategy.scope():
        on_device = serving.export_single_step(
            lambda values: tf.matmul(values, weights),
            tmp_path,
            1,
            preprocessing_step=before,
            preprocessing_step_signature=[
                tf.TensorSpec((2, FEATURES), tf.string),
                tf.TensorSpec(()),
            ],
            postprocessing_step=after,
            postprocessing_step_signature=[tf.TensorSpec((2, 3))],
        )
    texts = np.array([["low", "high", "?", "high", "high", "low"]] * 2)
    values = np.array([[-1, 1, 0, 1, 1, -1]] * 2) * 2.0
    expected = values @ weights.numpy()
    loaded = only_signature(tmp_path)(texts=tf.constant(texts), scale=tf.constant(2.0))
    for outputs in (on_device(texts, 2.0), loaded):
        np.testing.assert_allclose(outputs["scores"], expected, rtol=1e-5, atol=1e-6)
        np.testing.assert_array_equal(outputs["best"], expected.argmax(axis=1))


@pytest.mark.slow
def test_lookup_layers_beside_a_trained_model_are_exported(strategy, tmp_path):
    lookup = keras.layers.StringLookup(vocabulary=["low", "high"], output_mode="multi_hot")
    with strategy.scope():
        model = keras.Sequential([keras.Input((3,)), dense := keras.layers.Dense(2)])
        model.compile("adam", "mse")
    model.fit(np.ones((4, 3)), np.ones((4, 2)), batch_size=4, verbose=0)

    def before(texts):
        assert model.built
        return tf.cast(lookup(texts), tf.float32)

    serving.export_keras(
        model,
        tmp_path,
        batch_size=1,
        preprocessing_step=before,
        preprocessing_step_signature=[tf.TensorSpec((1, 2), tf.string)],
    )
    outputs = only_signature(tmp_path)(texts=tf.constant([["high", "?"]]))["output_0"]
    kernel, bias = dense.get_weights()
    np.testing.assert_allclose(outputs, [[1, 0, 1]] @ kernel + bias, rtol=1e-5)


@pytest.mark.slow
def test_the_elements_of_a_dataset_are_a_signature(strategy, weights, tmp_path):
    data = tf.data.Dataset.from_tensor_slices({"b": X, "a": X}).batch(2, drop_remainder=True)

    def predict_step(a, b):
        return tf.matmul(a, weights), b

    on_device = serving.export_single_step(
        predict_step, tmp_path, 1, input_dataset=data, output_names=["product", "copy"]
    )
    loaded = only_signature(tmp_path)(a=X[:2], b=X[2:])
    results = on_device(a=X[:2], b=X[2:])
    np.testing.assert_allclose(loaded["product"], X[:2] @ weights.numpy(), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(results["product"], loaded["product"], rtol=1e-6, atol=1e-7)
    np.testing.assert_array_equal(results["copy"], X[2:])
    np.testing.assert_array_equal(loaded["copy"], X[2:])


@pytest.mark.parametrize("make", [functional, pytest.param(sequential, marks=pytest.mark.slow)])
def test_a_keras_model_is_exported(strategy, make, tmp_path):
    with strategy.scope():
        model = make()
        model.compile(steps_per_execution=2)
        on_device = serving.export_keras(model, tmp_path, batch_size=4, output_names="scores")
    expected = model.predict(X, batch_size=4, verbose=0)
    np.testing.assert_array_equal(on_device(X)["scores"], expected)
    (name,) = only_signature(tmp_path).structured_input_signature[1]
    loaded = only_signature(tmp_path)(**{name: X})
    np.testing.assert_allclose(loaded["scores"], expected, rtol=1e-5, atol=1e-6)
    assert json.loads((tmp_path / "assets.extra/ipu_tf.json").read_text())["iterations"] == 2


@pytest.mark.slow
def test_a_model_with_a_batch_size_and_named_inputs_needs_no_more(strategy, tmp_path):
    with strategy.scope():
        left = keras.Input((FEATURES,), batch_size=4, name="left")
        right = keras.Input((FEATURES,), batch_size=4, name="right")
        model = keras.Model({"left": left, "right": right}, left - right)
        on_device = model.export_for_ipu_serving(tmp_path)
    np.testing.assert_array_equal(on_device(left=X, right=2 * X)[0], -X)
    np.testing.assert_array_equal(only_signature(tmp_path)(left=X, right=2 * X)["output_0"], -X)


@pytest.mark.slow
def test_a_subclassed_model_is_exported_by_the_shape_that_built_it(strategy, tmp_path):
    class Doubling(keras.Model):
        def __init__(self):
            super().__init__()
            self.dense = keras.layers.Dense(2)

        def call(self, inputs):
            return 2 * self.dense(inputs)

    with strategy.scope():
        model = Doubling()
        with pytest.raises(RuntimeError, match="have not yet been created"):
            model.export_for_ipu_serving(tmp_path, batch_size=4)
        model(X)
        on_device = model.export_for_ipu_serving(tmp_path)
    expected = model.predict(X, batch_size=4, verbose=0)
    np.testing.assert_allclose(on_device(X)[0], expected, rtol=1e-6)


@pytest.mark.slow
def test_a_subclassed_model_takes_the_types_that_it_was_trained_with(strategy, tmp_path):
    class Words(keras.Model):
        def __init__(self):
            super().__init__()
            self.embedding = keras.layers.Embedding(7, 3)

        def call(self, ids):
            return self.embedding(ids)

    ids = np.arange(6).reshape(2, 3)
    with strategy.scope():
        model = Words()
        model.compile("sgd", "mse")
        model.fit(ids, np.ones((2, 3, 3)), batch_size=2, verbose=0)
        on_device = model.export_for_ipu_serving(tmp_path)
    (spec,) = on_device.input_signature
    assert (spec.dtype, spec.shape) == (tf.int32, (2, 3))
    np.testing.assert_array_equal(
        on_device(ids.astype("int32"))[0], model.predict(ids, batch_size=2, verbose=0)
    )


def test_a_loaded_model_runs_on_the_device(strategy, weights, tmp_path):
    serving.export_single_step(lambda x: tf.matmul(x, weights), tmp_path, 1, [SPEC])
    strategy.reset_report()
    with strategy.scope():
        loaded = tf.saved_model.load(str(tmp_path))
        (result,) = strategy.run(loaded.predict, args=(tf.constant(X),))
    np.testing.assert_allclose(result, X @ weights.numpy(), rtol=1e-5, atol=1e-6)
    (program,) = strategy.report().programs
    assert [op.op_type for op in program.tile_ops] == ["MatMul"]


@tf.function(input_signature=[SPEC])
def declared(x):
    return x


@pytest.mark.parametrize(
    ("step", "arguments", "error", "message"),
    [
        (abs, {}, ValueError, "inputs of `predict_step` are unknown: pass `predict_step_sig"),
        (abs, {"predict_step_signature": []}, ValueError, "must not be empty"),
        (abs, {"predict_step_signature": SPEC}, TypeError, "must be a list or tuple of tf.Tensor"),
        (abs, {"predict_step_signature": [X]}, TypeError, "Received an element array"),
        (declared, {"predict_step_signature": [SPEC]}, ValueError, "leave `predict_step_signat"),
        (
            abs,
            {"predict_step_signature": [SPEC], "input_dataset": tf.data.Dataset.range(2)},
            ValueError,
            "Both `predict_step_signature` and `input_dataset` are given",
        ),
        (abs, {"input_dataset": [X]}, TypeError, "must be a tf.data.Dataset"),
        (
            abs,
            {"input_dataset": tf.data.Dataset.range(2).map(lambda x: (x, (x, x)))},
            TypeError,
            "must be tensors, tuples of tensors or dicts",
        ),
        (
            abs,
            {"predict_step_signature": [tf.TensorSpec((None, 2))]},
            ValueError,
            r"shape \(None, 2\) which is not fully defined",
        ),
        (declared, {"iterations": 0}, ValueError, "`iterations` must be a positive integer"),
        (declared, {"iterations": True}, ValueError, "Received: iterations=True"),
        (declared, {"output_names": 7}, TypeError, "must be a name or a list of names"),
        (declared, {"output_names": ["a", "b"]}, ValueError, "for each of the 1 outputs"),
        (declared, {"preprocessing_step": abs}, ValueError, "inputs of `preprocessing_step` are"),
        (
            declared,
            {"preprocessing_step_signature": [SPEC]},
            ValueError,
            "`preprocessing_step_signature` is given without a `preprocessing_step`",
        ),
        (
            declared,
            {"postprocessing_step": abs, "postprocessing_step_signature": 3},
            TypeError,
            "`postprocessing_step_signature` must be a list",
        ),
        (
            declared,
            {"postprocessing_step": abs, "postprocessing_step_signature": [tf.TensorSpec((2,))]},
            ValueError,
            r"results of `predict_step` do not fit.*Expected: float32\(2,\). Rec.*float32\(4, 6\)",
        ),
        (
            declared,
            {
                "preprocessing_step": abs,
                "preprocessing_step_signature": [tf.TensorSpec((4, 2))],
            },
            ValueError,
            "results of `preprocessing_step` do not fit the signature of `predict_step`",
        ),
    ],
)
def test_bad_arguments_are_refused(step, arguments, error, message, tmp_path):
    arguments = {"iterations": 1} | arguments
    with pytest.raises(error, match=message):
        serving.export_single_step(step, tmp_path / "out", **arguments)
    assert not (tmp_path / "out").exists()


def test_a_folder_that_is_not_empty_is_kept_unless_purged(strategy, tmp_path):
    (tmp_path / "kept").write_text("")
    with pytest.raises(ValueError, match="is not empty. Pass another directory, or `purge_exp"):
        serving.export_single_step(declared, tmp_path, 1)
    assert (tmp_path / "kept").exists()
    serving.export_single_step(declared, tmp_path, 1, purge_export_dir=True)
    assert not (tmp_path / "kept").exists()
    with pytest.raises(ValueError, match="is a file"):
        serving.export_single_step(declared, tmp_path / "saved_model.pb", 1)


def test_a_model_without_a_batch_size_or_of_another_strategy_is_refused(strategy, tmp_path):
    with strategy.scope():
        model = functional()
    with pytest.raises(ValueError, match="batch size of model 'functional.*' is undefined: pass"):
        model.export_for_ipu_serving(tmp_path)
    with pytest.raises(ValueError, match="`batch_size` must be a positive integer"):
        model.export_for_ipu_serving(tmp_path, batch_size=0)
    with pytest.raises(ValueError, match="takes a Keras model that was made in the scope"):
        serving.export_keras(functional(), tmp_path, batch_size=4)


@pytest.mark.slow
def test_a_class_of_models_opens_its_stages_while_it_is_exported(tmp_path):
    class Staged(keras.Model):
        def __init__(self):
            super().__init__()
            self.first, self.last = keras.layers.Dense(3), keras.layers.Dense(1)

        def call(self, x):
            with PipelineStage(0):
                x = self.first(x)
            with PipelineStage(1):
                return self.last(x)

    strategy = strategy_of(ipus=2)
    with strategy.scope():
        model = Staged()
        expected = model(X)
        model.compile(steps_per_execution=4)
    serving.export_keras(model, tmp_path, batch_size=4)
    (loaded,) = only_signature(tmp_path)(tf.constant(X)).values()
    np.testing.assert_allclose(loaded, expected, rtol=1e-5, atol=1e-6)


def test_a_table_that_the_file_would_not_hold_is_refused(tmp_path):
    class Hidden:
        def __init__(self):
            keys = tf.lookup.KeyValueTensorInitializer(tf.constant([1]), tf.constant([2]))
            self.table = tf.lookup.StaticHashTable(keys, 0)

        def __call__(self, keys):
            return self.table.lookup(keys)

    with pytest.raises(ValueError, match="uses a table or a variable that its file would not hold"):
        serving.export_single_step(Hidden(), tmp_path / "a", 1, [tf.TensorSpec((2,), tf.int32)])
    assert not (tmp_path / "a").exists()
