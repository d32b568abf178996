"""Pipelined models as classes of their own, which the vendor's earlier releases had.

Their options were arguments of the model, and a call of the device ran a whole epoch.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import keras

from ipu_tf.keras.data.epoch_steps import WHOLE_EPOCH
from ipu_tf.keras.models import Model, Sequential
from ipu_tf.keras.pipeline import PipelineStage

__all__ = ["PipelineModel", "PipelineSequential", "SequentialPipelineModel"]

_LOOPS = ("fit", "evaluate", "predict")


class _WholeEpochs:
    """Runs each epoch with one call of the device, or `steps_per_run` steps with each."""

    def compile(self, *args: Any, **kwargs: Any) -> None:
        """See `keras.Model.compile`; a call of the device runs an epoch."""
        super().compile(*args, **{"steps_per_execution": WHOLE_EPOCH, **kwargs})  # type: ignore[misc]

    def fit(self, *args: Any, **kwargs: Any) -> keras.callbacks.History:
        """See `keras.Model.fit`; also takes `steps_per_run` and `prefetch_depth`."""
        return self._run(super().fit, args, kwargs)  # type: ignore[misc]

    def evaluate(self, *args: Any, **kwargs: Any) -> Any:
        """See `keras.Model.evaluate`; also takes `steps_per_run` and `prefetch_depth`."""
        return self._run(super().evaluate, args, kwargs)  # type: ignore[misc]

    def predict(self, *args: Any, **kwargs: Any) -> Any:
        """See `keras.Model.predict`; also takes `steps_per_run` and `prefetch_depth`."""
        return self._run(super().predict, args, kwargs)  # type: ignore[misc]

    def _run(self: Any, method: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        steps, depth = kwargs.pop("steps_per_run", None), kwargs.pop("prefetch_depth", None)
        if depth is not None:
            self.set_infeed_queue_options(prefetch_depth=depth)
        compiled = self.steps_per_execution
        if steps is not None:
            self.steps_per_execution = steps
        try:
            return method(*args, **kwargs)
        finally:
            self.steps_per_execution = compiled


def _set_options(model: Any, gradient_accumulation_count: int | None, options: Any) -> None:
    model.set_pipelining_options(
        gradient_accumulation_steps_per_replica=gradient_accumulation_count, **options
    )


class PipelineModel(_WholeEpochs, Model):
    """A functional model whose layers are in scopes of `PipelineStage`.

    Args:
        *args: Inputs and outputs, as of `keras.Model`.
        gradient_accumulation_count: Micro-batches of a weight update on each replica.
        inputs: The inputs, if not in `args`.
        outputs: The outputs, if not in `args`.
        name: Name of the model.
        **options: Further arguments of `set_pipelining_options`.
    """

    def __init__(
        self,
        *args: Any,
        gradient_accumulation_count: int | None = None,
        inputs: Any = None,
        outputs: Any = None,
        name: str | None = None,
        **options: Any,
    ) -> None:
        given = (one for one in (inputs, outputs) if one is not None)
        super().__init__(*args, *given, name=name)
        _set_options(self, gradient_accumulation_count, options)


class PipelineSequential(_WholeEpochs, Sequential):
    """A Sequential that is made of the layers of each of its stages.

    Args:
        stages: A list of layers for each stage.
        gradient_accumulation_count: Micro-batches of a weight update on each replica.
        name: Name of the model.
        **options: Further arguments of `set_pipelining_options`.

    Raises:
        ValueError: There is no stage, or a stage is not a list of layers.
    """

    def __init__(
        self,
        stages: Sequence[Sequence[keras.Layer]],
        gradient_accumulation_count: int | None = None,
        name: str | None = None,
        **options: Any,
    ) -> None:
        _check_stages(type(self).__name__, stages)
        super().__init__(name=name)
        for number, layers in enumerate(stages):
            for layer in layers:
                with PipelineStage(number):
                    self.add(layer)
        stage_of_layer = [number for number, layers in enumerate(stages) for _ in layers]
        self.set_pipeline_stage_assignment(stage_of_layer)
        _set_options(self, gradient_accumulation_count, options)


SequentialPipelineModel = PipelineSequential
"""The name of `PipelineSequential` in still earlier releases."""


def _check_stages(name: str, stages: Any) -> None:
    if not (isinstance(stages, Sequence) and stages and all(map(_are_layers, stages))):
        raise ValueError(
            f"{name} takes a list with a list of layers for each stage, such as "
            f"[[Dense(8)], [Dense(1)]]. Received: {stages!r}."
        )


def _are_layers(stage: Any) -> bool:
    return isinstance(stage, Sequence) and all(isinstance(one, keras.Layer) for one in stage)
