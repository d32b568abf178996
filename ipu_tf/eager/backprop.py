"""Tapes that keep the gradients which `capture_upstream_gradients` captures."""

from __future__ import annotations

from types import TracebackType
from typing import Any

import tensorflow as tf

from ipu_tf.internals.structures import TensorStructure
from ipu_tf.ops.grad_util_ops import open_contexts, take_captured_gradients


def num_gradient_collection_tapes() -> int:
    """Returns the number of open contexts that keep captured gradients."""
    return open_contexts.get()


class GradientCaptureContext:
    """Keeps the gradients that are captured while it is open."""

    def __init__(self) -> None:
        self._captured: dict[str, list[tf.Tensor]] = {}

    def __enter__(self) -> Any:
        take_captured_gradients()  # Those of before belong to nobody.
        open_contexts.set(open_contexts.get() + 1)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._collect()
        open_contexts.set(open_contexts.get() - 1)

    @property
    def captured_gradients(self) -> dict[str, list[tf.Tensor]]:
        """The gradients by tag, those of a tag in the order in which they flowed."""
        self._collect()
        return self._captured

    def _collect(self) -> None:
        for tag, gradients in take_captured_gradients().items():
            self._captured.setdefault(tag, []).extend(gradients)


class GradientCaptureTape(GradientCaptureContext, tf.GradientTape):
    """A `tf.GradientTape` that keeps the gradients captured while it computes gradients.

    Args:
        persistent: Whether `gradient` may be called several times.
        watch_accessed_variables: Whether trainable variables are watched.
    """

    def __init__(self, persistent: bool = False, watch_accessed_variables: bool = True) -> None:
        GradientCaptureContext.__init__(self)
        tf.GradientTape.__init__(self, persistent, watch_accessed_variables)

    def __enter__(self) -> GradientCaptureTape:
        GradientCaptureContext.__enter__(self)
        tf.GradientTape.__enter__(self)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        tf.GradientTape.__exit__(self, kind, error, traceback)
        GradientCaptureContext.__exit__(self, kind, error, traceback)

    def gradient(
        self,
        target: TensorStructure,
        sources: TensorStructure,
        output_gradients: TensorStructure = None,
        unconnected_gradients: tf.UnconnectedGradients = tf.UnconnectedGradients.NONE,
    ) -> TensorStructure:
        """Returns gradients as `tf.GradientTape.gradient` does, and keeps the captured ones."""
        gradients = super().gradient(target, sources, output_gradients, unconnected_gradients)
        self._collect()
        return gradients
