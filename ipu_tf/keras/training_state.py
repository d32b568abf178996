"""The training state of a model: its options and assigned pipeline stages, as one frozen value."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import tensorflow as tf

from ipu_tf.internals.structures import TensorStructure
from ipu_tf.keras.adapters.graphs import GraphModel, Layer, Structure, SymbolicTensor
from ipu_tf.keras.options import (
    GradientAccumulationOptions,
    InfeedOptions,
    OutfeedOptions,
    RecomputationOptions,
    ReplicationOptions,
)
from ipu_tf.keras.pipeline import stages as stage_rules
from ipu_tf.keras.pipeline.layer_graph import LayerGraph
from ipu_tf.keras.pipeline.pipeline import Pipeline, pipeline_of
from ipu_tf.keras.pipeline.pipelining_options import PipeliningOptions
from ipu_tf.keras.pipeline.scope import may_have_stages
from ipu_tf.keras.pipeline.stages import Stages
from ipu_tf.keras.pipeline.symbolic import LayerCalls
from ipu_tf.strategy.open_scope import are_one

LoopFunction: TypeAlias = Callable[..., TensorStructure]
"""A function that a Keras calls for each execution, with an iterator over batches or, for
predictions, a list of such; returns the logs, or the predictions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AssignedStages:
    """Assigned stages, which override those of scopes.

    Not a plain tuple: Keras would find the layers in it once more when it saves a model.

    Attributes:
        stages: The stage of each call of a layer.
        layers: The layers that are called.
    """

    stages: Stages = ()
    layers: tuple[Layer, ...] = ()


NO_STAGES = AssignedStages()
"""The model is not pipelined, whatever scopes its layers were made in."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingState:
    """The options that set how a model trains, evaluates and predicts.

    Attributes:
        accumulation: Micro-batches of a weight update of a model without stages.
        pipelining: How the stages of a pipelined model run.
        recomputation: How training recomputes activations.
        replication: How logs combine the values of replicas.
        infeed: How data gets to the device.
        outfeed: How results get to the host.
        asynchronous_callbacks: Whether callbacks are called once a step.
        assigned_stages: The assigned stages, None while those of `PipelineStage` scopes apply.
    """

    accumulation: GradientAccumulationOptions = field(default_factory=GradientAccumulationOptions)
    pipelining: PipeliningOptions = field(default_factory=PipeliningOptions)
    recomputation: RecomputationOptions = field(default_factory=RecomputationOptions)
    replication: ReplicationOptions = field(default_factory=ReplicationOptions)
    infeed: InfeedOptions = field(default_factory=InfeedOptions)
    outfeed: OutfeedOptions = field(default_factory=OutfeedOptions)
    asynchronous_callbacks: bool = False
    assigned_stages: AssignedStages | None = None

    def may_pipeline(self, model: GraphModel) -> bool:
        """Returns whether any stage was assigned or recorded, without reading the model's calls."""
        if self.assigned_stages is not None:
            return self.assigned_stages != NO_STAGES
        return may_have_stages(model)

    def stages_of(self, graph: LayerGraph) -> Stages:
        """Returns the stage of each layer invocation of a model's graph.

        Raises:
            RuntimeError: The layers have changed since stages were assigned to them.
        """
        if self.assigned_stages is None:
            return graph.recorded_stages()
        if self.assigned_stages == NO_STAGES:
            return (None,) * len(graph.layer_invocations)
        if tuple(call.layer for call in graph.layer_invocations) != self.assigned_stages.layers:
            stage_rules.raise_no_longer_valid(graph.model)
        return self.assigned_stages.stages

    def pipeline_of(self, graph: LayerGraph) -> Pipeline | None:
        """Returns the pipeline that a model's graph makes, None if no layer has a stage.

        Raises:
            RuntimeError: A stage has no layer, or the model overrides `call`.
            ValueError: A layer has no stage, or the options do not fit the stages.
        """
        stages = self.stages_of(graph)
        if all(stage is None for stage in stages):
            return None
        return pipeline_of(graph, stages, self.pipelining)

    def accumulation_in(self, pipeline: Pipeline | None) -> GradientAccumulationOptions:
        """Returns how training accumulates gradients in a pipeline, or without one."""
        return self.accumulation if pipeline is None else pipeline.options.accumulation


class StatefulModel:
    """A model that holds a training state. Setters replace the state as a whole.

    Its subclasses are models of a Keras, too.
    """

    name: str
    built: bool
    compiled: bool
    loss: object
    compute_dtype: str
    run_eagerly: bool
    jit_compile: bool
    steps_per_execution: int
    distribute_strategy: tf.distribute.Strategy
    layers: Sequence[Layer]
    variables: Sequence[tf.Variable]
    inputs: Sequence[SymbolicTensor]
    outputs: Sequence[SymbolicTensor]
    call: Callable[..., Structure]
    get_config: Callable[[], dict[str, object]]
    get_build_config: Callable[[], Mapping[str, object] | None]
    train_function: LoopFunction | None
    test_function: LoopFunction | None
    predict_function: LoopFunction | None
    _ipu_tf_training_state = TrainingState()

    @property
    def ipu_training_state(self) -> TrainingState:
        """The options of the training loop.

        Setting it drops the functions of Keras' loop, which are made again when needed.
        """
        return self._ipu_tf_training_state

    @ipu_training_state.setter
    def ipu_training_state(self, state: TrainingState) -> None:
        self._ipu_tf_training_state = state
        drop_functions(self)

    @functools.cached_property
    def ipu_layer_calls(self) -> LayerCalls:
        """The calls of the layers of a subclassed model."""
        return LayerCalls()


def strategy_in_force(own: tf.distribute.Strategy) -> tf.distribute.Strategy:
    """Returns the strategy of the open scope if it is one with that of a model, else the latter."""
    around = tf.distribute.get_strategy()
    return around if are_one(around, own) else own


def drop_functions(model: StatefulModel) -> None:
    """Drops the functions of a model's training loop; they are made again when needed."""
    model.train_function = model.test_function = model.predict_function = None
