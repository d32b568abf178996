"""Descriptions of the inputs and outputs of programs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypedDict

import tensorflow as tf


class InputFields(TypedDict):
    """An input as a file holds it."""

    name: str
    shape: list[int]
    dtype: str


@dataclass(frozen=True, slots=True, kw_only=True)
class InputDescription:
    """An input or output of a program.

    Attributes:
        name: Its name.
        shape: Its shape.
        dtype: Its type.
    """

    name: str
    shape: tf.TensorShape
    dtype: tf.DType

    @classmethod
    def of(cls, name: str, shape: Sequence[int], dtype: str) -> InputDescription:
        """Returns the description that a file holds."""
        return cls(name=name, shape=tf.TensorShape(shape), dtype=tf.as_dtype(dtype))

    def __str__(self) -> str:
        return f"{self.name} ({self.dtype.name} of shape {self.shape})"
