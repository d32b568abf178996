"""Batch normalization of `v1.layers` has the numbers of TensorFlow 1."""

import numpy as np
import pytest
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ipu_tf.compat.keras2.context import keras_2_spellings

pytestmark = pytest.mark.filterwarnings("ignore:.*is deprecated and:UserWarning")
VALUES = np.random.default_rng(0).normal(1.0, 2.0, (4, 3, 3, 2)).astype("float32")
SUM_UP = v1.GraphKeys.UPDATE_OPS


def run(values, axis=-1, fused=None, training=True, times=1, dtype=tf.float32, **kwargs):
    """The normalized values of the last of some updates, and the variables after it."""
    with keras_2_spellings(), tf.Graph().as_default(), v1.Session() as session:
        is_training = v1.placeholder_with_default(training, [])
        given = training if kwargs.pop("is_known", True) else is_training
        inputs = tf.cast(tf.constant(values), dtype)
        result = v1.layers.batch_normalization(
            inputs, axis, 0.9, fused=fused, training=given, **kwargs
        )
        updates = v1.get_collection(SUM_UP)
        assert len(updates) == (0 if given is False else 2)
        session.run(v1.global_variables_initializer())
        assert result.dtype == dtype
        for _ in range(times):
            found = session.run([result, *updates])[0]
        names = [variable.name for variable in v1.global_variables()]
        return found, dict(zip(names, session.run(v1.global_variables()), strict=True))


def expected(values, axis, unbiased):
    axes = tuple(i for i in range(values.ndim) if i != axis % values.ndim)
    mean, variance = values.mean(axes, keepdims=True), values.var(axes, keepdims=True)
    moving = values.var(axes, ddof=1 if unbiased else 0)
    return (values - mean) / np.sqrt(variance + 1e-3), mean.ravel(), moving


@pytest.mark.slow
@pytest.mark.fast_cells(1)
@pytest.mark.parametrize(
    ("shape", "axis", "fused", "unbiased", "is_known"),
    [
        ((4, 3, 3, 2), 3, None, True, False),
        ((4, 3, 3, 2), -1, False, False, True),
        ((4, 3, 3, 2), 1, None, False, True),
        ((36, 2), -1, True, False, True),
        ((4, 3, 3, 2), -1, None, True, True),
    ],
)
def test_training_normalizes_with_the_moments_of_the_batch(shape, axis, fused, unbiased, is_known):
    values = VALUES.reshape(shape)
    found, variables = run(values, axis, fused, times=2, is_known=is_known)
    normalized, mean, moving = expected(values, axis, unbiased)
    np.testing.assert_allclose(found, normalized, atol=2e-5)
    prefix = "batch_normalization"
    assert list(variables) == [
        f"{prefix}/{name}:0" for name in ("gamma", "beta", "moving_mean", "moving_variance")
    ]
    np.testing.assert_allclose(variables[f"{prefix}/moving_mean:0"], 0.19 * mean, rtol=1e-5)
    np.testing.assert_allclose(
        variables[f"{prefix}/moving_variance:0"], 0.81 + 0.19 * moving, rtol=1e-5
    )


@pytest.mark.fast_cells(1)
@pytest.mark.parametrize("is_known", [True, False])
def test_inference_normalizes_with_the_moving_moments(is_known):
    two = v1.constant_initializer(2.0)
    found, variables = run(
        VALUES,
        training=False,
        is_known=is_known,
        name="own",
        moving_mean_initializer=two,
        scale=False,
    )
    np.testing.assert_allclose(found, (VALUES - 2) / np.sqrt(1.001), rtol=1e-5, atol=1e-6)
    assert list(variables) == [
        f"own/{name}:0" for name in ("beta", "moving_mean", "moving_variance")
    ]
    assert (variables["own/moving_mean:0"] == 2).all()


@pytest.mark.slow
def test_halves_have_variables_of_float32():
    found, variables = run(VALUES, dtype=tf.float16)
    np.testing.assert_allclose(found, expected(VALUES, -1, True)[0], atol=4e-3)
    assert {value.dtype for value in variables.values()} == {np.dtype("float32")}


def test_what_it_lacks_is_refused():
    with pytest.raises(NotImplementedError, match="batch_normalization: `renorm` does not exist"):
        run(VALUES, renorm=True)
    with pytest.raises(ValueError, match=r"normalize along one axis. Received: axis=\[1, 2\]"):
        run(VALUES, axis=[1, 2])
