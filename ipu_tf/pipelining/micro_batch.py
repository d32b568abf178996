"""The functions that a pipeline calls: one for a micro-batch, and one that updates the weights."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import tensorflow as tf

from ipu_tf.internals.graphs import call_flat, trace
from ipu_tf.internals.structures import SpecStructure, TensorStructure
from ipu_tf.internals.tensorflow import ConcreteFunction, VariableWatcher
from ipu_tf.pipelining.arguments import PipelineArguments
from ipu_tf.pipelining.gradients import Gradients, gradients_of
from ipu_tf.pipelining.stages import StageResults, check_captures, run_stages
from ipu_tf.scopes import stage_planning


@dataclass(frozen=True, slots=True, kw_only=True)
class MicroBatchResults:
    """The results of a micro-batch, as a structure of tensors.

    Attributes:
        gradients: The gradients of the variables that the loss depends on.
        captured: Captured gradients by tag.
        outfeed_values: What goes to the outfeed; None for nothing.
        read_by_update: Tensors of the micro-batch that the update reads.
    """

    gradients: list[tf.Tensor]
    captured: dict[str, list[tf.Tensor]]
    outfeed_values: TensorStructure
    read_by_update: list[tf.Tensor]


@dataclass(slots=True, kw_only=True)
class TraceOfMicroBatch:
    """What the trace of a micro-batch finds out.

    Attributes:
        scopes: Name scope of each stage.
        gradients: The gradients and the optimizer; None in inference.
        update: The function that updates the weights; None in inference.
        borrowed_positions: Places of tensors of a micro-batch among those that the update captures.
    """

    scopes: tuple[str, ...] = ()
    gradients: Gradients | None = None
    update: ConcreteFunction | None = None
    borrowed_positions: list[int] = field(default_factory=list)


class MicroBatch:
    """A micro-batch of a pipeline, traced into functions.

    Args:
        arguments: Those of the pipeline.
        inputs: The inputs of its first stage.
        element_spec: Shapes and types of an element of the infeed; None without one.
        has_outfeed: Whether there is an outfeed.
        name: Name of the pipeline.

    Raises:
        ValueError: A stage reads tensors that it did not get, or there is no outfeed for results.
    """

    def __init__(
        self,
        arguments: PipelineArguments,
        inputs: Sequence[tf.Tensor],
        element_spec: SpecStructure,
        *,
        has_outfeed: bool,
        name: str,
    ) -> None:
        self._arguments = arguments
        self._has_outfeed = has_outfeed
        self._name = name
        self.trace = TraceOfMicroBatch()
        self._structure = [list(inputs), *([] if element_spec is None else [element_spec])]
        self.specs = [
            tf.TensorSpec(leaf.shape, leaf.dtype) for leaf in tf.nest.flatten(self._structure)
        ]
        index = tf.TensorSpec((), tf.int32)
        self.function = trace(self._step, (index, self.specs), name=f"{name}_micro_batch")
        check_captures(self.function.graph)

    @property
    def results_spec(self) -> MicroBatchResults:
        """Shapes and types of the results."""
        return MicroBatchResults(**self.function.structured_outputs)

    def run(self, index: tf.Tensor, tensors: Sequence[tf.Tensor]) -> MicroBatchResults:
        """Returns the results of a micro-batch; calls the traced function in the current graph.

        Args:
            index: int32 scalar, the number of the micro-batch in a weight update.
            tensors: The inputs of the pipeline, then those of an element of the infeed.
        """
        results = call_flat(self.function, [index, *tensors, *self.function.captured_inputs])
        return MicroBatchResults(**cast(Mapping[str, Any], results))

    def update(
        self,
        gradients: Sequence[tf.Tensor],
        captured: dict[str, list[tf.Tensor]],
        read_by_update: Sequence[tf.Tensor],
    ) -> None:
        """Updates the weights.

        Args:
            gradients: The reduced gradients.
            captured: Captured gradients by tag.
            read_by_update: Tensors of a micro-batch, as in `MicroBatchResults`.
        """
        function = self.trace.update
        if function is None:  # In inference.
            return
        outside = list(function.captured_inputs)
        for position, tensor in zip(self.trace.borrowed_positions, read_by_update, strict=True):
            outside[position] = tensor
        call_flat(function, [*gradients, *tf.nest.flatten(captured), *outside])

    def _step(self, index: tf.Tensor, tensors: list[tf.Tensor]) -> dict[str, Any]:
        inputs, *element = tf.nest.pack_sequence_as(self._structure, tensors)
        with VariableWatcher() as watcher:
            results = run_stages(self._arguments, inputs, element, self._name, index)
            self.trace.scopes = results.scopes
            if self._arguments.optimizer_function is None:
                return _structure(outfeed_values=self._checked_for_outfeed(results.packed))
            output = self._arguments.optimizer_function(*results.tensors)
        gradients = gradients_of(output, self._arguments, watcher.watched_variables())
        self.trace.gradients = gradients
        outfeed_values = gradients.loss if self._arguments.outfeed_loss else self._unmasked(results)
        return _structure(
            gradients=gradients.values,
            captured=gradients.captured,
            outfeed_values=self._checked_for_outfeed(outfeed_values),
            read_by_update=self._trace_update(gradients),
        )

    def _trace_update(self, gradients: Gradients) -> list[tf.Tensor]:
        """Traces the update inside of the micro-batch, whose tensors it may read; returns these."""
        graph = tf.compat.v1.get_default_graph()
        planning = self._arguments.update_planning
        with stage_planning(None if planning is None else {"": planning}):
            update = trace(
                gradients.apply,
                (gradients.sum_specs, gradients.captured_specs),
                name=f"{self._name}_update",
            )
        self.trace.update = update
        read = [
            (position, outer)
            for position, outer in enumerate(update.captured_inputs)
            if getattr(outer, "graph", None) is graph
        ]
        self.trace.borrowed_positions = [position for position, _ in read]
        return [outer for _, outer in read]

    def _unmasked(self, results: StageResults) -> list[tf.Tensor]:
        """Returns the results of the last stage that go to the outfeed in training."""
        mask = self._arguments.outfeed_mask
        if mask is None:
            return results.tensors
        if len(mask) != len(results.tensors):
            raise ValueError(
                f"The last computational stage has {len(results.tensors)} outputs, but "
                f"`outfeed_mask` has {len(mask)} elements: give one for each output. "
                f"Received: outfeed_mask={list(mask)}."
            )
        pairs = zip(mask, results.tensors, strict=True)
        return [tensor for is_masked, tensor in pairs if not is_masked]

    def _checked_for_outfeed(self, values: Any) -> Any:
        """Returns the results for the outfeed, None for none.

        Raises:
            ValueError: There are some, and no outfeed.
        """
        flat = tf.nest.flatten(values)
        if not flat:
            return None
        if not self._has_outfeed:
            shapes = ", ".join(f"{tensor.name} {tensor.shape}" for tensor in flat)
            raise ValueError(
                f"The last computational stage has tensor outputs: {shapes}, but no outfeed_queue "
                "has been provided. Pass an `outfeed_queue`, or return nothing from that stage."
            )
        if self._arguments.accumulate_outfeed and not self._arguments.outfeed_loss:
            return flat
        return values


def _structure(
    gradients: Sequence[tf.Tensor] = (),
    captured: dict[str, list[tf.Tensor]] | None = None,
    outfeed_values: Any = None,
    read_by_update: Sequence[tf.Tensor] = (),
) -> dict[str, Any]:
    """Returns the results of a micro-batch as a structure that a function may return."""
    return {
        "gradients": list(gradients),
        "captured": captured or {},
        "outfeed_values": outfeed_values,
        "read_by_update": list(read_by_update),
    }
