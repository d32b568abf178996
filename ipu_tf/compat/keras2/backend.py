"""`keras.backend` as Keras 2 had it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from ipu_tf.compat.keras2.names import absent, given, of_both
from ipu_tf.compat.spellings.spelling import Spelling
from ipu_tf.internals.keras import reset_names
from ipu_tf.internals.keras_layers import training_of_call

_phase: list[int] = [0]
"""The phases that were set, the innermost last."""


def learning_phase() -> Any:
    """Returns 1 in training, else 0: that of the layer that is being called, or the one set."""
    training = training_of_call()
    return _phase[-1] if training is None else int(training)


def set_learning_phase(value: int) -> None:
    """Sets the phase outside of layers."""
    if value not in (0, 1):
        raise ValueError(f"The learning phase is 0 or 1. Received: {value!r}.")
    _phase[-1] = int(value)


@contextlib.contextmanager
def learning_phase_scope(value: int) -> Iterator[None]:
    """Sets the phase outside of layers for a while."""
    _phase.append(_phase[-1])
    try:
        set_learning_phase(value)
        yield
    finally:
        _phase.pop()


def in_train_phase(x: Any, alt: Any, training: Any = None) -> Any:
    """Returns `x` in training, else `alt`; both may be functions without arguments."""
    phase = learning_phase() if training is None else training
    if tf.is_tensor(phase):
        return tf.cond(tf.cast(phase, tf.bool), lambda: _value(x), lambda: _value(alt))
    return _value(x if phase else alt)


def in_test_phase(x: Any, alt: Any, training: Any = None) -> Any:
    """Returns `alt` in training, else `x`."""
    return in_train_phase(alt, x, training)


def function(inputs: Any, outputs: Any, updates: Any = None, **kwargs: Any) -> Callable[..., Any]:
    """Returns a function of arrays that computes symbolic tensors from others.

    Args:
        inputs: A list of symbolic tensors, `learning_phase()` may be among them: the function then
            takes whether layers train.
        outputs: Symbolic tensors computed from them.
        updates: None or empty.
        **kwargs: A `name`.

    Raises:
        ValueError: There are updates.
    """
    if updates:
        raise ValueError(
            "`keras.backend.function` computes outputs from inputs alone: Keras 3 has no "
            f"`updates`. Received: updates={updates!r}. Assign the variables in a layer."
        )
    listed = list(inputs) if isinstance(inputs, list | tuple) else [inputs]
    symbolic = [tensor for tensor in listed if _is_symbolic(tensor)]
    flat_outputs = keras.tree.flatten(outputs)
    computed = keras.Model(symbolic, flat_outputs)

    def compute(values: Any) -> Any:
        of_lists = values if isinstance(inputs, list | tuple) else [values]
        given = list(zip(listed, of_lists, strict=True))
        tensors = [tf.convert_to_tensor(value) for of, value in given if _is_symbolic(of)]
        phases = [bool(value) for of, value in given if not _is_symbolic(of)]
        results = keras.tree.flatten(computed(tensors, training=any(phases)))
        return keras.tree.pack_sequence_as(
            outputs, [keras.ops.convert_to_numpy(r) for r in results]
        )

    compute.__name__ = kwargs.get("name") or "function"
    return compute


def placeholder(
    shape: Sequence[int | None] | None = None,
    ndim: int | None = None,
    dtype: Any = None,
    sparse: bool = False,
    name: str | None = None,
    ragged: bool = False,
) -> keras.KerasTensor:
    """Returns a symbolic tensor of a shape with the batch size, or of unknown sizes."""
    batch_shape = tuple(shape) if shape is not None else (None,) * (ndim or 0)
    options = {"sparse": sparse, "ragged": ragged}
    return keras.Input(batch_shape=batch_shape, dtype=dtype, name=name, **options)


def print_tensor(x: Any, message: str = "", summarize: int = 3) -> Any:
    """Prints a tensor when it is computed; returns it."""
    tf.print(message, x, summarize=summarize)
    return x


def set_value(x: Any, value: Any) -> None:
    """Sets the value of a variable."""
    x.assign(np.asarray(value, dtype=dtype(x)))


def update(x: Any, new_x: Any) -> Any:
    """Sets the value of a variable; returns the variable."""
    assigned = x.assign(new_x)
    return x if isinstance(x, keras.Variable) else assigned


def batch_set_value(tuples: Sequence[tuple[Any, Any]]) -> None:
    """Sets the values of variables."""
    for x, value in tuples:
        set_value(x, value)


def set_floatx(value: str) -> None:
    """Sets the default dtype, also that of layers unless a policy was set for them."""
    before = keras.config.floatx()
    keras.config.set_floatx(value)
    if keras.config.dtype_policy().name == before:
        keras.config.set_dtype_policy(value)


def dtype(x: Any) -> str:
    """Returns the name of a dtype."""
    return tf.as_dtype(x.dtype).base_dtype.name


def normalize_batch_in_training(
    x: Any, gamma: Any, beta: Any, reduction_axes: Sequence[int], epsilon: float = 1e-3
) -> tuple[Any, Any, Any]:
    """Returns a batch normalised over axes, with its means and variances."""
    mean, variance = tf.nn.moments(x, list(reduction_axes), keepdims=True)
    kept = [size for axis, size in enumerate(mean.shape) if axis not in reduction_axes]
    scale, offset = (None if v is None else tf.reshape(v, mean.shape) for v in (gamma, beta))
    normal = tf.nn.batch_normalization(x, mean, variance, offset, scale, epsilon)
    return normal, tf.reshape(mean, kept), tf.reshape(variance, kept)


def random_binomial(
    shape: Any, p: float = 0.0, dtype: Any = None, seed: int | None = None
) -> tf.Tensor:
    """Returns ones with probability `p`, else zeros."""
    drawn: tf.Tensor = tf.keras.backend.random_bernoulli(shape, p, dtype, seed)
    return drawn


def manual_variable_initialization(value: bool) -> None:
    """Does nothing: variables have their values from the start."""


def _is_symbolic(x: Any) -> bool:
    return isinstance(x, keras.KerasTensor)


def _value(x: Any) -> Any:
    return x() if callable(x) else x


_NO_LOCAL = "Keras 3 has no locally connected layers; write the sum with tf.einsum over patches"

_OWN: Mapping[str, Any] = MappingProxyType(
    {
        "function": function,
        "in_test_phase": in_test_phase,
        "in_train_phase": in_train_phase,
        "learning_phase": learning_phase,
        "learning_phase_scope": learning_phase_scope,
        "manual_variable_initialization": manual_variable_initialization,
        "normalize_batch_in_training": normalize_batch_in_training,
        "placeholder": placeholder,
        "print_tensor": print_tensor,
        "random_binomial": random_binomial,
        "reset_uids": reset_names,
        "set_learning_phase": set_learning_phase,
    }
)


SPELLINGS = (
    Spelling(
        name="functions of `keras.backend`: `K.mean`, `K.function`, `K.learning_phase`, ...",
        keras_2="Functions over the backend's tensors.",
        here="They are those of `tf.keras.backend`, and functions of this package where it has "
        "none. `learning_phase` is that of the layer that is being called. `local_conv1d` and "
        "`local_conv2d` raise.",
        names=MappingProxyType(
            {
                "backend": {
                    **of_both("backend"),
                    **{name: given(value) for name, value in _OWN.items()},
                    **absent("keras.backend", ("local_conv1d", "local_conv2d"), _NO_LOCAL),
                }
            }
        ),
    ),
    Spelling(
        name="`K.set_value`, `K.batch_set_value`, `K.update`, `K.dtype`",
        keras_2="They set variables, and told dtypes.",
        here="They take the variables of Keras 3, too.",
        names=MappingProxyType(
            {
                "backend": {
                    "batch_set_value": given(batch_set_value),
                    "dtype": given(dtype),
                    "set_value": given(set_value),
                    "update": given(update),
                }
            }
        ),
        replaces_names=True,
    ),
    Spelling(
        name="`K.set_floatx` after the first layer",
        keras_2="Layers that were made later had this dtype.",
        here="They have it, unless a policy was set for them.",
        names=MappingProxyType({"backend": {"set_floatx": given(set_floatx)}}),
        replaces_names=True,
    ),
)
