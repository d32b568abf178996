"""Names and modules that Keras 3 lacks."""

import importlib
import sys

import keras
import numpy as np
import pytest
import tensorflow as tf

from ipu_tf.compat.keras2.context import keras_2_spellings
from ipu_tf.compat.keras2.table import SPELLINGS

X = np.random.default_rng(1).random((4, 6), dtype=np.float32)

# The public functions of `tf.keras.backend` in TensorFlow 2.6.
BACKEND = """abs all any arange argmax argmin backend batch_dot batch_flatten batch_get_value
batch_normalization batch_set_value bias_add binary_crossentropy cast cast_to_floatx
categorical_crossentropy clear_session clip concatenate constant conv1d conv2d conv2d_transpose
conv3d cos count_params ctc_batch_cost ctc_decode ctc_label_dense_to_sparse cumprod cumsum
depthwise_conv2d dot dropout dtype elu epsilon equal eval exp expand_dims eye flatten floatx foldl
foldr function gather get_uid get_value gradients greater greater_equal hard_sigmoid
image_data_format in_test_phase in_top_k in_train_phase int_shape is_keras_tensor is_sparse
l2_normalize learning_phase learning_phase_scope less less_equal local_conv1d local_conv2d log
manual_variable_initialization map_fn max maximum mean min minimum moving_average_update name_scope
ndim normalize_batch_in_training not_equal one_hot ones ones_like permute_dimensions placeholder
pool2d pool3d pow print_tensor prod random_bernoulli random_binomial random_normal
random_normal_variable random_uniform random_uniform_variable relu repeat repeat_elements reset_uids
reshape resize_images resize_volumes reverse rnn round separable_conv2d set_epsilon set_floatx
set_image_data_format set_learning_phase set_value shape sigmoid sign sin softmax softplus softsign
sparse_categorical_crossentropy spatial_2d_padding spatial_3d_padding sqrt square squeeze stack std
stop_gradient sum switch tanh temporal_padding tile to_dense transpose truncated_normal update
update_add update_sub var variable zeros zeros_like"""


@pytest.mark.parametrize("root", ["keras", "tensorflow.keras"])
def test_the_backend_has_the_functions_of_keras_2(keras_2, notices, root):
    backend = importlib.import_module(f"{root}.backend")
    assert [name for name in BACKEND.split() if not hasattr(backend, name)] == []
    np.testing.assert_allclose(backend.mean(tf.constant(X), axis=1), X.mean(1), rtol=1e-6)
    notices()
    with pytest.raises(AttributeError, match="has no attribute 'nonsense'"):
        backend.nonsense  # noqa: B018


def test_layers_that_are_made_later_have_the_default_dtype_of_the_backend(keras_2, notices):
    from keras import backend

    try:
        assert keras.layers.Dense(1).dtype == "float32"
        backend.set_floatx("float16")
        assert keras.layers.Dense(1).dtype == "float16"
        keras.config.set_dtype_policy("mixed_bfloat16")
        backend.set_floatx("float32")
        assert keras.layers.Dense(1).compute_dtype == "bfloat16"
    finally:
        keras.config.set_floatx("float32")
        keras.config.set_dtype_policy("float32")
    assert "set_floatx" in notices()[0]


def test_functions_of_the_backend_are_logged_once(keras_2, notices):
    from keras import backend

    backend.sum(tf.constant(X))
    backend.square(tf.constant(X))
    notices.once("functions of `keras.backend`")


def test_a_function_computes_arrays(keras_2):
    from keras import backend

    inputs = keras.Input((6,))
    hidden = keras.layers.Dense(2, kernel_initializer="ones")(inputs)
    (found,) = backend.function([inputs], [hidden])([X])
    assert isinstance(found, np.ndarray)
    np.testing.assert_allclose(found, X.sum(1, keepdims=True).repeat(2, 1), rtol=1e-6)
    with pytest.raises(ValueError, match="Keras 3 has no `updates`"):
        backend.function([inputs], [hidden], updates=[1])


def test_the_learning_phase_is_that_of_the_layer(keras_2):
    from keras import backend

    class Phase(keras.layers.Layer):
        def call(self, x):
            return backend.in_train_phase(lambda: x * 2, x)

    layer = Phase()
    np.testing.assert_array_equal(layer(X, training=True), 2 * X)
    np.testing.assert_array_equal(layer(X, training=False), X)
    assert backend.learning_phase() == 0
    with backend.learning_phase_scope(1):
        assert backend.learning_phase() == 1
        assert backend.in_test_phase(3, 4) == 4
    assert backend.learning_phase() == 0
    with pytest.raises(ValueError, match="The learning phase is 0 or 1"):
        backend.set_learning_phase(2)


def test_variables_of_keras_3_are_set(keras_2, notices):
    optimizer = keras.optimizers.SGD(0.5)
    for backend in (tf.keras.backend, keras.backend):
        backend.set_value(optimizer.learning_rate, 0.25)
        assert backend.get_value(optimizer.learning_rate) == 0.25
        assert backend.dtype(optimizer.learning_rate) == "float32"
        backend.batch_set_value([(optimizer.learning_rate, 0.5)])
        assert backend.update(optimizer.learning_rate, 0.75) is optimizer.learning_rate
        assert backend.get_value(optimizer.learning_rate) == 0.75
        variable = tf.Variable(1.0)
        assert backend.update(variable, 2.0).numpy() == variable.numpy() == 2.0
    assert "K.set_value" in notices()[0]


def test_further_functions_of_the_backend(keras_2, capfd):
    from keras import backend

    normal, mean, _ = backend.normalize_batch_in_training(tf.constant(X), None, None, [0], 0.0)
    np.testing.assert_allclose(mean, X.mean(0), rtol=1e-5)
    np.testing.assert_allclose(normal, (X - X.mean(0)) / X.std(0), rtol=1e-4, atol=1e-5)
    assert backend.placeholder((2, 3)).shape == (2, 3)
    np.testing.assert_array_equal(backend.print_tensor(tf.constant(X), "seen"), X)
    assert "seen" in capfd.readouterr().err
    assert set(backend.random_binomial((50,), 0.5).numpy()) == {0, 1}
    backend.manual_variable_initialization(True)
    backend.reset_uids()
    assert keras.layers.Dense(1).name == "dense"
    with pytest.raises(NotImplementedError, match="no locally connected layers"):
        backend.local_conv1d(X, X, 1, 1)


MOVED = {
    "layers.experimental.preprocessing.Rescaling": "layers.Rescaling",
    "layers.experimental.preprocessing.RandomFlip": "layers.RandomFlip",
    "layers.preprocessing.normalization.Normalization": "layers.Normalization",
    "layers.preprocessing.image_preprocessing.Resizing": "layers.Resizing",
    "layers.experimental.EinsumDense": "layers.EinsumDense",
    "layers.core.Dense": "layers.Dense",
    "layers.convolutional.Conv2D": "layers.Conv2D",
    "engine.base_layer.Layer": "layers.Layer",
    "engine.keras_tensor.KerasTensor": "KerasTensor",
    "engine.training.Model": "Model",
    "mixed_precision.experimental.global_policy": "mixed_precision.global_policy",
    "experimental.CosineDecay": "optimizers.schedules.CosineDecay",
    "callbacks.experimental.BackupAndRestore": "callbacks.BackupAndRestore",
    "models.model_from_config": "saving.deserialize_keras_object",
    "optimizers.experimental.Adam": "optimizers.Adam",
    "optimizer_v2.gradient_descent.SGD": "optimizers.SGD",
    "optimizers.optimizer_v2.adam.Adam": "optimizers.Adam",
    "utils.np_utils.normalize": "utils.normalize",
    "objectives.mean_squared_error": "losses.mean_squared_error",
    "constraints.maxnorm": "constraints.MaxNorm",
    "layers.CuDNNLSTM": "layers.LSTM",
    "losses.cosine_proximity": "losses.cosine_similarity",
}


def looked_up(root, dotted):
    module, _, name = dotted.rpartition(".")
    return getattr(importlib.import_module(f"{root}.{module}" if module else root), name)


@pytest.mark.parametrize("name", MOVED)
def test_names_lead_to_those_of_keras_3(keras_2, notices, name):
    expected = looked_up("keras", MOVED[name])
    assert looked_up("keras", name) is expected
    assert looked_up("tensorflow.keras", name) is expected
    assert len(notices()) == 1


def test_the_base_class_of_lookups_is_in_its_old_place(keras_2):
    from keras.layers.preprocessing.index_lookup import IndexLookup

    assert IndexLookup.__name__ == "IndexLookup"
    assert issubclass(keras.layers.IntegerLookup, IndexLookup)


def test_attributes_of_tf_keras_lead_there_too(keras_2):
    preprocessing = tf.keras.layers.experimental.preprocessing
    assert preprocessing.Rescaling is keras.layers.Rescaling
    assert tf.keras.mixed_precision.experimental.Policy("mixed_float16").name == "mixed_float16"
    assert tf.keras.losses.mean_squared_error is keras.losses.mean_squared_error
    assert keras.losses.Reduction.SUM == "sum"
    assert tf.losses.mean_absolute_error is keras.losses.mean_absolute_error


def test_a_synchronized_norm_is_a_batch_norm(keras_2):
    from keras.layers.experimental import SyncBatchNormalization

    assert SyncBatchNormalization(momentum=0.5).synchronized


def test_a_policy_has_no_fixed_loss_scale(keras_2):
    from keras.mixed_precision import experimental

    before = keras.mixed_precision.global_policy()
    experimental.set_policy(experimental.Policy("mixed_float16", loss_scale="dynamic"))
    assert keras.mixed_precision.global_policy().name == "mixed_float16"
    keras.mixed_precision.set_global_policy(before)
    with pytest.raises(ValueError, match="Give the optimizer `loss_scale_factor=128`"):
        experimental.Policy("mixed_float16", loss_scale=128)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("utils.multi_gpu_model", "scope of an IPUStrategy of several IPUs"),
        ("utils.SidecarEvaluator", "Give `fit` the `validation_data`"),
        ("experimental.SidecarEvaluator", "Give `fit` the `validation_data`"),
        ("utils.io_utils.HDF5Matrix", "Read the file with h5py"),
        ("utils.experimental.DatasetCreator", "Give `fit` the dataset itself"),
        ("premade.WideDeepModel", "the sum of a linear part and of a deep one"),
        ("experimental.export_saved_model", "Use `model.save`"),
        ("models.experimental.SharpnessAwareMinimization", "`train_step` of a model"),
        ("wrappers.scikit_learn.KerasClassifier", "SKLearnClassifier"),
        ("estimator.model_to_estimator", "no estimators"),
        ("layers.LocallyConnected1D", "no such layer"),
        ("experimental.LinearCosineDecay", "LearningRateSchedule"),
        ("layers.experimental.preprocessing.CategoryCrossing", "HashedCrossing"),
    ],
)
def test_names_that_are_gone_raise_when_they_are_used(keras_2, name, reason):
    found = looked_up("keras", name)
    with pytest.raises(NotImplementedError, match=reason):
        found(None)


def test_every_name_is_found(keras_2):
    """Providers name places in Keras, which may move."""
    for spelling in SPELLINGS:
        for names in spelling.names.values():
            for provide in names.values():
                provide()


def test_names_and_modules_are_gone_afterwards():
    with keras_2_spellings():
        from keras.layers.experimental import preprocessing  # noqa: F401
        from tensorflow.keras import backend

        assert tf.keras.backend.set_value is backend.set_value
    ending = "keras.layers.experimental.preprocessing"  # `tf_keras` has one of its own.
    made = [name for name in sys.modules if name in (ending, f"tensorflow.{ending}")]
    assert made == []
    assert not hasattr(keras.layers, "experimental")
    assert not hasattr(tf.keras.layers, "experimental")
    assert not hasattr(keras.backend, "mean")
    assert tf.keras.backend.set_value.__module__ == "keras.src.legacy.backend"
    assert backend.set_value.__module__ == "keras.src.legacy.backend"
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("keras.layers.experimental")


def test_numpy_has_the_names_that_it_dropped(keras_2, notices):
    assert (np.int(3.5), np.float("2")) == (3, 2.0)
    assert np.zeros(2, dtype=np.object).dtype == object
    assert np.isnan(np.NaN)
    assert -np.Inf == np.NINF
    assert np.product([2, 3]) == 6
    assert np.asfarray([1, 2], dtype=np.int32).dtype == np.float64
    assert np.asscalar(np.array([4])) == 4
    np.testing.assert_array_equal(np.msort([[2, 1], [1, 3]]), [[1, 1], [2, 3]])
    notices.once("`np.int`")
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        _ = np.nothing


def test_numpy_is_stock_outside_of_scripts():
    with keras_2_spellings():
        assert np.int is int
    with pytest.raises(AttributeError, match="`np.int` was a deprecated alias"):
        _ = np.int


def test_keras_in_its_old_place_is_that_of_tensorflow(notices):
    stock = importlib.import_module("tensorflow.python.keras.layers")
    with keras_2_spellings():
        import tensorflow.python.keras.backend as backend
        from tensorflow.python import keras as old
        from tensorflow.python.keras import layers
        from tensorflow.python.keras.datasets import mnist
        from tensorflow.python.keras.engine import base_layer
        from tensorflow.python.keras.optimizer_v2.adam import Adam

        assert (old.Model, old.layers.Dense, layers.Dense) == (
            keras.Model,
            keras.layers.Dense,
            keras.layers.Dense,
        )
        assert backend.epsilon() == keras.config.epsilon()
        assert mnist.load_data is tf.keras.datasets.mnist.load_data
        assert base_layer.Layer is keras.Layer
        assert issubclass(Adam, keras.optimizers.Optimizer)
        notices.once("`tensorflow.python.keras`", "`keras.layers.core`", "`keras.optimizer_v2`")
        assert sys.modules[stock.__name__] is stock
    from tensorflow.python.keras import layers

    assert layers is stock


def test_keras_is_imported_from_the_interfaces_of_both_versions(keras_2):
    import tensorflow.compat.v1.keras.layers as imported
    from tensorflow.compat.v1.keras.layers import UpSampling2D
    from tensorflow.compat.v2.keras import Model

    assert (Model, UpSampling2D) == (keras.Model, keras.layers.UpSampling2D)
    assert imported.UpSampling2D is UpSampling2D


def test_modules_that_keras_lacks_in_its_old_place_are_those_of_tensorflow(keras_2):
    from tensorflow.python.keras.legacy_tf_layers import core

    assert core.Dense.__module__ == core.__name__
    with pytest.raises(ModuleNotFoundError, match="tensorflow.python.keras.nonsense"):
        import tensorflow.python.keras.nonsense  # noqa: F401


@pytest.mark.filterwarnings("ignore:.*is deprecated and:UserWarning")
def test_layers_and_cells_of_graphs_are_there(notices):
    with keras_2_spellings(), tf.Graph().as_default():
        import tensorflow.compat.v1 as imported

        assert imported.layers is tf.compat.v1.layers
        hidden = imported.layers.dense(tf.ones((2, 3)), 4, name="first")
        cell = tf.compat.v1.nn.rnn_cell.BasicLSTMCell(5)
        output, state = cell(hidden, cell.zero_state(2, tf.float32))
        assert (output.shape, state.h.shape) == ((2, 5), (2, 5))
        names = [variable.name for variable in tf.compat.v1.trainable_variables()]
        assert names[:2] == ["first/kernel:0", "first/bias:0"]
        with pytest.raises(AttributeError, match="layers' has no attribute 'nonsense'"):
            tf.compat.v1.layers.nonsense  # noqa: B018
    notices.once("`tf.compat.v1.layers`")
    with pytest.raises(AttributeError, match="not available with Keras 3"):
        tf.compat.v1.layers.dense  # noqa: B018


@pytest.mark.parametrize(
    ("old", "place"),
    [
        ("training.training_ops", "ops.gen_training_ops"),
        ("distribute.distribution_strategy_context", "distribute.distribute_lib"),
        ("training.tracking.data_structures", "trackable.data_structures"),
        ("training.tracking.tracking", "trackable.autotrackable"),
        ("training.saving.checkpoint_options", "checkpoint.checkpoint_options"),
        ("dtypes", "framework.dtypes"),
    ],
)
def test_modules_that_moved_are_in_their_old_places(old, place):
    python = "tensorflow.python"
    package, _, name = f"{python}.{old}".rpartition(".")
    loaded = set(sys.modules)
    with keras_2_spellings():
        module = importlib.import_module(f"{python}.{place}")
        assert importlib.import_module(f"{python}.{old}") is module
        assert getattr(importlib.import_module(package), name) is module
    assert not [name for name in set(sys.modules) - loaded if name.startswith(f"{python}.{old}")]
    assert module.__name__ == f"{python}.{place}"
    with pytest.raises(ModuleNotFoundError, match="tensorflow.python"):
        importlib.import_module(f"{python}.{old}")


def test_classes_of_the_graph_are_in_their_old_places(keras_2):
    from keras.engine.keras_tensor import KerasTensor, SparseKerasTensor
    from keras.layers.core import SlicingOpLambda, TFOpLambda

    dense, sparse = keras.Input((4,)), keras.Input((4,), sparse=True)
    assert [isinstance(x, SparseKerasTensor) for x in (dense, sparse, X)] == [False, True, False]
    assert isinstance(dense, KerasTensor)
    model = keras.Model(dense, tf.square(dense)[:, :2])
    assert [type(one) for one in model.operations[1:]] == [TFOpLambda, SlicingOpLambda]


def test_classes_become_rows_of_a_dtype(keras_2):
    from keras.utils import to_categorical
    from keras.utils.np_utils import to_categorical as of_np_utils

    assert of_np_utils is to_categorical is tf.keras.utils.to_categorical
    rows = to_categorical(y=[0, 2])
    assert rows.dtype == "float32"
    assert rows.tolist() == [[1, 0, 0], [0, 0, 1]]
    assert to_categorical([0, 2], 4, dtype="int8").dtype == "int8"
    assert to_categorical([0, 2], 4).shape == (2, 4)


def test_sources_of_keras_keep_their_own_names(keras_2):
    import keras.src.layers
    from keras.src.engine import training

    assert training.Model is keras.Model
    assert not hasattr(keras.src.layers, "DenseFeatures")


def test_networks_are_built_of_given_blocks(keras_2, notices):
    from tensorflow.python.keras.applications import resnet

    def block(x):
        return keras.layers.Conv2D(4, 1, name="block")(x)

    arguments = (block, False, False, "small", True, None, None, (32, 32, 3), None, 5)
    model = resnet.ResNet(*arguments, layers=tf.keras.layers)
    assert (model.name, model.output_shape) == ("small", (None, 5))
    assert model.get_layer("block").output.shape == (None, 8, 8, 4)
    assert any("`keras.applications.resnet.ResNet`" in notice for notice in notices())
