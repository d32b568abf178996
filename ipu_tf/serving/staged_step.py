"""Stage functions that the device runs one after the other as a step, each on its IPU."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import tensorflow as tf

from ipu_tf.compiler.pipeline.deployment import Deployment
from ipu_tf.internals.autograph import converted
from ipu_tf.internals.structures import TensorStructure
from ipu_tf.ops.kernels import replica_context
from ipu_tf.ops.pipelining_ops import PipelineSchedule, schedule_name
from ipu_tf.pipelining import arguments as argument_checks
from ipu_tf.pipelining.arguments import PipelineArguments
from ipu_tf.pipelining.stages import run_stages
from ipu_tf.runtime.extraction import deployments
from ipu_tf.runtime.tracing import hooks
from ipu_tf.runtime.tracing.layer_stages import stage_of_layers
from ipu_tf.serving.serving_step import ServedStep, check_iterations
from ipu_tf.serving.signatures import StepSignature


class StagedPredictor:
    """Owner of stage functions that the device runs as a step of prediction.

    A call runs one micro-batch; its program is that of a pipeline of `iterations` micro-batches.

    Args:
        arguments: Those of the pipeline.
        inputs: The first arguments of the first stage.
        name: Name of the pipeline.
        by_keyword: Names of the further arguments of the first stage; None if they have none.
    """

    def __init__(
        self,
        arguments: PipelineArguments,
        inputs: Sequence[tf.Tensor],
        name: str,
        by_keyword: tuple[str, ...] | None,
    ) -> None:
        self.name = name
        self.steps_per_execution = int(arguments.static_count or 1)
        self._arguments = arguments
        self._inputs = inputs
        self._by_keyword = by_keyword
        self._stage_of_layers: dict[str, int] = {}

    @tf.autograph.experimental.do_not_convert
    def predict_step(self, *element: tf.Tensor) -> TensorStructure:
        """Returns the results of the last stage for an element of the data."""
        tracer = hooks.active()
        if tracer is not None:
            replica_context.require_ipus(max(self._arguments.ipus) + 1)
        by_name = (
            None if self._by_keyword is None else dict(zip(self._by_keyword, element, strict=True))
        )
        inputs = [tf.convert_to_tensor(value) for value in self._inputs]
        results = run_stages(
            self._arguments, inputs, list(element) if by_name is None else [by_name], self.name
        )
        scopes = [(scope, number) for number, scope in enumerate(results.scopes)]
        self._stage_of_layers = dict(scopes)
        if tracer is not None:
            graph = tf.compat.v1.get_default_graph()
            self._stage_of_layers = stage_of_layers(tracer, graph, scopes)
        return results.packed

    def deployment(self) -> Deployment:
        """Returns how the traced step runs as a pipeline."""
        return Deployment(
            stage_of_layers=self._stage_of_layers,
            ipu_of_stages=self._arguments.ipus,
            schedule=schedule_name(self._arguments.schedule),
            micro_batches=self.steps_per_execution,
            replicas=replica_context.num_replicas(),
        )


@deployments.register
def _of_stages(owner: StagedPredictor, function: str) -> Deployment | None:
    return owner.deployment() if function == "predict_step" else None


def served_stages(
    stages: Sequence[Callable[..., object]],
    signature: StepSignature,
    iterations: int,
    *,
    inputs: Sequence[tf.Tensor] | None,
    device_mapping: Sequence[int] | None,
    pipeline_schedule: PipelineSchedule | None,
    poplar_options: object,
    name: str | None,
) -> ServedStep:
    """Returns stage functions as a step of the device; see `export_pipeline` for its arguments.

    Raises:
        TypeError: An argument is of another type.
        ValueError: An argument is out of its range.
        tf.errors.FailedPreconditionError: The iterations do not fill the schedule.
    """
    check_iterations(iterations)
    arguments = argument_checks.checked(
        computational_stages=[converted(stage) if callable(stage) else stage for stage in stages],
        gradient_accumulation_count=iterations,
        repeat_count=1,
        batch_serialization_iterations=1,
        optimizer_function=None,
        device_mapping=device_mapping,
        pipeline_schedule=pipeline_schedule,
        recomputation_mode=None,
        stage_options={"forward_propagation_stages_poplar_options": poplar_options},
        weight_update_options=None,
        flags=argument_checks.flags_of({}),
        sharding=False,
        continuous_weight_updates=False,
        outfeed_loss=False,
        outfeed_mask=None,
        reduction_method="sum",
        gradient_accumulation_dtype=None,
        accumulates_captured=True,
        accumulate_outfeed=False,
        accumulate_outfeed_dtype=None,
    )
    arguments.check_depth()
    constants = [tf.convert_to_tensor(value) for value in inputs or ()]
    names = signature.names if signature.by_keyword else None
    predictor = StagedPredictor(arguments, constants, name or "pipeline", names)
    return ServedStep(
        step=predictor.predict_step,
        arguments=lambda flat: (tuple(flat), {}),
        signature=signature,
        iterations=iterations,
        resources=(list(stages), list(inputs or ())),
        deployment=predictor.deployment,
    )
