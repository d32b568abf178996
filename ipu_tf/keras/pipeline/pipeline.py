"""A model whose layers all have a stage, as described to the loop and the device program."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ipu_tf.compiler.pipeline.schedule import schedule_depth
from ipu_tf.keras.adapters.graphs import GraphModel, Layer, graphs_of
from ipu_tf.keras.pipeline.layer_graph import LayerGraph
from ipu_tf.keras.pipeline.pipelining_options import PipeliningOptions
from ipu_tf.keras.pipeline.stages import Stages, check_complete, check_no_gaps, check_order
from ipu_tf.ops.pipelining_ops import PipelineSchedule, check_depth, schedule_name

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pipeline:
    """A pipelined model.

    Attributes:
        model: Name of the model.
        stage_of_layers: Stage of each layer by its path, the first one if it has several.
        shared_layers: All stages of each layer that has several, in order, by its path.
        ipus: IPU of each stage.
        options: How the stages run.
    """

    model: str
    stage_of_layers: Mapping[str, int]
    shared_layers: Mapping[str, tuple[int, ...]]
    ipus: tuple[int, ...]
    options: PipeliningOptions

    @property
    def stages(self) -> int:
        """Number of stages."""
        return len(self.ipus)

    @property
    def ipus_of_replica(self) -> int:
        """Number of IPUs of a replica, before it is rounded up to a power of two."""
        return max(self.ipus) + 1

    def check_training(self) -> int:
        """Returns the micro-batches of a weight update on each replica.

        Raises:
            NotImplementedError: Interleaved stages share an IPU.
            ValueError: Their number has not been set.
            tf.errors.FailedPreconditionError: The schedule does not support this number.
        """
        steps = self.options.steps_per_replica
        if steps is None:
            raise ValueError(
                f"The model '{self.model}' is pipelined, but "
                "`gradient_accumulation_steps_per_replica` has not been set through "
                "`set_pipelining_options()`. Training needs the number of micro-batches of a "
                "weight update: set a multiple of "
                f"{self._depth(training=True)} for this pipeline."
            )
        if self.options.pipeline_schedule is PipelineSchedule.Interleaved and len(
            set(self.ipus)
        ) < len(self.ipus):
            raise NotImplementedError(
                f"Model '{self.model}': the Interleaved schedule trains one stage on an IPU. "
                "Use PipelineSchedule.Grouped or Sequential. "
                f"Received: device_mapping={list(self.ipus)}."
            )
        name = "gradient_accumulation_steps_per_replica"
        self._check_depth(steps, name, training=True)
        return steps

    def check_inference(self, steps: int) -> None:
        """Checks that an execution of `evaluate` or `predict` fills the pipeline.

        Args:
            steps: Steps of the execution.

        Raises:
            tf.errors.FailedPreconditionError: The schedule does not support this number of steps.
        """
        self._check_depth(steps, "steps_per_execution", training=False)

    @property
    def inference_depth(self) -> int:
        """Micro-batches on which the stages run at a time without training."""
        return self._depth(training=False)

    def _depth(self, *, training: bool) -> int:
        schedule = schedule_name(self.options.pipeline_schedule)
        return schedule_depth(schedule, self.ipus, training=training)

    def _check_depth(self, count: int, name: str, *, training: bool) -> None:
        check_depth(
            self.options.pipeline_schedule,
            self.ipus,
            count,
            training=training,
            argument=name,
            subject=f"model '{self.model}'",
        )


def pipeline_of(graph: LayerGraph, stages: Stages, options: PipeliningOptions) -> Pipeline:
    """Returns the pipeline of a model.

    Args:
        graph: Its layers.
        stages: The stage of each layer invocation of `graph`.
        options: How the stages run.

    Raises:
        RuntimeError: A stage has no layer, or a model with layers overrides `call`.
        ValueError: A layer has no stage, data flows backwards, there is only one stage, or
            options do not fit the stages.
    """
    model, graphs = graph.model, graphs_of(graph.model)
    if graphs.kind(model) in ("functional", "sequential") and graphs.overrides_call(model):
        raise RuntimeError(
            f"The function `call` for the model {model.name} has been overridden. A pipelined "
            "functional or Sequential model runs the layers that its stages are made of: leave "
            "`call` as it is, or reset the stages."
        )
    complete = check_complete(graph, stages)
    check_order(graph, complete)
    check_no_gaps(graph, complete)
    count = max(complete) + 1
    if count < 2:
        raise ValueError(
            "Pipeline requires at least two computational stages. "
            f"Received: 1 stage for model '{model.name}'."
        )
    options.check_stages(count)
    ipus = options.ipus(count)
    by_path = _by_path(graph, complete, ipus)
    return Pipeline(
        model=model.name,
        stage_of_layers={path: of_layer[0] for path, of_layer in by_path.items()},
        shared_layers={path: of for path, of in by_path.items() if len(of) > 1},
        ipus=ipus,
        options=options,
    )


def _by_path(
    graph: LayerGraph, stages: Sequence[int], ipus: Sequence[int]
) -> Mapping[str, tuple[int, ...]]:
    """Returns the stages that call each layer, in order.

    Raises:
        ValueError: A layer with variables is called in stages on different IPUs, or layers in
            different stages have the same path.
    """
    by_path: dict[str, set[int]] = {}
    layers: dict[str, Layer] = {}
    for call, stage in zip(graph.layer_invocations, stages, strict=True):
        of_layer = by_path.setdefault(call.path, {stage})
        of_layer.add(stage)
        first = min(of_layer)
        if layers.setdefault(call.path, call.layer) is not call.layer and stage != first:
            raise ValueError(
                f"Model '{graph.model.name}': two layers in stages {first} and {stage} have the "
                f"same path, by which programs know them. Give one of them another name. "
                f"Received: '{call.path}' twice."
            )
        if call.layer.variables and ipus[stage] != ipus[first]:
            raise ValueError(
                f"Model '{graph.model.name}': the variables of layer {call.layer.name} are used by "
                f"stages {first} and {stage}, which are mapped to different IPUs. Use the layer in "
                "one stage, or map both stages to one IPU with `device_mapping`. "
                f"Received: device_mapping={list(ipus)}."
            )
    return {path: tuple(sorted(of_layer)) for path, of_layer in by_path.items()}


def warn_about_moving_statistics(model: GraphModel) -> None:
    """Logs a warning for layers whose moving statistics a pipeline does not update correctly."""
    graphs = graphs_of(model)
    for layer in graphs.layers_within(model):
        momentum = graphs.momentum_of_statistics(layer)
        if momentum is not None and 0 < momentum < 1:
            logger.warning(
                "Layer %s of the pipelined model '%s': the moving statistics of batch "
                "normalization are not updated properly on the machine, where a stage runs several "
                "micro-batches between two updates. Use momentum 0 or 1, or another "
                "normalization. Received: momentum=%s.",
                layer.name,
                model.name,
                momentum,
            )
