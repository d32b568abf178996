"""The pipelining methods of Keras models made in the scope."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import keras

from ipu_tf.internals.keras import KerasFunctional, inbound_nodes, keras_layer_path, layers_within
from ipu_tf.keras.extensions import IPUExtensions
from ipu_tf.keras.options import GradientAccumulationOptions
from ipu_tf.keras.pipeline import stages as stage_rules
from ipu_tf.keras.pipeline import summary, symbolic
from ipu_tf.keras.pipeline.inner_calls import SymbolicCallError
from ipu_tf.keras.pipeline.layer_graph import LayerGraph, graph_of
from ipu_tf.keras.pipeline.pipeline import (
    Pipeline,
    pipeline_of,
    warn_about_moving_statistics,
)
from ipu_tf.keras.pipeline.pipelining_options import PipeliningOptions
from ipu_tf.keras.pipeline.scope import recorded_stage, was_called_in_stage
from ipu_tf.keras.pipeline.stages import Stages

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class SetStages:
    """Assigned stages, which override those of scopes.

    Not a plain tuple: Keras would find the layers in it once more when it saves a model.

    Attributes:
        stages: The stage of each call of a layer.
        layers: The layers that are called.
    """

    stages: Stages = ()
    layers: tuple[keras.Layer, ...] = ()


NO_STAGES = SetStages()
"""The model is not pipelined, whatever scopes its layers were made in."""


class PipelineExtensions(IPUExtensions):
    """Assigns the layers of a model to pipeline stages, and sets how the pipeline runs.

    Stages come from `PipelineStage` scopes until they are set or reset here.
    """

    _pipelining_options = PipeliningOptions()
    _set_stages: SetStages | None = None
    _call_graph: symbolic.CallGraph | None = None
    _seen_inputs: Any = None
    _build_shapes_dict: dict[str, Any] | None

    def set_pipelining_options(
        self,
        gradient_accumulation_steps_per_replica: int | None = None,
        device_mapping: list[int] | None = None,
        accumulate_outfeed: bool | None = None,
        gradient_accumulation_reduction_method: Any = "sum",
        **pipelining_kwargs: Any,
    ) -> None:
        """Sets how the stages of the model run as a pipeline.

        Args:
            gradient_accumulation_steps_per_replica: Micro-batches of a weight update on each
                replica. Training needs it; `steps_per_execution` is a multiple of it.
            device_mapping: IPU of each stage; by default stage i is on IPU i.
            accumulate_outfeed: Whether metrics come once a weight update instead of once a
                micro-batch; both cover all micro-batches so far.
            gradient_accumulation_reduction_method: A `GradientAccumulationReductionMethod` or
                its name: "sum", "mean" or "running_mean".
            **pipelining_kwargs: The further options of `PipeliningOptions`, such as
                `pipeline_schedule` and `recomputation_mode`.

        Raises:
            NotImplementedError: An option is not supported.
            TypeError: There is no such option, or it is of another type.
            ValueError: An argument is out of its range, or belongs to another method.
        """
        self._pipelining_options = PipeliningOptions.of(
            gradient_accumulation_steps_per_replica,
            device_mapping,
            accumulate_outfeed,
            gradient_accumulation_reduction_method,
            pipelining_kwargs,
        )
        self._drop_functions()

    def get_pipeline_stage_assignment(self) -> list[Any]:
        """Returns the stage assignment of every layer, None for a layer without a stage.

        Returns:
            For a Sequential one per layer, otherwise one per call of a layer, in post-order. They
            are copies: pass them to `set_pipeline_stage_assignment` to apply changes.

        Raises:
            RuntimeError: The model is not built, or its layers changed since stages were set.
            ValueError: The layers of a subclassed model cannot be seen.
        """
        graph = self._layer_graph()
        return stage_rules.assignments_of(graph, self._stages(graph))

    def set_pipeline_stage_assignment(self, pipeline_stage_assignment: list[Any]) -> None:
        """Assigns a pipeline stage to every layer.

        Args:
            pipeline_stage_assignment: The result of `get_pipeline_stage_assignment`, with stages
                set; for a Sequential also a list of the stage numbers of its layers.

        Raises:
            RuntimeError: The model is not built.
            ValueError: The assignment does not fit the model, or data would flow backwards.
        """
        graph = self._layer_graph()
        stages = stage_rules.stages_of(graph, pipeline_stage_assignment)
        self._keep_stages(graph, stages)

    def reset_pipeline_stage_assignment(self) -> None:
        """Removes the stages of all layers: the model is no longer pipelined."""
        self._set_stages = NO_STAGES
        self._drop_functions()

    def print_pipeline_stage_assignment_summary(
        self, line_length: int | None = None, print_fn: Callable[[str], Any] | None = None
    ) -> None:
        """Prints the stage of every layer as a table.

        Args:
            line_length: Characters of a line.
            print_fn: Takes each line; `print` by default.
        """
        assignments = self.get_pipeline_stage_assignment()
        for line in summary.lines(self, assignments, line_length):
            (print_fn or print)(line)

    def _keep_stages(self, graph: LayerGraph, stages: Stages) -> None:
        layers = tuple(call.layer for call in graph.layer_invocations)
        self._set_stages = SetStages(stages=stages, layers=layers)
        self._drop_functions()

    def _drop_set_stages(self) -> None:
        """Drops assigned stages, because the layers are about to change."""
        if self._set_stages not in (None, NO_STAGES):
            logger.warning(
                "The pipeline stage assignment of model '%s' is dropped, because its layers "
                "change. Set it again.",
                self.name,
            )
            self.reset_pipeline_stage_assignment()

    def _check_recorded_stages(self) -> None:
        """Checks that either all layers or none are in `PipelineStage` scopes.

        Raises:
            ValueError: Only some are, or the layers of a subclassed model cannot be seen.
        """
        graph = self._layer_graph()
        stages = graph.recorded_stages()
        if any(stage is not None for stage in stages):
            stage_rules.check_complete(graph, stages)

    def _post_build(self) -> None:
        """Stores the dtypes and shapes of inputs that `build` was given as `keras.Input`.

        Raises:
            ValueError: A user has built a subclassed model, and only some of its layers are in
                `PipelineStage` scopes.
        """
        super()._post_build()
        given = self._build_shapes_dict or {}
        if len(given) == 1 and symbolic.has_tensors(given):
            (self._seen_inputs,) = given.values()
            self._build_shapes_dict = symbolic.shapes_of(given)
        by_user = not keras_layer_path()  # Otherwise a call builds it, or a model around it.
        is_subclass = not isinstance(self, keras.Sequential | KerasFunctional)
        if by_user and is_subclass and self._set_stages is None:
            with contextlib.suppress(SymbolicCallError):  # Raised again when stages are needed.
                self._check_recorded_stages()

    def _layer_graph(self) -> LayerGraph:
        """Returns the graph of the model's layer calls."""
        if isinstance(self, keras.Sequential | KerasFunctional):
            return graph_of(self)
        self._call_graph = symbolic.call_graph(self, self._seen_inputs, self._call_graph)
        return self._call_graph.graph

    def _stages(self, graph: LayerGraph) -> Stages:
        """Returns the stage of each layer invocation of the model's graph."""
        if self._set_stages is None:
            return graph.recorded_stages()
        if self._set_stages == NO_STAGES:
            return (None,) * len(graph.layer_invocations)
        if tuple(call.layer for call in graph.layer_invocations) != self._set_stages.layers:
            stage_rules.raise_no_longer_valid(self)
        return self._set_stages.stages

    def _may_be_pipelined(self) -> bool:
        """Returns whether any stage was assigned or recorded, without reading the model's calls."""
        if self._set_stages is not None:
            return self._set_stages != NO_STAGES
        return any(
            recorded_stage(layer) is not None
            or was_called_in_stage(layer)
            or any(recorded_stage(node) is not None for node in inbound_nodes(layer))
            for layer in layers_within(self)
        )

    def _pipeline(self) -> Pipeline | None:
        """Returns the model's pipeline, None if it is not pipelined.

        Raises:
            RuntimeError: A stage has no layer, the model is not built, or it overrides
                `call`.
            ValueError: A layer has no stage, or the options do not fit the stages.
        """
        if not self._may_be_pipelined():
            return None
        graph = self._layer_graph()
        stages = self._stages(graph)
        if all(stage is None for stage in stages):
            return None
        return pipeline_of(graph, stages, self._pipelining_options)

    def _accumulation(self) -> GradientAccumulationOptions:
        """Returns how training accumulates gradients."""
        pipeline = self._pipeline()
        if pipeline is None:
            return self._gradient_accumulation_options
        return pipeline.options.accumulation

    def _checked_training_pipeline(self) -> Pipeline | None:
        """Returns the pipeline that is about to train, None if the model is not pipelined.

        Raises:
            NotImplementedError: Interleaved stages share an IPU.
            ValueError: The number of micro-batches has not been set.
            tf.errors.FailedPreconditionError: The schedule does not support this number.
        """
        pipeline = self._pipeline()
        if pipeline is not None:
            pipeline.check_training()
            warn_about_moving_statistics(self)
        return pipeline

    def _check_inference_steps(self, steps: int) -> None:
        """Checks that an execution without training fills the pipeline, if the model has one.

        Raises:
            tf.errors.FailedPreconditionError: The schedule does not support this number of steps.
        """
        pipeline = self._pipeline()
        if pipeline is not None:
            pipeline.check_inference(steps)

    def _logs_once_an_update(self) -> bool:
        """Returns whether the logs of training come once a weight update, not once a step."""
        pipeline = self._pipeline()
        return pipeline is not None and pipeline.options.accumulate_outfeed

    def pipeline_stages(self) -> Mapping[str, int]:
        """Returns the stage of each layer by its path, empty for a model without stages.

        A path includes all layers below it. A layer that is called in several stages belongs to
        the first of them; these stages share an IPU.
        """
        pipeline = self._pipeline()
        return {} if pipeline is None else pipeline.stage_of_layers
