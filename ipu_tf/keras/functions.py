"""The functions that a model's training loop calls, one execution each.

They are traced anew for every shape, never relaxed: a program of the IPU has static shapes. What
runs on the device is inlined by `strategy.run`; the iteration around it belongs to the host.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf

Step = Callable[[Any], Any]
"""One batch of data to the metrics of a step, or to the predictions."""


def iterator_function(
    strategy: tf.distribute.Strategy, step: Step, steps_per_execution: int
) -> Callable[[Any], Any]:
    """Returns Keras' `train_function` or `test_function`.

    Args:
        strategy: Runs the steps.
        step: `model.train_step` or `model.test_step`.
        steps_per_execution: Batches that one call consumes. The last call consumes what is left.

    Returns:
        A function of an iterator over batches to the logs of its last step. It raises
        `tf.errors.OutOfRangeError` when a `tf.data.Iterator` has no batch left.
    """
    run_step = _step_function(strategy, step)
    execution = tf.function(_next_batches(run_step, steps_per_execution))

    def function(iterator: Any) -> Any:
        if isinstance(iterator, tf.data.Iterator):
            return execution(iterator)
        logs = None
        for _, data in zip(range(steps_per_execution), iterator, strict=False):
            logs = run_step(data)
        return logs

    return function


def _step_function(strategy: tf.distribute.Strategy, step: Step) -> Step:
    """Returns a function that runs `step` on a batch, to be called from every execution."""

    @tf.autograph.experimental.do_not_convert
    def run_step(data: Any) -> Any:
        return strategy.run(step, args=(data,))

    return tf.function(run_step)


def _next_batches(run_step: Step, steps: int) -> Callable[[tf.data.Iterator], Any]:
    """Returns a loop over up to `steps` batches, with the logs of the last one."""

    @tf.autograph.experimental.do_not_convert
    def run(iterator: tf.data.Iterator) -> Any:
        def body(step: tf.Tensor, logs: Any) -> tuple[tf.Tensor, Any]:
            batch = iterator.get_next_as_optional()
            return tf.cond(
                batch.has_value(),
                lambda: (step + 1, run_step(batch.get_value())),
                lambda: (tf.constant(steps), logs),
            )

        # The first step is outside of the loop: its logs tell the loop what it carries.
        first = run_step(iterator.get_next())
        if steps == 1:
            return first
        _, logs = tf.while_loop(
            lambda step, _: step < steps, body, (tf.constant(1), first), parallel_iterations=1
        )
        return logs

    return run


def predict_function(strategy: tf.distribute.Strategy, step: Step) -> Callable[[list[Any]], Any]:
    """Returns Keras' `predict_function`.

    Args:
        strategy: Runs the steps.
        step: `model.predict_step`.

    Returns:
        A function of the batches of one execution to their predictions, concatenated.
    """
    run_step = _step_function(strategy, step)

    @tf.autograph.experimental.do_not_convert
    def run(batches: list[Any]) -> Any:
        outputs = [run_step(batch) for batch in batches]
        if len(outputs) == 1:
            return outputs[0]
        return keras.tree.map_structure(_concatenate, *outputs)

    return tf.function(run)


def _concatenate(*parts: tf.Tensor) -> tf.Tensor:
    return tf.stack(parts) if parts[0].shape.rank == 0 else tf.concat(parts, axis=0)
