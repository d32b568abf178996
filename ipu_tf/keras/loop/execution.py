"""The functions that Keras' training loop calls, one execution each.

They are traced again for every shape and never relaxed: an IPU program has static shapes.
`strategy.run` inlines the work of the device; the loop around it runs on the host.
"""

from __future__ import annotations

import contextlib
import itertools
import weakref
from collections.abc import Callable, Iterable, Mapping
from typing import TypeAlias, cast

import tensorflow as tf
from keras import tree

from ipu_tf.base import spans
from ipu_tf.internals.structures import ArrayStructure, SpecStructure, TensorStructure
from ipu_tf.keras.data import lengths
from ipu_tf.keras.data.infeed import Infeed, InfeedIterator, split_batch, stack_batch
from ipu_tf.keras.loop import jitting
from ipu_tf.keras.loop.device_loop import DeviceLoop
from ipu_tf.keras.loop.host_marks import WaitsForData, taken_by_host
from ipu_tf.keras.loop.step_results import StepResults
from ipu_tf.keras.training_state import LoopFunction

Results: TypeAlias = tuple[TensorStructure, TensorStructure]
"""The summary of the results of an execution, and the results of its steps."""

Run: TypeAlias = Callable[[tf.data.Iterator], Results]


class ExecutionFunction:
    """Runs the steps of an execution, read from an infeed, in one call.

    Args:
        loop: The loop over the steps.
        program: Name of the program of a step.
        replicas: Number of replicas.
        steps: Returns the steps of an execution of the method that is running.
        engine: What runs the loops; see `EngineChoice`.
        summarise: Maps the results of all steps, with leading axes `[steps, replicas]`, to a
            summary that is returned beside them; it becomes a part of the program.
        results: Gets the results of each step while later steps run or, if XLA compiles the loop,
            when the execution ends.
    """

    def __init__(
        self,
        loop: DeviceLoop,
        program: str,
        replicas: int,
        steps: Callable[[], int],
        engine: str,
        summarise: Callable[[TensorStructure], TensorStructure],
        results: StepResults | None = None,
    ) -> None:
        self._loop = loop
        self._program = program
        self._replicas = replicas
        self._steps = steps
        self._engine = engine
        self._summarise = summarise
        self._results = results
        self._by_steps: dict[tuple[int, bool], Run] = {}
        self._jit_function = tf.function(self._run_stacked, jit_compile=True)
        self._stack_function = tf.function(self._run_stacked)
        self._choices: dict[str, jitting.EngineChoice] = {}
        self._infeeds: weakref.WeakKeyDictionary[Infeed, bool] = weakref.WeakKeyDictionary()

    @property
    def steps(self) -> int:
        """Steps of an execution."""
        return self._steps()

    def next_execution(self, iterator: InfeedIterator) -> Results:
        """Runs the next steps of an infeed.

        Returns:
            The summary of the results, and the results of all steps.

        Raises:
            ValueError: The infeed has fewer steps left.
        """
        steps = self.steps
        spec = batch_spec(iterator.infeed.element_spec)
        try:
            if self._reads_jitted(iterator.infeed, spec):
                with spans.span("wait for data", "infeed"):
                    batches = iterator.next_execution(steps)
                with self._span(steps):
                    summary, results = self._jit_function(batches, tf.constant(steps))
                if self._results is not None:
                    with spans.span("take results", "outfeed"):
                        self._results.put_execution(results)
                return summary, results
            key = steps, spans.are_recorded()
            if key not in self._by_steps:
                self._by_steps[key] = self._graph_function(*key)
            with self._span(steps):
                return self._by_steps[key](iterator.steps)
        except (StopIteration, tf.errors.OutOfRangeError) as end:
            raise iterator.infeed.end_of_data() from end

    def batch(self, batch: ArrayStructure) -> Results:
        """Runs one step with the same batch on every replica; returns as above."""
        return self._run(stack_batch(batch, self._replicas), steps=1)

    def parts(self, batch: ArrayStructure, steps: int) -> Results:
        """Runs `steps` steps on equal parts of one batch; returns as above."""
        return self._run(split_batch(batch, steps, self._replicas), steps)

    def _run(self, batches: TensorStructure, steps: int) -> Results:
        spec = batch_spec(batches, outer_axes=1 if self._replicas == 1 else 2)
        function = self._jit_function if self._runs_jitted(spec, steps) else self._stack_function
        with self._span(steps):
            return function(batches, tf.constant(steps))

    def _span(self, steps: int) -> contextlib.AbstractContextManager[None]:
        return spans.span("execute", "execution", program=self._program, steps=steps)

    def _reads_jitted(self, infeed: Infeed, spec: SpecStructure) -> bool:
        """Returns whether XLA compiles the loop over an infeed: one choice for all its epochs."""
        if infeed not in self._infeeds:
            self._infeeds[infeed] = self._runs_jitted(spec, infeed.steps_of_all_epochs)
        return self._infeeds[infeed]

    def _runs_jitted(self, spec: SpecStructure, steps: int) -> bool:
        """Returns whether XLA compiles the loop.

        Args:
            spec: Shapes and types of one replica's batch.
            steps: Steps that are requested now, in addition to earlier requests.
        """
        key = str(spec)
        if key not in self._choices:
            self._choices[key] = jitting.EngineChoice(
                self._loop.concrete_step(spec),
                replicas=self._loop.trained_replicas,
                engine=self._engine,
            )
        return self._choices[key].runs_jitted(steps)

    def _graph_function(self, steps: int, marked: bool) -> Run:
        """Returns the function that reads and runs an execution.

        Args:
            steps: Steps of the execution.
            marked: Whether its waits for data are spans.
        """
        waits = WaitsForData()

        def read(iterator: tf.data.Iterator) -> TensorStructure:
            return waits.read(iterator) if marked else iterator.get_next()

        @tf.autograph.experimental.do_not_convert
        def run(iterator: tf.data.Iterator) -> Results:
            spec = batch_spec(iterator.element_spec, outer_axes=0 if self._replicas == 1 else 1)
            publish = None if self._results is None else self._results.publish
            results = self._loop.run(steps, steps, lambda _: read(iterator), spec, publish)
            return self._summarise(results), results

        return tf.function(run)

    @tf.autograph.experimental.do_not_convert
    def _run_stacked(self, batches: TensorStructure, steps: tf.Tensor) -> Results:
        """Runs the loop over batches that are all present, stacked on their first axes."""
        outer_axes = 1 if self._replicas == 1 else 2
        length = next(leaf for leaf in tree.flatten(batches) if leaf is not None).shape[0]

        def read(step: tf.Tensor) -> TensorStructure:
            return tree.map_structure(lambda leaf: None if leaf is None else leaf[step], batches)

        results = self._loop.run(steps, length, read, batch_spec(batches, outer_axes=outer_axes))
        return self._summarise(results), results


def iterator_function(
    execution: ExecutionFunction,
    *,
    parts_of_batch: Callable[[int], int | None] = lambda samples: None,
    join_logs: Callable[[dict[str, TensorStructure]], TensorStructure],
) -> LoopFunction:
    """Returns Keras' `train_function` or `test_function`.

    Args:
        execution: Runs the steps of an execution.
        parts_of_batch: Maps the samples of a single batch, without an infeed, to the number of
            steps that it is split into, or to None for one step of the whole batch.
        join_logs: Combines the logs of all replicas of the job.

    Returns:
        A function that maps an iterator over batches, or an `InfeedIterator`, to the logs of its
            last step.
    """

    def function(iterator: Iterable[ArrayStructure]) -> TensorStructure:
        if isinstance(iterator, InfeedIterator):
            last, _ = execution.next_execution(iterator)
        else:
            for data in itertools.islice(iterator, execution.steps):
                last, _ = _run_batch(execution, data, parts_of_batch)
        return join_logs(taken_by_host(dict(cast("Mapping[str, TensorStructure]", last))))

    return function


def _run_batch(
    execution: ExecutionFunction, batch: ArrayStructure, parts_of_batch: Callable[[int], int | None]
) -> Results:
    first = next(leaf for leaf in tree.flatten(batch) if leaf is not None)
    steps = parts_of_batch(lengths.axis_length(first))
    return execution.batch(batch) if steps is None else execution.parts(batch, steps)


def predict_function(execution: ExecutionFunction) -> LoopFunction:
    """Returns Keras' `predict_function`, which maps the batches of an execution to predictions.

    Args:
        execution: Runs the steps of an execution.
    """

    def function(batches: list[ArrayStructure]) -> TensorStructure:
        if isinstance(batches[0], InfeedIterator):
            outputs, _ = execution.next_execution(batches[0])
            return taken_by_host(outputs)
        _, results = execution.batch(batches[0])
        return taken_by_host(tree.map_structure(lambda leaf: leaf[-1, -1], results))

    return function


def last_step(logs: TensorStructure) -> TensorStructure:
    """Returns the logs of the last step, with an axis for several replicas.

    Args:
        logs: Tensors of shape `[steps, replicas, ...]`.
    """
    return tree.map_structure(lambda leaf: leaf[-1], logs)


def concatenated(outputs: TensorStructure) -> TensorStructure:
    """Returns the predictions of all steps and replicas, one after the other.

    Args:
        outputs: Tensors of shape `[steps, replicas, batch, ...]`, or `[steps, replicas]`.
    """

    def concatenate(leaf: tf.Tensor) -> tf.Tensor:
        steps, replicas, *sizes = leaf.shape
        if steps * replicas == 1:
            return leaf[0, 0]
        if not sizes:
            return tf.reshape(leaf, [-1])
        return tf.reshape(leaf, [steps * replicas * sizes[0], *sizes[1:]])

    return tree.map_structure(concatenate, outputs)


def batch_spec(data: ArrayStructure | SpecStructure, *, outer_axes: int = 0) -> SpecStructure:
    """Returns the shapes and types of tensors or specs, None for missing parts.

    Args:
        data: A structure of tensors or specs.
        outer_axes: Number of leading axes to leave out.
    """
    return tree.map_structure(
        lambda leaf: (
            tf.TensorSpec(leaf.shape[outer_axes:], leaf.dtype) if hasattr(leaf, "shape") else None
        ),
        data,
    )
