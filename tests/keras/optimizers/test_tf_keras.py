"""The optimizers for tf_keras compute what those for Keras 3 do, in the classes of Keras 2."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from ipu_tf.keras import optimizers as ours
from tests.keras import tf_keras_training as training
from tests.keras.optimizers.parameters import gradients, trained, variables

tf_keras = pytest.importorskip("tf_keras")
optimizers = pytest.importorskip("ipu_tf.keras.tf_keras.optimizers")
TfKerasOptimizer = pytest.importorskip("ipu_tf.keras.tf_keras.optimizer_adapter").TfKerasOptimizer
legacy = tf_keras.optimizers.legacy

CASES = [
    ("AdamIpuOptimizer", {"amsgrad": True}, legacy.Adam),
    ("AdamIpuOptimizer", {"m_dtype": "float16", "debiasing": False}, legacy.Adam),
    ("LAMBIpuOptimizer", {"weight_decay_rate": 0.1, "v_dtype": tf.float16}, legacy.Optimizer),
    ("SGDIpuOptimizer", {}, legacy.SGD),
    ("SGDIpuOptimizer", {"momentum": 0.9, "nesterov": True}, legacy.SGD),
]


def steps(optimizer, count=5):
    """The values of the variables after each step."""
    weights = [tf.Variable(variable.numpy()) for variable in variables()]
    values = []
    for of_step in gradients(count):
        optimizer.apply_gradients(zip(of_step, weights, strict=True))
        values.append([weight.numpy() for weight in weights])
    return values


@pytest.mark.parametrize(("name", "arguments", "base"), CASES)
def test_steps_are_those_of_keras_3(name, arguments, base):
    made = getattr(optimizers, name)(0.1, **arguments)
    assert isinstance(made, base)
    assert isinstance(made, optimizers.IpuOptimizerBase)
    expected = trained(getattr(ours, name)(0.1, **arguments))
    for found, wanted in zip(steps(made), expected, strict=True):
        for one, other in zip(found, wanted, strict=True):
            # Keras 2 keeps the decays as float32.
            np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)
    again = type(made).from_config(made.get_config())
    np.testing.assert_array_equal(steps(again)[-1][0], steps(type(made)(0.1, **arguments))[-1][0])


def test_slots_have_the_dtypes_that_were_chosen():
    made = optimizers.AdamIpuOptimizer(m_dtype=tf.float16)
    weight = tf.Variable([1.0, 2.0])
    made.apply_gradients([(tf.constant([1.0, 1.0]), weight)])
    assert made.get_slot_names() == ["m", "v"]
    assert made.get_slot(weight, "m").dtype == tf.float16
    assert made.get_slot(weight, "v").dtype == tf.float32
    assert made.add_slot_with_dtype(weight, "more", tf.float16).dtype == tf.float16


def test_rows_of_a_table_are_updated():
    weight = tf.Variable(np.ones((4, 2), "float32"))
    rows = tf.IndexedSlices(tf.ones((2, 2)), tf.constant([1, 3]), tf.constant([4, 2]))
    optimizers.SGDIpuOptimizer(0.5).apply_gradients([(rows, weight)])
    np.testing.assert_array_equal(weight.numpy()[:, 0], [1, 0.5, 1, 0.5])


def test_a_script_s_optimizer_updates_by_the_methods_of_keras_2():
    class Halving(optimizers.IpuOptimizerBase):
        def __init__(self, name="Halving", **kwargs):
            super().__init__(name, **kwargs)
            self._set_hyper("learning_rate", 0.5)

        def _create_slots(self, var_list):
            for var in var_list:
                self.add_slot(var, "count", "zeros")

        def _resource_apply_dense(self, grad, var, apply_state=None):
            rate = apply_state[(var.device, var.dtype.base_dtype)]["lr_t"]
            return tf.group(
                self.get_slot(var, "count").assign_add(tf.ones_like(var)),
                var.assign_sub(rate * grad),
            )

        def get_config(self):
            return super().get_config()

    made, weight = Halving(), tf.Variable([4.0])
    for _ in range(2):
        made.apply_gradients([(tf.constant([2.0]), weight)])
    assert (float(weight[0]), float(made.get_slot(weight, "count")[0])) == (2.0, 2.0)
    assert made.get_config()["optimizer_compute_precisions"] == ["float32"]


def test_a_checkpoint_restores_the_slots(tmp_path):
    weight = tf.Variable([1.0, 2.0])
    made = optimizers.AdamIpuOptimizer(m_dtype=tf.float16)
    made.apply_gradients([(tf.constant([1.0, 1.0]), weight)])
    path = tf.train.Checkpoint(weight=weight, optimizer=made).save(tmp_path / "file")
    other, again = tf.Variable([0.0, 0.0]), optimizers.AdamIpuOptimizer(m_dtype=tf.float16)
    tf.train.Checkpoint(weight=other, optimizer=again).restore(path)
    again.apply_gradients([(tf.constant([0.0, 0.0]), other)])
    made.apply_gradients([(tf.constant([0.0, 0.0]), weight)])
    np.testing.assert_array_equal(weight, other)
    np.testing.assert_array_equal(made.get_slot(weight, "m"), again.get_slot(other, "m"))


def test_the_loss_scale_is_that_of_keras_3():
    settings = {"update_frequency": 2, "initial_loss_scaling_factor": 16, "increase_factor": 4}
    stock = ours.ALSOptimizer(keras.optimizers.SGD(0.5), **settings)
    made = optimizers.ALSOptimizer(opt=legacy.SGD(0.5), **settings)
    weights = keras.Variable(np.zeros(3), dtype="float16"), tf.Variable(np.zeros(3, "float16"))
    for values in ([1.0, 10000.0, 2.0], [1.0, 1.0, 1.0], [1.0, 1.0, 0.0]):
        for optimizer, weight in zip((stock, made), weights, strict=True):
            optimizer.apply_gradients([(tf.constant(values, tf.float16), weight)])
        for name in ("loss_scaling_factor", "histogram", "update_counter"):
            np.testing.assert_array_equal(getattr(made, name), getattr(stock, name), err_msg=name)
        np.testing.assert_array_equal(*[weight.numpy() for weight in weights])
    assert (float(made.lr), int(made.iterations)) == (0.5, 3)
    assert len(made.variables()) == len(made.weights) == 4 + 1
    made.learning_rate = 0.25
    again = optimizers.ALSOptimizer.from_config(made.get_config())
    assert (again.update_frequency, float(again.inner_optimizer.lr)) == (2, 0.25)
    assert isinstance(again, tf_keras.mixed_precision.LossScaleOptimizer)
    with pytest.raises(ValueError, match="cannot be set any more"):
        made.update_frequency = 3


def test_minimize_scales_the_loss_and_applies_it_unscaled():
    made = optimizers.ALSOptimizer(legacy.SGD(0.5), initial_loss_scaling_factor=8)
    weight = tf.Variable([1.0])
    with tf.GradientTape() as tape:
        loss = 3 * weight[0]
    made.minimize(loss, [weight], tape=tape)
    assert float(weight[0]) == 1 - 0.5 * 3
    assert float(made.get_scaled_loss(tf.constant(2.0))) == 16


@pytest.mark.slow
def test_optimizers_train_models_of_the_scope_as_in_stock_tf_keras():
    def equal(make, stock_make=None):
        how = {"batch_size": 8, "epochs": 2, "shuffle": False}
        found = training.trained(training.strategy_of(), training.functional, make, steps=6, **how)
        stock = training.trained(None, training.functional, stock_make or make, **how)
        training.check_equal(found, stock)

    equal(lambda: optimizers.AdamIpuOptimizer(0.05, m_dtype=tf.float16))
    equal(
        lambda: optimizers.ALSOptimizer(legacy.SGD(0.1), initial_loss_scaling_factor=64),
        lambda: legacy.SGD(0.1),
    )


def test_optimizers_of_scripts_get_a_list_of_pairs():
    class Backwards(tf_keras.optimizers.SGD):
        def apply_gradients(self, grads_and_vars):
            return super().apply_gradients(reversed(grads_and_vars))

    weight = tf.Variable(1.0)
    TfKerasOptimizer(Backwards(0.5)).apply(zip([tf.constant(1.0)], [weight], strict=True))
    assert weight.numpy() == 0.5
