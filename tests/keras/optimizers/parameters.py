"""Variables and gradients to step optimizers with."""

import keras
import numpy as np
import tensorflow as tf

VARIABLE = getattr(keras, "Variable", tf.Variable)
"""The class of the weights of a Keras: Keras 2 has none of its own."""

SHAPES = {"kernel": (4, 3), "bias": (3,)}


def variables(dtype="float32"):
    random = np.random.default_rng(5)
    return [
        VARIABLE(random.normal(size=shape), name=name, dtype=dtype)
        for name, shape in SHAPES.items()
    ]


def gradients(steps, dtype="float32"):
    random = np.random.default_rng(6)
    return [
        [tf.constant(random.normal(size=shape), dtype) for shape in SHAPES.values()]
        for _ in range(steps)
    ]


def trained(optimizer, steps=5, dtype="float32"):
    """The variables after each of some steps."""
    parameters = variables(dtype)
    history = []
    for grads in gradients(steps, dtype):
        optimizer.apply_gradients(zip(grads, parameters, strict=True))
        history.append([variable.numpy() for variable in parameters])
    return history


def check_equal(history, expected, rtol):
    for step, (ours, theirs) in enumerate(zip(history, expected, strict=True)):
        for name, value, reference in zip(SHAPES, ours, theirs, strict=True):
            np.testing.assert_allclose(
                value, reference, rtol=rtol, atol=rtol, err_msg=f"{name} after step {step + 1}"
            )
