"""Self-attention within windows of an image, as Swin transformers have it.

Source: Liu et al., "Swin Transformer: Hierarchical Vision Transformer using Shifted Windows", arXiv
2103.14030, section 3.2: windows, which every other block shifts by half their size; tokens that a
shift brings together from opposite sides do not see each other; and a learnt bias of every head
for each distance between two tokens of a window.
"""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import numpy.typing as npt
from keras import layers, ops

_MASK_SCORE = -100.0
"""What is added to the score of a token that is not seen."""


@keras.saving.register_keras_serializable("ipu_tf.zoo")
class WindowAttention(layers.Layer):
    """Attention of several heads within windows: [batch, size, size, width] keeps its shape.

    Args:
        heads: Heads, a divisor of the width.
        window: Tokens along a side of a window, a divisor of the size.
        shift: Tokens by which the windows are moved along both sides.
    """

    def __init__(self, heads: int, window: int, shift: int = 0, **kwargs: object) -> None:
        super().__init__(**kwargs)
        self.heads, self.window, self.shift = heads, window, shift

    def build(self, input_shape: tuple[int, ...]) -> None:
        """Makes the projections, and the table of biases by distance."""
        _, size, _, width = input_shape
        self.grid, self.head_width = size // self.window, width // self.heads
        tokens = (None, None, width)
        self.projections = layers.Dense(3 * width, dtype=self.dtype_policy, name="projections")
        self.projections.build(tokens)
        self.result = layers.Dense(width, dtype=self.dtype_policy, name="result")
        self.result.build(tokens)
        self.biases = self.add_weight(
            shape=((2 * self.window - 1) ** 2, self.heads),
            initializer=keras.initializers.TruncatedNormal(stddev=0.02),
            name="biases",
        )

    def call(self, tokens: keras.KerasTensor) -> keras.KerasTensor:
        """Returns the attended tokens."""
        if self.shift:
            tokens = ops.roll(tokens, (-self.shift, -self.shift), axis=(1, 2))
        tokens = self._image(self._attention(self._windows(tokens)))
        return ops.roll(tokens, (self.shift, self.shift), axis=(1, 2)) if self.shift else tokens

    def _windows(self, tokens: Any) -> Any:
        """Returns the tokens by windows: [batch * windows, window * window, width]."""
        grid, side, width = self.grid, self.window, tokens.shape[-1]
        parts = ops.reshape(tokens, (-1, grid, side, grid, side, width))
        return ops.reshape(ops.transpose(parts, (0, 1, 3, 2, 4, 5)), (-1, side * side, width))

    def _image(self, windows: Any) -> Any:
        grid, side, width = self.grid, self.window, windows.shape[-1]
        parts = ops.transpose(
            ops.reshape(windows, (-1, grid, grid, side, side, width)), (0, 1, 3, 2, 4, 5)
        )
        return ops.reshape(parts, (-1, grid * side, grid * side, width))

    def _attention(self, x: Any) -> Any:
        """Returns tokens [windows, n, width] that saw those of their own window."""
        count = x.shape[1]
        parts = ops.reshape(self.projections(x), (-1, count, 3, self.heads, self.head_width))
        query, key, value = ops.unstack(ops.transpose(parts, (2, 0, 3, 1, 4)), axis=0)
        scores = ops.matmul(query * self.head_width**-0.5, ops.transpose(key, (0, 1, 3, 2)))
        weights = ops.softmax(self._masked(scores + self._bias()))
        context = ops.transpose(ops.matmul(weights, value), (0, 2, 1, 3))
        return self.result(ops.reshape(context, (-1, count, self.heads * self.head_width)))

    def _bias(self) -> Any:
        """Returns the biases of every pair of tokens, [heads, n, n]."""
        table = ops.take(self.biases, distances(self.window), axis=0)
        return ops.cast(ops.transpose(table, (2, 0, 1)), self.compute_dtype)

    def _masked(self, scores: Any) -> Any:
        """Returns the scores [windows, heads, n, n], low where the shift joined two sides."""
        if not self.shift:
            return scores
        mask = shift_mask(self.grid, self.window, self.shift)
        each = ops.reshape(scores, (-1, *mask.shape[:1], *scores.shape[1:]))
        return ops.reshape(each + ops.cast(mask[:, None], scores.dtype), (-1, *scores.shape[1:]))

    def get_config(self) -> dict[str, object]:
        """Returns the arguments that make an equal layer."""
        arguments = {"heads": self.heads, "window": self.window, "shift": self.shift}
        return {**super().get_config(), **arguments}


def distances(window: int) -> npt.NDArray[np.int32]:
    """Returns the number of the distance between every two tokens of a window, int32[n, n].

    Args:
        window: Tokens along a side; n is its square.
    """
    rows, columns = np.divmod(np.arange(window * window), window)
    span = 2 * window - 1
    down, right = (place[:, None] - place + window - 1 for place in (rows, columns))
    return (down * span + right).astype(np.int32)


def shift_mask(grid: int, window: int, shift: int) -> npt.NDArray[np.float32]:
    """Returns what the scores of each window get, float32[windows, n, n]: 0 where tokens are seen.

    Args:
        grid: Windows along a side of the image.
        window: Tokens along a side of a window.
        shift: Tokens by which the image was rolled.
    """
    size = grid * window
    edges = np.digitize(np.arange(size), [size - window, size - shift])
    areas = (3 * edges[:, None] + edges).reshape(grid, window, grid, window)
    of_windows = areas.transpose(0, 2, 1, 3).reshape(grid * grid, window * window)
    apart = of_windows[:, :, None] != of_windows[:, None, :]
    return np.where(apart, _MASK_SCORE, 0.0).astype(np.float32)
