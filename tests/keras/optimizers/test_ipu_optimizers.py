"""Adam, LAMB and SGD with slots of chosen types, against stock Keras and NumPy."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from ipu_tf.keras.optimizers import (
    AdamIpuOptimizer,
    IpuOptimizerBase,
    LAMBIpuOptimizer,
    SGDIpuOptimizer,
)
from tests.keras.optimizers.parameters import VARIABLE, check_equal, gradients, trained, variables

SLOTS = {AdamIpuOptimizer: ["m", "v"], LAMBIpuOptimizer: ["m", "v"], SGDIpuOptimizer: ["momentum"]}
MAKERS = {
    "adam": lambda **kwargs: AdamIpuOptimizer(0.1, amsgrad=True, **kwargs),
    "lamb": lambda **kwargs: LAMBIpuOptimizer(0.1, weight_decay_rate=0.1, **kwargs),
    "sgd": lambda **kwargs: SGDIpuOptimizer(0.1, momentum=0.9, **kwargs),
}


@pytest.fixture(params=MAKERS.values(), ids=MAKERS.keys())
def make(request):
    return request.param


@pytest.mark.fast_cells(1)
@pytest.mark.parametrize(
    ("ours", "stock"),
    [
        # Keras adds epsilon before the correction: without it, they are one.
        (AdamIpuOptimizer(0.1, epsilon=0.0), keras.optimizers.Adam(0.1, epsilon=0.0)),
        (AdamIpuOptimizer(0.01), keras.optimizers.Adam(0.01)),
        (LAMBIpuOptimizer(0.1), keras.optimizers.Lamb(0.1, epsilon=1e-6)),
        (SGDIpuOptimizer(0.1), keras.optimizers.SGD(0.1)),
        (SGDIpuOptimizer(0.1, momentum=0.9), keras.optimizers.SGD(0.1, momentum=0.9)),
        (
            SGDIpuOptimizer(0.1, momentum=0.9, nesterov=True),
            keras.optimizers.SGD(0.1, momentum=0.9, nesterov=True),
        ),
        (
            SGDIpuOptimizer(0.1, clipnorm=0.5, weight_decay=0.1),
            keras.optimizers.SGD(0.1, clipnorm=0.5, weight_decay=0.1),
        ),
        (
            AdamIpuOptimizer(0.01, use_ema=True, gradient_accumulation_steps=2),
            keras.optimizers.Adam(0.01, use_ema=True, gradient_accumulation_steps=2),
        ),
    ],
)
def test_steps_equal_stock_keras(ours, stock):
    check_equal(trained(ours), trained(stock), rtol=1e-6)


def adam_step(w, g, m, v, v_hat, t, *, epsilon=1e-3, debiasing=True, amsgrad=False):
    m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g**2
    # One minus a power near one keeps few digits in float32; the rest is exact here.
    first_bias, second_bias = 1 - np.power(np.float32([0.9, 0.999]), np.float32(t))
    first, second = (m / first_bias, v / second_bias) if debiasing else (m, v)
    if amsgrad:
        second = v_hat = np.maximum(v_hat, second)
    return first / (np.sqrt(second) + epsilon), m, v, v_hat


@pytest.mark.parametrize("debiasing", [True, False])
@pytest.mark.parametrize("amsgrad", [True, False])
def test_adam_is_its_formula(debiasing, amsgrad):
    optimizer = AdamIpuOptimizer(0.1, epsilon=1e-3, debiasing=debiasing, amsgrad=amsgrad)
    w, m, v, v_hat = variables()[0].numpy().astype("float64"), 0.0, 0.0, 0.0
    expected = []
    for t, (g, _) in enumerate(gradients(5), start=1):
        g = g.numpy().astype("float64")
        step, m, v, v_hat = adam_step(w, g, m, v, v_hat, t, debiasing=debiasing, amsgrad=amsgrad)
        w = w - 0.1 * step
        expected.append(w)
    ours = [kernel for kernel, _ in trained(optimizer)]
    np.testing.assert_allclose(ours, expected, rtol=2e-6, atol=2e-6)


@pytest.mark.fast_cells(2)
@pytest.mark.parametrize("debiasing", [True, False])
@pytest.mark.parametrize("clip", [None, 0.5])
def test_lamb_is_its_formula(debiasing, clip):
    optimizer = LAMBIpuOptimizer(
        0.1, epsilon=1e-3, weight_decay_rate=0.2, debiasing=debiasing, weight_norm_clip=clip
    )
    w, m, v = variables()[0].numpy().astype("float64"), 0.0, 0.0
    expected = []
    for t, (g, _) in enumerate(gradients(5), start=1):
        g = g.numpy().astype("float64")
        step, m, v, _ = adam_step(w, g, m, v, 0.0, t, debiasing=debiasing)
        step += 0.2 * w
        norm = np.linalg.norm(w) if clip is None else min(np.linalg.norm(w), clip)
        w = w - 0.1 * norm / np.linalg.norm(step) * step
        expected.append(w)
    ours = [kernel for kernel, _ in trained(optimizer)]
    np.testing.assert_allclose(ours, expected, rtol=2e-6, atol=2e-6)


def test_lamb_leaves_out_decay_and_adaptation_by_pattern():
    """Without either, LAMB steps as Adam does."""
    optimizer = LAMBIpuOptimizer(
        0.1,
        epsilon=1e-7,
        weight_decay_rate=0.3,
        exclude_from_weight_decay=["bi.s"],
        exclude_from_layer_adaptation=["bias$"],
    )
    adam = trained(AdamIpuOptimizer(0.1))
    for (kernel, bias), (adam_kernel, adam_bias) in zip(trained(optimizer), adam, strict=True):
        np.testing.assert_allclose(bias, adam_bias, rtol=1e-6)
        assert np.abs(kernel - adam_kernel).max() > 1e-3


def test_lamb_of_zero_weights_takes_the_plain_step():
    weights = VARIABLE(np.zeros(2, "float32"))
    LAMBIpuOptimizer(0.1).apply_gradients([(tf.constant([1.0, -1.0]), weights)])
    np.testing.assert_allclose(weights, [-0.1, 0.1], rtol=1e-5)


@pytest.mark.parametrize("variable_dtype", ["float16", "float32"])
@pytest.mark.parametrize("slot_dtype", [None, tf.float16, "float32", np.float16])
def test_slots_have_the_types_asked_for(variable_dtype, slot_dtype):
    expected = variable_dtype if slot_dtype is None else tf.as_dtype(slot_dtype)
    weights = variables(variable_dtype)
    for optimizer in (
        AdamIpuOptimizer(m_dtype=slot_dtype, v_dtype=slot_dtype),
        LAMBIpuOptimizer(m_dtype=slot_dtype, v_dtype=slot_dtype),
        SGDIpuOptimizer(momentum=0.9, momentum_accum_dtype=slot_dtype),
    ):
        optimizer.build(weights)
        names = SLOTS[type(optimizer)]
        assert optimizer.get_slot_names() == names
        for variable in weights:
            for name in names:
                slot = optimizer.get_slot(variable, name)
                assert tf.as_dtype(slot.dtype) == tf.as_dtype(expected)
                assert slot.shape == variable.shape


def test_each_slot_has_its_own_type():
    optimizer = AdamIpuOptimizer(
        amsgrad=True, m_dtype=tf.float16, v_dtype=tf.float32, vhat_dtype=tf.float16
    )
    weights = variables()
    optimizer.build(weights)
    types = [optimizer.get_slot(weights[0], name).dtype for name in ("m", "v", "vhat")]
    assert types == ["float16", "float32", "float16"]


def test_the_update_is_computed_in_the_precision_asked_for():
    """A step of 1e-4 of a momentum of 1 is lost in float16 and kept in float32."""
    weights = VARIABLE(np.zeros(1, "float32"))
    steps = {}
    for precision in (tf.float16, tf.float32):
        optimizer = SGDIpuOptimizer(1.0, momentum=1.0, optimizer_compute_precisions=(precision,))
        for gradient in (1.0, 1e-4):
            optimizer.apply_gradients([(tf.constant([gradient]), weights)])
        steps[precision] = float(optimizer.get_slot(weights, "momentum").numpy()[0])
    assert steps == {tf.float16: -1.0, tf.float32: pytest.approx(-1.0001, rel=1e-7)}


@pytest.mark.fast_cells(2)
@pytest.mark.parametrize("slot_dtype", ["float16", "float32"])
@pytest.mark.parametrize("precision", ["float16", "float32"])
@pytest.mark.parametrize("variable_dtype", ["float16", "float32"])
def test_all_precisions_go_together(make, slot_dtype, precision, variable_dtype):
    stages = 2 if make is MAKERS["lamb"] else 1
    slots = ["momentum_accum_dtype"] if make is MAKERS["sgd"] else ["m_dtype", "v_dtype"]
    optimizer = make(
        optimizer_compute_precisions=(precision,) * stages, **dict.fromkeys(slots, slot_dtype)
    )
    reference = trained(make())
    for ours, exact in zip(trained(optimizer, dtype=variable_dtype), reference, strict=True):
        assert ours[0].dtype == variable_dtype
        np.testing.assert_allclose(ours[0], exact[0], atol=0.03)


def test_the_gradient_of_an_embedding_is_a_dense_one(make):
    weights = VARIABLE(np.ones((4, 2), "float32"))
    same = VARIABLE(np.ones((4, 2), "float32"))
    values, rows = tf.constant([[1.0, 2.0], [0.5, 1.0], [3.0, 1.0]]), tf.constant([0, 0, 2])
    sparse = tf.IndexedSlices(values, rows, dense_shape=tf.constant([4, 2]))
    make().apply_gradients([(sparse, weights)])
    make().apply_gradients([(tf.convert_to_tensor(sparse), same)])
    np.testing.assert_array_equal(weights, same)


def test_a_schedule_is_followed():
    schedule = keras.optimizers.schedules.InverseTimeDecay(0.1, decay_steps=1, decay_rate=0.5)
    ours, stock = SGDIpuOptimizer(schedule), keras.optimizers.SGD(schedule)
    check_equal(trained(ours), trained(stock), rtol=1e-7)


@pytest.mark.fast_cells(1)
def test_config_round_trip(make):
    optimizer = make(
        outline_apply_gradients=True, outline_apply_gradients_kwargs={"unique_sharding": True}
    )
    config = optimizer.get_config()
    copied = keras.optimizers.deserialize(keras.optimizers.serialize(optimizer))
    assert type(copied) is type(optimizer)
    assert copied.get_config() == config
    assert copied.outline_apply_gradients_kwargs == {"unique_sharding": True}
    check_equal(trained(copied), trained(optimizer), rtol=1e-7)


def test_a_slot_of_ones_own():
    class Counting(IpuOptimizerBase):
        def build(self, variables):
            super().build(variables)
            for variable in variables:
                self.add_slot_with_dtype(variable, "count", tf.float16, initializer="ones")

        def update_step(self, gradient, variable, learning_rate):
            del gradient, learning_rate
            self.assign_add(self.get_slot(variable, "count"), tf.ones_like(variable))

    optimizer = Counting("counting", learning_rate=0.1)
    weights = variables()
    optimizer.apply_gradients(zip(gradients(1)[0], weights, strict=True))
    slot = optimizer.get_slot(weights[1], "count")
    assert slot.dtype == "float16"
    np.testing.assert_array_equal(slot, [2, 2, 2])
    assert optimizer.add_slot(weights[1], "count") is slot
    assert optimizer.add_slot(weights[1], "other").dtype == "float32"
    assert optimizer.add_slot(weights[1], "scalar", shape=()).shape == ()


@pytest.mark.parametrize("wrong", ["int32", tf.float64, "no type"])
def test_types_that_the_ipu_does_not_have(wrong):
    for make in (
        lambda: AdamIpuOptimizer(m_dtype=wrong),
        lambda: LAMBIpuOptimizer(v_dtype=wrong),
        lambda: SGDIpuOptimizer(momentum_accum_dtype=wrong),
        lambda: SGDIpuOptimizer(optimizer_compute_precisions=(wrong,)),
    ):
        with pytest.raises(ValueError, match=r"must be tf.float16 or tf.float32. Received: .+"):
            make()


def test_the_number_of_precisions_is_checked():
    with pytest.raises(ValueError, match="computes in 2 stage.*Received: .*float32"):
        LAMBIpuOptimizer(optimizer_compute_precisions=(tf.float32,))
    with pytest.raises(ValueError, match="AdamIpuOptimizer computes in 1 stage"):
        AdamIpuOptimizer(optimizer_compute_precisions=(tf.float32, tf.float32))


def test_a_slot_that_there_is_not():
    optimizer = SGDIpuOptimizer(momentum=0.5)
    weights = variables()
    with pytest.raises(ValueError, match=r"'SGD' has no slot 'momentum' .*'kernel'.*are \[\]"):
        optimizer.get_slot(weights[0], "momentum")
    optimizer.build(weights)
    with pytest.raises(ValueError, match=r"has no slot 'm' .*are \['momentum'\]"):
        optimizer.get_slot(weights[0], "m")
