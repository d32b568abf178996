"""`pipeline`: stage functions that run on micro-batches, each on its IPU."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import tensorflow as tf

from ipu_tf.feeds.infeed_queue import IPUInfeedQueue
from ipu_tf.feeds.outfeed_queue import IPUOutfeedQueue
from ipu_tf.gradient_accumulation import GradientAccumulationReductionMethod
from ipu_tf.ops.kernels import replica_context
from ipu_tf.ops.pipelining_ops import PipelineSchedule, PipelineStageOptions, RecomputationMode
from ipu_tf.pipelining import arguments as argument_checks
from ipu_tf.pipelining import device_step
from ipu_tf.pipelining.feeds import Feeds
from ipu_tf.pipelining.loop import run_loop
from ipu_tf.pipelining.micro_batch import MicroBatch
from ipu_tf.programs.program import Program
from ipu_tf.runtime.tracing import hooks
from ipu_tf.runtime.tracing.tracer import Tracer


@tf.autograph.experimental.do_not_convert
def pipeline(
    computational_stages: Sequence[Callable[..., object] | Sequence[Callable[..., object]]],
    gradient_accumulation_count: int | tf.Tensor | None = None,
    gradient_accumulation_dtype: tf.DType | str | None = None,
    gradient_accumulation_for_captured_grads: bool = True,
    repeat_count: int = 1,
    batch_serialization_iterations: int = 1,
    inputs: Sequence[tf.Tensor] | None = None,
    infeed_queue: IPUInfeedQueue | None = None,
    outfeed_queue: IPUOutfeedQueue | None = None,
    optimizer_function: Callable[..., object] | None = None,
    device_mapping: Sequence[int | Sequence[int]] | None = None,
    pipeline_schedule: PipelineSchedule | None = None,
    recomputation_mode: RecomputationMode | None = None,
    forward_propagation_stages_poplar_options: Sequence[PipelineStageOptions] | None = None,
    backward_propagation_stages_poplar_options: Sequence[PipelineStageOptions] | None = None,
    weight_update_poplar_options: PipelineStageOptions | None = None,
    offload_weight_update_variables: bool | None = None,
    replicated_optimizer_state_sharding: bool = False,
    offload_activations: bool | None = None,
    offload_gradient_accumulation_buffers: bool | None = None,
    replicated_weight_sharding: bool | None = None,
    offload_weights: bool | None = None,
    continuous_weight_updates: bool = False,
    outfeed_loss: bool = False,
    accumulate_outfeed: bool = False,
    accumulate_outfeed_dtype: tf.DType | str | None = None,
    outfeed_mask: Sequence[bool] | None = None,
    reduction_method: GradientAccumulationReductionMethod
    | str = GradientAccumulationReductionMethod.SUM,
    name: str | None = None,
) -> tf.Operation:
    """Runs stage functions as a pipeline over IPUs, and returns the operation that does.

    The first stage takes `inputs` and an element of the infeed, each later stage the results of the
    one before it. With an optimizer function the pipeline trains: it adds up the gradients of
    `gradient_accumulation_count` micro-batches, then updates the weights once; all that
    `repeat_count` times. The numbers are those of the micro-batches one after the other. The
    options of stages are checked and have no effect; those that move data off the tiles, the
    schedule and the recomputation change the figures of the report alone.

    Args:
        computational_stages: A function for each stage, or a list of functions that work side by
            side on IPUs of their own: each takes the results of the stage before, and the next
            stage those of all of them. The report models them as stages one after the other.
        gradient_accumulation_count: Micro-batches of a weight update, or of an execution.
        gradient_accumulation_dtype: Type of the sums of gradients: a type, a function from a
            variable to one, or None for the type of each variable.
        gradient_accumulation_for_captured_grads: Whether captured gradients are summed, too; else
            the optimizer gets those of the last micro-batch.
        repeat_count: Number of executions, each with one weight update.
        batch_serialization_iterations: Micro-batches that a stage runs before the next one begins;
            it multiplies the micro-batches of an update.
        inputs: Tensors for the first stage, the same for every micro-batch.
        infeed_queue: Gives the first stage an element for every micro-batch.
        outfeed_queue: Takes the results of the last stage.
        optimizer_function: Maps the results of the last stage to an `OptimizerFunctionOutput`.
        device_mapping: IPU of each stage; stage i is on IPU i by default. A stage of several
            functions has a list of them.
        pipeline_schedule: Order of the stages; Grouped by default.
        recomputation_mode: How backward passes get the activations.
        forward_propagation_stages_poplar_options: Options of each stage.
        backward_propagation_stages_poplar_options: Options of each stage's backward pass.
        weight_update_poplar_options: Options of the weight update.
        offload_weight_update_variables: Whether the optimizer state is in streaming memory.
        replicated_optimizer_state_sharding: Whether replicas share it out, there or on the tiles.
        offload_activations: Whether waiting activations are in streaming memory.
        offload_gradient_accumulation_buffers: Whether sums of gradients are.
        replicated_weight_sharding: Whether replicas share the weights out.
        offload_weights: Whether such shares are in streaming memory.
        continuous_weight_updates: Not supported.
        outfeed_loss: Whether the outfeed takes the loss, not the results of the last stage.
        accumulate_outfeed: Whether the outfeed takes sums over an execution.
        accumulate_outfeed_dtype: Type of these sums, as `gradient_accumulation_dtype`.
        outfeed_mask: True for each result of the last stage that the outfeed does not take.
        reduction_method: How the gradients of micro-batches are reduced.
        name: Name of the pipeline.

    Raises:
        NotImplementedError: The machine has no such pipeline.
        RuntimeError: It is called outside of a program of the IPU, or there is nothing to optimize.
        TypeError: An argument is of another type.
        ValueError: An argument is out of range, a stage reads a tensor that it did not get, or the
            device has fewer IPUs than the stages.
        tf.errors.FailedPreconditionError: The micro-batches do not fill the schedule.
    """
    options = dict(locals())
    arguments = argument_checks.checked(
        computational_stages=computational_stages,
        gradient_accumulation_count=gradient_accumulation_count,
        repeat_count=repeat_count,
        batch_serialization_iterations=batch_serialization_iterations,
        optimizer_function=optimizer_function,
        device_mapping=device_mapping,
        pipeline_schedule=pipeline_schedule,
        recomputation_mode=recomputation_mode,
        stage_options={
            option: options[option]
            for option in (
                "forward_propagation_stages_poplar_options",
                "backward_propagation_stages_poplar_options",
            )
        },
        weight_update_options=weight_update_poplar_options,
        flags=argument_checks.flags_of(options),
        sharding=replicated_optimizer_state_sharding,
        continuous_weight_updates=continuous_weight_updates,
        outfeed_loss=outfeed_loss,
        outfeed_mask=outfeed_mask,
        reduction_method=reduction_method,
        gradient_accumulation_dtype=gradient_accumulation_dtype,
        accumulates_captured=gradient_accumulation_for_captured_grads,
        accumulate_outfeed=bool(accumulate_outfeed),
        accumulate_outfeed_dtype=accumulate_outfeed_dtype,
    )
    feeds = Feeds.checked(infeed_queue, outfeed_queue, arguments)
    arguments.check_depth()
    tracer = hooks.active()
    if tracer is None:
        raise RuntimeError(
            "`pipeline` runs inside of a program of the IPU: call it in a tf.function that "
            "`strategy.run` runs, or in the computation of `ipu_compiler.compile`."
        )
    replica_context.require_ipus(max(arguments.ipus) + 1)
    name = name or "pipeline"
    tensors = [tf.convert_to_tensor(value) for value in ([] if inputs is None else inputs)]
    steps = arguments.static_count
    program = Program(
        name=f"{tracer.program.name}.{name}",
        steps_per_execution=(steps or 1) * arguments.serialization * arguments.repeat_count,
    )
    own = Tracer(program, tracer.configuration)
    with hooks.tracing(own):
        micro_batch = MicroBatch(
            arguments,
            tensors,
            feeds.element_spec,
            has_outfeed=feeds.outfeed is not None,
            name=name,
        )
        _check_shards(own)
        tracer.take_over(own)
        device_step.compile_step(own, arguments, micro_batch)
    if optimizer_function is not None:
        tracer.pipeline_updates = arguments.repeat_count
    return run_loop(arguments, micro_batch, tensors, feeds, name)


def _check_shards(tracer: Tracer) -> None:
    """Checks that stages use no `ipu_shard`.

    Raises:
        ValueError: One does.
    """
    if tracer.shards:
        scope, ipu = tracer.shards[0]
        raise ValueError(
            "A stage of a pipeline is on the IPU of `device_mapping`: remove `ipu_shard` from its "
            f"function. Received: ipu_shard({ipu}) in '{scope}'."
        )
