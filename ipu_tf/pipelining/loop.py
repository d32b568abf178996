"""The loops of a pipeline: micro-batches of a weight update, and weight updates."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from ipu_tf.base import trial
from ipu_tf.internals.graphs import call_flat, set_op_attribute, trace
from ipu_tf.pipelining import accumulation
from ipu_tf.pipelining.arguments import PipelineArguments
from ipu_tf.pipelining.feeds import Feeds
from ipu_tf.pipelining.micro_batch import MicroBatch, MicroBatchResults
from ipu_tf.runtime.extraction.deployments import COMPILED_APART

Carry = dict[str, list[tf.Tensor]]


def run_loop(
    arguments: PipelineArguments,
    micro_batch: MicroBatch,
    inputs: Sequence[tf.Tensor],
    feeds: Feeds,
    name: str,
) -> tf.Operation:
    """Returns the operation that runs a pipeline, created in the graph that is being built.

    Args:
        arguments: Those of the pipeline.
        micro_batch: Its traced functions.
        inputs: The inputs of its first stage.
        feeds: Its queues.
        name: Its name.
    """
    loop = _Loop(arguments, micro_batch, feeds)
    micro_batches = tf.convert_to_tensor(arguments.micro_batches, tf.int32)
    tensors = [*inputs, micro_batches]
    specs = [tf.TensorSpec(tensor.shape, tensor.dtype) for tensor in tensors]
    function = trace(loop.run, (specs,), name=f"{name}_run")
    with tf.name_scope(name):
        call_flat(function, [*tensors, *function.captured_inputs])
    operation = tf.compat.v1.get_default_graph().get_operations()[-1]
    # The program around it does not compile it once more.
    set_op_attribute(operation, COMPILED_APART, tf.compat.v1.AttrValue(b=True))
    return operation


class _Loop:
    """Builds the loops.

    Args:
        arguments: Those of the pipeline.
        micro_batch: Its traced functions.
        feeds: Its queues.
    """

    def __init__(self, arguments: PipelineArguments, micro_batch: MicroBatch, feeds: Feeds) -> None:
        self._arguments = arguments
        self._micro_batch = micro_batch
        self._feeds = feeds

    def run(self, tensors: list[tf.Tensor]) -> None:
        """Runs all executions.

        Args:
            tensors: The inputs, then the number of micro-batches (int32 scalar).
        """
        *inputs, count = tensors
        if self._arguments.repeat_count == 1:
            self._execution(inputs, count)
            return

        def execution(index: tf.Tensor) -> tuple[tf.Tensor]:
            self._execution(inputs, count)
            return (index + 1,)

        tf.while_loop(
            lambda index: index < self._arguments.repeat_count,
            execution,
            (tf.constant(0),),
            parallel_iterations=1,
        )

    def _execution(self, inputs: Sequence[tf.Tensor], count: tf.Tensor) -> None:
        """Runs the micro-batches of a weight update, then the update."""

        def body(index: tf.Tensor, carry: Carry) -> tuple[tf.Tensor, Carry]:
            element = self._feeds.dequeue()
            results = self._micro_batch.run(index, [*inputs, *tf.nest.flatten(element)])
            if not self._arguments.accumulate_outfeed:
                self._feeds.enqueue(results.outfeed_values)
            return index + 1, self._next_carry(carry, results, index, count)

        with trial.steps_limited_to(None):  # An update takes all of its micro-batches.
            _, carry = tf.while_loop(
                lambda index, _: index < count,
                body,
                (tf.constant(0), self._empty()),
                parallel_iterations=1,
            )
        spec = self._micro_batch.results_spec
        captured = tf.nest.pack_sequence_as(spec.captured, carry["captured"])
        self._micro_batch.update(carry["gradients"], captured, carry["read_by_update"])
        if self._arguments.accumulate_outfeed and spec.outfeed_values is not None:
            self._feeds.enqueue(
                tf.nest.pack_sequence_as(spec.outfeed_values, carry["outfeed_values"])
            )

    def _empty(self) -> Carry:
        """Returns sums of no micro-batches."""
        spec = self._micro_batch.results_spec
        gradients = self._micro_batch.trace.gradients
        sums = [] if gradients is None else gradients.sum_specs
        captured = [] if gradients is None else tf.nest.flatten(gradients.captured_specs)
        return {
            "gradients": [accumulation.zeros(one.shape, one.dtype) for one in sums],
            "captured": [accumulation.zeros(one.shape, one.dtype) for one in captured],
            "outfeed_values": [
                accumulation.zeros(
                    one.shape,
                    accumulation.dtype_of(one, self._arguments.accumulate_outfeed_dtype),
                )
                for one in self._feed_values(spec.outfeed_values)
            ],
            "read_by_update": [
                accumulation.zeros(one.shape, one.dtype) for one in spec.read_by_update
            ],
        }

    def _next_carry(
        self, carry: Carry, results: MicroBatchResults, index: tf.Tensor, count: tf.Tensor
    ) -> Carry:
        """Returns the sums with one more micro-batch."""
        method, add = self._arguments.reduction_method, accumulation.added
        captured = tf.nest.flatten(results.captured)
        if self._arguments.accumulates_captured:
            captured = add(carry["captured"], captured, method, index, count)
        sums = accumulation.Method.SUM
        return {
            "gradients": add(carry["gradients"], results.gradients, method, index, count),
            "captured": captured,
            "outfeed_values": add(
                carry["outfeed_values"],
                self._feed_values(results.outfeed_values),
                sums,
                index,
                count,
            ),
            "read_by_update": results.read_by_update,
        }

    def _feed_values(self, result: Any) -> list[Any]:
        """Returns what is summed for the outfeed, one by one."""
        accumulates = self._arguments.accumulate_outfeed and result is not None
        return tf.nest.flatten(result) if accumulates else []
