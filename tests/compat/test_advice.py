"""Scripts that rely on what TensorFlow no longer has get advice."""

import re

import pytest
import tensorflow as tf

from ipu_tf.compat.advice import way_out
from ipu_tf.compat.tf_keras.context import keras_2_for_scripts


def error_of(source):
    with pytest.raises((AttributeError, ImportError)) as caught:
        exec(source, {"tf": tf})
    return caught.value


@pytest.mark.parametrize(
    ("source", "advice"),
    [
        ("tf.placeholder", "`tf.placeholder` is a name of TensorFlow 1, and so is the graph"),
        (
            "tf.train.AdamOptimizer",
            r"Give `ipu-tf run` the option --tf1\. In a program of your own, import it by",
        ),
        ("tf.estimator.EstimatorSpec", "has had no estimators since version 2.16"),
        ("tf.compat.v1.estimator", "has had no estimators since version 2.16"),
        ("tf.data.experimental.StatsAggregator()", "has no statistics of input pipelines any more"),
        (
            "tf.compat.v1.data.experimental.latency_stats",
            "`ipu.dataset_benchmark.dataset_benchmark`",
        ),
        ("tf.contrib", "TensorFlow 2 has no `tf.contrib`"),
        ("from tensorflow.contrib.compiler import xla", "TensorFlow 2 has no `tf.contrib`"),
        ("import tensorflow_addons as tfa", "TensorFlow Addons ended with Keras 2"),
        ("import tensorflow_datasets as tfds", "install tensorflow-datasets. With --offline it"),
    ],
)
def test_names_of_before_have_a_way_out(source, advice):
    assert re.search(advice, way_out(error_of(source)))


@pytest.mark.parametrize(
    "source",
    ["tf.no_such_name", "tf.constant(1).no_such_name", "import no_such_module", "str.placeholder"],
)
def test_other_names_have_none(source):
    assert way_out(error_of(source)) is None


def test_errors_of_another_kind_have_none():
    assert way_out(ValueError("tf.placeholder")) is None
    assert way_out(AttributeError("raised by a script")) is None


def test_placeholders_in_eager_mode_have_a_way_out():
    with pytest.raises(RuntimeError) as caught:
        tf.compat.v1.placeholder(tf.float32)
    assert re.search("disable_v2_behavior", way_out(caught.value))


def test_operations_that_a_session_places_on_an_ipu_have_a_way_out():
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        with tf.device("/device:IPU:0"):
            total = tf.add(tf.compat.v1.placeholder_with_default(1.0, []), 2.0)
        with pytest.raises(tf.errors.InvalidArgumentError) as caught:
            session.run(total)
    assert re.search("ipu_compiler.compile", way_out(caught.value))


@pytest.mark.parametrize(
    "line",
    [
        "import keras; keras.ops",
        "from keras import ops",
        "import keras.ops",
        "from keras.layers import Identity, RMSNormalization",
        "import tensorflow as tf; tf.keras.ops",
    ],
)
def test_names_of_keras_3_have_a_way_out(line):
    with keras_2_for_scripts():
        assert "the option --keras 3" in way_out(error_of(line))


def test_names_that_no_keras_has_have_none():
    with keras_2_for_scripts():
        assert way_out(error_of("import keras; keras.no_such_name")) is None
        assert way_out(error_of("from keras import no_such_name")) is None


def test_a_missing_tf_keras_has_a_way_out():
    missing = ModuleNotFoundError("No module named 'tf_keras'", name="tf_keras")
    assert "pip install ipu_tf[keras2]" in way_out(missing)
    of_tensorflow = ImportError("Keras cannot be imported. Check that it is installed.")
    assert "pip install ipu_tf[keras2]" in way_out(of_tensorflow)
