"""Shared parts of the layers: the Keras arguments that they refuse, and seeds."""

from __future__ import annotations

from typing import Any, ClassVar

import keras
import tensorflow as tf

from ipu_tf.internals.structures import Shape
from ipu_tf.keras.layers.arguments import SeedPair

_Base: Any = object  # Each Keras has a base of its own, which subclasses name.


class AnyKeras(_Base):
    """Base of the parts of layers that are the same over any Keras.

    A layer names the parts before its base of the Keras.
    """

    _keras: ClassVar[Any] = keras


class RefusingLayer(AnyKeras):
    """What `IPULayer` is over any Keras."""

    def _check_unsupported(self, arg: object, arg_name: str, method_name: str = "__init__") -> None:
        """Checks that an argument that is not supported is not given.

        Raises:
            NotImplementedError: It is given.
        """
        refuse(self, method_name, **{arg_name: arg})


class IPULayer(RefusingLayer, keras.layers.Layer):
    """Base of layers that have arguments of a Keras layer and refuse some of them."""


def refuse(layer: keras.layers.Layer, method: str = "__init__", **arguments: object) -> None:
    """Checks that no arguments are given that the Keras layer has but the IPU does not use.

    Args:
        layer: The layer.
        method: The method that has the arguments.
        **arguments: Their values. False, None, 0 and empty values count as not given.

    Raises:
        NotImplementedError: An argument is given.
    """
    for name, value in arguments.items():
        if value is not None and (not isinstance(value, bool | int | float | str) or value):
            raise unsupported(layer, name, value, method)


def unsupported(
    layer: keras.layers.Layer, name: str, value: object, method: str = "__init__"
) -> NotImplementedError:
    """Returns the error for a value of an argument that supports only one other value.

    Args:
        layer: The layer.
        name: Name of the argument.
        value: Its value.
        method: The method that has the argument.
    """
    return NotImplementedError(
        f"ipu_tensorflow_addons.keras.layers.{type(layer).__name__} does not support {method} "
        f"argument {name}: it exists for scripts that pass its default. Leave it out, or use the "
        f"layer of keras.layers. Received: {name}={value!r}."
    )


def seed_pair(owner: str, seed: SeedPair) -> tuple[int, int] | None:
    """Returns a pair of seeds.

    Args:
        owner: Name for the error.
        seed: Two whole numbers of 32 bits in a list, array or tensor, or None.

    Raises:
        ValueError: It is anything else.
    """
    if seed is None:
        return None
    pair = keras.ops.convert_to_numpy(seed)
    if pair.shape != (2,) or pair.dtype.kind not in "iu":
        raise ValueError(
            f"{owner}: the seed must be a pair of whole numbers, of shape [2]. Received: {seed!r}."
        )
    return int(pair[0]), int(pair[1])


def drop(
    inputs: tf.Tensor,
    rate: float,
    noise_shape: Shape | None,
    seed: tuple[int, int] | None,
    generator: keras.random.SeedGenerator | None = None,
) -> tf.Tensor:
    """Returns a tensor with a share of its elements set to 0 and the others scaled up.

    Args:
        inputs: The tensor.
        rate: The share, from 0 up to but not including 1.
        noise_shape: Shape of the mask, broadcast to that of `inputs`; the shape of `inputs` if
            None.
        seed: Seeds of the mask, which makes it the same at every call.
        generator: A Keras seed generator that is used if `seed` is None.
    """
    if seed is None:
        return keras.random.dropout(inputs, rate, noise_shape=noise_shape, seed=generator)
    return tf.nn.experimental.stateless_dropout(
        inputs, rate, seed, rng_alg="philox", noise_shape=noise_shape
    )
