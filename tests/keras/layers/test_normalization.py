"""Group, instance and layer normalization against NumPy and Keras."""

import logging

import keras
import numpy as np
import pytest

from ipu_tf.keras import layers
from ipu_tf.keras.layers import GroupNorm, InstanceNorm, LayerNorm

RANDOM = np.random.default_rng(8)
SHAPES = [(3, 8), (3, 5, 8), (2, 4, 5, 8)]


def inputs(shape, channels_axis=-1):
    x = RANDOM.normal(2.0, 3.0, size=shape).astype("float32")
    return np.moveaxis(x, -1, channels_axis)


def numpy_group_norm(x, group_of_channel, channels_axis, epsilon=1e-3):
    """Every group of every sample by itself."""
    y = np.moveaxis(x.astype("float64"), channels_axis, 1)
    for sample in y:
        for group in set(group_of_channel):
            mine = [c for c, g in enumerate(group_of_channel) if g == group]
            values = sample[mine]
            sample[mine] = (values - values.mean()) / np.sqrt(values.var() + epsilon)
    return np.moveaxis(y, 1, channels_axis)


@pytest.mark.fast_cells(12)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("channels_axis", [-1, 1])
@pytest.mark.parametrize("strided", [True, False])
@pytest.mark.parametrize("groups", [1, 2, 8])
def test_group_norm(shape, channels_axis, strided, groups):
    x = inputs(shape, channels_axis)
    layer = GroupNorm(groups, channels_axis, strided_channel_grouping=strided)
    group_of_channel = [c % groups if strided else c // (8 // groups) for c in range(8)]
    expected = numpy_group_norm(x, group_of_channel, channels_axis)
    np.testing.assert_allclose(layer(x), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("shape", SHAPES)
def test_without_strides_it_is_keras_group_norm(shape):
    x = inputs(shape)
    weights = RANDOM.normal(size=(2, 8)).astype("float32")
    ours, stock = GroupNorm(2, strided_channel_grouping=False), keras.layers.GroupNormalization(2)
    for layer in (ours, stock):
        layer.build(shape)
        layer.set_weights(weights)
    np.testing.assert_allclose(ours(x), stock(x), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("shape", SHAPES[1:])
@pytest.mark.parametrize("channels_axis", [-1, 1])
def test_instance_norm(shape, channels_axis):
    x = inputs(shape, channels_axis)
    layer = InstanceNorm(channels_axis)
    expected = numpy_group_norm(x, range(8), channels_axis)
    np.testing.assert_allclose(layer(x), expected, rtol=1e-4, atol=1e-5)
    assert layer.groups == 8


@pytest.mark.parametrize(
    ("axis", "of_keras"), [(-1, -1), (1, 1), ([1, 2], [1, 2]), ((-1, 1), [1, 2])]
)
def test_layer_norm_is_that_of_keras(axis, of_keras):
    x = inputs((3, 5, 8))
    kwargs = {"gamma_initializer": "random_normal", "beta_initializer": "ones"}
    ours, stock = LayerNorm(axis, **kwargs), keras.layers.LayerNormalization(of_keras, **kwargs)
    ours(x), stock(x)
    stock.set_weights(ours.get_weights())
    np.testing.assert_allclose(ours(x), stock(x), rtol=1e-5, atol=1e-6)


def test_gamma_and_beta_start_at_one_and_zero():
    layer = GroupNorm()
    layer.build((None, 4))
    np.testing.assert_array_equal(layer.gamma, [1, 1, 1, 1])
    np.testing.assert_array_equal(layer.beta, [0, 0, 0, 0])


@pytest.mark.parametrize("kind", [GroupNorm, InstanceNorm, LayerNorm])
def test_weights_that_are_left_out(kind):
    layer = kind(center=False, scale=False)
    layer(inputs((3, 5, 8)))
    assert layer.weights == []
    frozen = kind(trainable=False)
    frozen(inputs((3, 5, 8)))
    assert len(frozen.non_trainable_weights) == 2


@pytest.mark.parametrize("kind", [GroupNorm, InstanceNorm, LayerNorm])
def test_float16_is_normalized_in_float32(kind):
    """Values whose squares no float16 holds."""
    x = np.float16([[[1000, -1000], [3000, -3000]]])
    outputs = kind(dtype="mixed_float16")(x)
    reference = kind()(x.astype("float32"))
    assert outputs.dtype == "float16"
    np.testing.assert_allclose(outputs, reference, rtol=2e-3)


@pytest.mark.parametrize(("axis", "rank"), [(2, 4), (4, 4), (-2, 4), (0, 2)])
def test_the_axis_of_the_channels_is_checked(axis, rank):
    message = rf"'norm': the channels are axis 1 or the last axis. Received: channels_axis={axis}"
    with pytest.raises(ValueError, match=message):
        GroupNorm(channels_axis=axis, name="norm")(np.ones((4,) * rank, "float32"))


@pytest.mark.parametrize("groups", [0, 3, 16])
def test_groups_divide_the_channels(groups):
    with pytest.raises(ValueError, match=f"must divide .* Received: groups={groups}, 8 channels"):
        GroupNorm(groups)(inputs((3, 8)))


@pytest.mark.parametrize("kind", [GroupNorm, InstanceNorm])
def test_the_number_of_channels_is_static(kind):
    with pytest.raises(ValueError, match=r"must be static. Received: .*shape \(None, 4, None\)"):
        kind()(keras.Input((4, None)))


@pytest.mark.parametrize("axis", [3, -4, [1, -2], [0, 0]])
def test_the_axes_of_layer_norm_are_checked(axis):
    message = r"'norm': every axis must be one of the inputs, named once. Received: axis=\["
    with pytest.raises(ValueError, match=message):
        LayerNorm(axis, name="norm")(inputs((3, 5, 8)))


def test_the_type_of_the_axis_is_checked():
    with pytest.raises(ValueError, match="expected an int or a list.*Received: axis='last'"):
        LayerNorm("last")


@pytest.mark.parametrize(
    "argument", ["beta_regularizer", "gamma_regularizer", "beta_constraint", "gamma_constraint"]
)
def test_arguments_without_support(argument):
    message = f"layers.LayerNormalization does not support __init__ argument {argument}"
    with pytest.raises(NotImplementedError, match=message):
        LayerNorm(**{argument: "l2"})


@pytest.mark.parametrize("kind", [InstanceNorm, LayerNorm])
def test_a_small_epsilon_is_warned_of(kind, caplog):
    with caplog.at_level(logging.WARNING):
        kind(epsilon=1.53e-5)
        assert caplog.text == ""
        kind(epsilon=1e-6, name="norm")
    assert "layer 'norm': epsilon=1e-06 is below 1.53e-05" in caplog.text


def test_both_spellings():
    assert layers.GroupNorm is layers.GroupNormalization
    assert layers.InstanceNorm is layers.InstanceNormalization
    assert layers.LayerNorm is layers.LayerNormalization
