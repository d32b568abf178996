"""Exported pipelines that run on their IPUs from the files that hold them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypedDict

import tensorflow as tf

from ipu_tf.compiler.pipeline.deployment import Deployment
from ipu_tf.internals.structures import TensorStructure
from ipu_tf.ops.kernels import replica_context
from ipu_tf.runtime.extraction import deployments
from ipu_tf.runtime.tracing import hooks
from ipu_tf.runtime.tracing.layer_stages import stage_of_layers
from ipu_tf.serving.serving_step import Predictor
from ipu_tf.tile_program.device_program import Schedule


class DescribedPipeline(TypedDict):
    """The stages of a pipeline as plain data."""

    stage_of_layers: dict[str, int]
    ipu_of_stages: list[int]
    schedule: Schedule


def described(deployment: Deployment) -> DescribedPipeline:
    """Returns the stages of a pipeline as plain data, for a file."""
    return {
        "stage_of_layers": dict(deployment.stage_of_layers),
        "ipu_of_stages": list(deployment.ipu_of_stages),
        "schedule": deployment.schedule,
    }


class LoadedPipeline(Predictor):
    """Owner of a step from a file that the device runs as a pipeline.

    The function of the file is whole; the name scopes of its operations tell their stages.

    Args:
        function: The function of a step.
        iterations: Micro-batches of one execution of the device.
        pipeline: What `described` returned.
    """

    def __init__(
        self, function: Callable[..., object], iterations: int, pipeline: DescribedPipeline
    ) -> None:
        super().__init__(function, iterations)
        self._ipus = tuple(pipeline["ipu_of_stages"])
        self._schedule = pipeline["schedule"]
        self._scopes = list(pipeline["stage_of_layers"].items())
        self._stage_of_layers: dict[str, int] = {}

    @tf.autograph.experimental.do_not_convert
    def predict_step(self, *args: tf.Tensor, **kwargs: object) -> TensorStructure:
        """Returns the results of the function."""
        tracer = hooks.active()
        if tracer is not None:
            replica_context.require_ipus(max(self._ipus) + 1)
        results = super().predict_step(*args, **kwargs)
        if tracer is not None:
            graph = tf.compat.v1.get_default_graph()
            self._stage_of_layers = stage_of_layers(tracer, graph, self._scopes)
        return results

    def deployment(self) -> Deployment:
        """Returns how the traced step runs as a pipeline."""
        return Deployment(
            stage_of_layers=self._stage_of_layers,
            ipu_of_stages=self._ipus,
            schedule=self._schedule,
            micro_batches=self.steps_per_execution,
            replicas=replica_context.num_replicas(),
        )


@deployments.register
def _deployment_of(owner: LoadedPipeline, function: str) -> Deployment | None:
    return owner.deployment() if function == "predict_step" else None
