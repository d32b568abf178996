"""Compiles the step of a pipeline for the machine: a micro-batch, and the weight update."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from ipu_tf.compiler.pipeline.deployment import Deployment, Offload
from ipu_tf.internals.graphs import trace
from ipu_tf.ops.kernels import replica_context
from ipu_tf.ops.pipelining_ops import RecomputationMode, schedule_name
from ipu_tf.pipelining import accumulation
from ipu_tf.pipelining.arguments import PipelineArguments
from ipu_tf.pipelining.micro_batch import MicroBatch
from ipu_tf.runtime.extraction.hlo_parameters import VariableRoles
from ipu_tf.runtime.programs import device_programs
from ipu_tf.runtime.tracing.layer_stages import stage_of_layers
from ipu_tf.runtime.tracing.tracer import Tracer


def compile_step(tracer: Tracer, arguments: PipelineArguments, micro_batch: MicroBatch) -> None:
    """Compiles the step of a pipeline; its device program is that of the tracer's program.

    Args:
        tracer: The active tracer, which has traced the micro-batch.
        arguments: Those of the pipeline.
        micro_batch: Its traced functions.

    Raises:
        IPUOutOfMemoryError: A stage does not fit on its IPU.
        UncompilableProgram: A stage cannot be compiled at all.
        UnsupportedOpcodeError: An operation has no cost on the machine.
        ValueError: Stages on different IPUs share a variable.
    """
    if not device_programs.is_compiled():
        return
    step = trace(_step(arguments, micro_batch), (micro_batch.specs,), name="step")
    tracer.program.device = device_programs.compile_trace(
        device_programs.TracedFunction(
            tracer=tracer,
            graph=step.graph,
            operations=step.graph.get_operations(),
            arguments=((list(step.graph.inputs[: len(micro_batch.specs)]),), {}),
            outputs=step.structured_outputs and step.graph.outputs,
            variables=_roles(tracer, micro_batch),
            deployment=_deployment(tracer, arguments, micro_batch),
        )
    )


def _step(arguments: PipelineArguments, micro_batch: MicroBatch) -> Any:
    """Returns the function of a micro-batch with the update after it."""

    def step(tensors: list[tf.Tensor]) -> Any:
        results = micro_batch.run(tf.constant(0), tensors)
        gradients = micro_batch.trace.gradients
        if gradients is not None:
            count = arguments.static_count or 1
            method = arguments.reduction_method
            with tf.name_scope("gradients/"):
                sums = [
                    accumulation.scaled(tf.cast(value, spec.dtype), method, count)
                    for value, spec in zip(results.gradients, gradients.sum_specs, strict=True)
                ]
            captured = tf.nest.map_structure(
                lambda value, spec: tf.cast(value, spec.dtype),
                results.captured,
                gradients.captured_specs,
            )
            micro_batch.update(sums, captured, results.read_by_update)
        values = results.outfeed_values
        return [] if values is None else tf.nest.flatten(values)

    return step


def _deployment(
    tracer: Tracer, arguments: PipelineArguments, micro_batch: MicroBatch
) -> Deployment:
    scopes = [(scope, number) for number, scope in enumerate(micro_batch.trace.scopes)]
    shares_weights, mode = bool(arguments.replicated_weight_sharding), arguments.recomputation_mode
    return Deployment(
        stage_of_layers=stage_of_layers(tracer, micro_batch.function.graph, scopes),
        ipu_of_stages=arguments.ipus,
        schedule=schedule_name(arguments.schedule),
        micro_batches=(arguments.static_count or 1) * arguments.serialization,
        recompute=mode is not RecomputationMode.Auto or tracer.configuration.allow_recompute,
        keeps_checkpoints=mode is not RecomputationMode.RecomputeThenBackpropagate,
        replicas=replica_context.num_replicas(),
        # The trace has refused stages that share a weight. The compiler may multiply a stage's
        # constant factor of a weight into another stage, which then reads the weight itself.
        copies_weights=True,
        offload=Offload(
            optimizer_state=bool(arguments.offload_weight_update_variables),
            shard_optimizer_state=arguments.replicated_optimizer_state_sharding,
            accumulators=bool(arguments.offload_gradient_accumulation_buffers),
            activations=bool(arguments.offload_activations),
            shard_weights=shares_weights,
            weights=shares_weights and bool(arguments.offload_weights),
        ),
        may_move_state=arguments.offload_weight_update_variables is None,
    )


def _roles(tracer: Tracer, micro_batch: MicroBatch) -> VariableRoles:
    gradients = micro_batch.trace.gradients
    if gradients is None:
        return VariableRoles(weights=tracer.trainable_variables)
    optimizer = gradients.output.opt
    state = optimizer.variables
    if callable(state):  # A method in Keras 2 and TensorFlow 1.
        state = state()
    return VariableRoles(weights=gradients.variables, optimizer_state=state)
