"""Loops of the device whose bodies read an infeed."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable, Mapping
from typing import Any

import tensorflow as tf

from ipu_tf.base import trial
from ipu_tf.feeds.element_arguments import arguments_of
from ipu_tf.feeds.infeed_queue import IPUInfeedQueue
from ipu_tf.internals.autograph import autograph_artifact, converted_like_caller
from ipu_tf.internals.structures import TensorStructure
from ipu_tf.runtime.tracing import hooks, trial_loops

_LOG = logging.getLogger(__name__)


@autograph_artifact
def repeat(
    n: int | tf.Tensor,
    body: Callable[..., object],
    inputs: TensorStructure = None,
    infeed_queue: IPUInfeedQueue | None = None,
    use_while_v1: bool = True,
) -> TensorStructure:
    """Returns the outputs of `n` applications of `body`, each on the outputs of the one before.

    Args:
        n: Number of iterations, an integer or an int32 scalar.
        body: Takes the inputs, then the element of the infeed: a tuple as positional arguments, a
            dict as keyword arguments. Returns as many tensors as there are inputs, then operations.
        inputs: Tensors for the first iteration: a list, or one tensor.
        infeed_queue: Dequeued once in each iteration.
        use_while_v1: Has no effect here.

    Returns:
        A tensor, or a list if there are several inputs; an operation if there are none.

    Raises:
        TypeError: The arguments of `body` do not fit, or it changes the number or the types of the
            inputs.
        ValueError: `body` returns an operation before a tensor.
    """
    del use_while_v1
    body = converted_like_caller(body)
    limit = _end(n)
    return _loop(lambda index, *_: index < limit, body, _tensors(inputs), infeed_queue, None)


@autograph_artifact
def while_loop(
    condition: Callable[..., object],
    body: Callable[..., object],
    inputs: TensorStructure = None,
    infeed_queue: IPUInfeedQueue | None = None,
    maximum_iterations: int | None = None,
    use_while_v1: bool = True,
) -> TensorStructure:
    """Returns the outputs of `body` applied again and again while `condition` holds.

    Args:
        condition: Takes the inputs; returns a bool scalar.
        body: As that of `repeat`.
        inputs: Tensors for the first iteration: a list, or one tensor.
        infeed_queue: Dequeued once in each iteration.
        maximum_iterations: The loop ends after so many iterations; None sets no limit.
        use_while_v1: Has no effect here.

    Returns:
        As `repeat`.

    Raises:
        TypeError: The arguments of `condition` or `body` do not fit, or `body` changes the number
            or the types of the inputs.
        ValueError: `body` returns an operation before a tensor.
    """
    del use_while_v1
    condition, body = converted_like_caller(condition), converted_like_caller(body)
    tensors = _tensors(inputs)
    _check_arguments("condition", condition, tensors, (), {})
    most = trial.step_limit()
    if most is not None:
        maximum_iterations = _trip_count(most if maximum_iterations is None else maximum_iterations)
    return _loop(
        lambda _, *values: condition(*values), body, tensors, infeed_queue, maximum_iterations
    )


def _loop(
    condition: Callable[..., Any],
    body: Callable[..., Any],
    inputs: list[tf.Tensor],
    infeed_queue: IPUInfeedQueue | None,
    maximum_iterations: int | tf.Tensor | None,
) -> Any:
    def step(index: tf.Tensor, *values: tf.Tensor) -> list[tf.Tensor]:
        positional, keywords = _element(infeed_queue)
        _check_arguments("body", body, values, positional, keywords)
        outputs = _outputs(body(*values, *positional, **keywords), values)
        return [index + 1, *outputs]

    index, *results = tf.while_loop(
        condition,
        step,
        [tf.constant(0), *inputs],
        maximum_iterations=maximum_iterations,
        parallel_iterations=1,
    )
    if not results:
        return tf.group(index)
    return results[0] if len(results) == 1 else results


def _end(iterations: int | tf.Tensor) -> tf.Tensor:
    """Returns the iterations of `repeat`; those of a program get their limit with their body."""
    if trial.step_limit() is None or hooks.active() is None:
        return _trip_count(iterations)
    number = tf.get_static_value(tf.convert_to_tensor(iterations, tf.int32))
    if number is None:
        return tf.identity(iterations, name=trial_loops.ITERATIONS)
    return tf.constant(int(number), tf.int32, name=trial_loops.ITERATIONS)


def _trip_count(iterations: int | tf.Tensor) -> tf.Tensor:
    """Returns the iterations of a loop, fewer while a script is tried out."""
    most = trial.step_limit()
    if most is None:
        return tf.convert_to_tensor(iterations, tf.int32)
    number = tf.get_static_value(tf.convert_to_tensor(iterations, tf.int32))
    if number is None:
        return tf.minimum(iterations, most)
    steps = trial.limited_steps(int(number))
    if steps < number:
        trial.note_cut(_LOG, f"A loop runs {steps} of {number} iterations", most)
    return tf.constant(steps, tf.int32)


def _tensors(inputs: Any) -> list[tf.Tensor]:
    if inputs is None:
        return []
    values = list(inputs) if isinstance(inputs, list | tuple) else [inputs]
    return [tf.convert_to_tensor(value) for value in values]


def _element(infeed_queue: IPUInfeedQueue | None) -> tuple[tuple[Any, ...], Mapping[str, Any]]:
    """Returns the next element of the infeed as positional and as named arguments."""
    if infeed_queue is None:
        return (), {}
    if not isinstance(infeed_queue, IPUInfeedQueue):
        raise TypeError(
            f"The infeed of a loop has to be an IPUInfeedQueue. Received: {infeed_queue!r}."
        )
    return arguments_of(infeed_queue.dequeue())


def _check_arguments(
    role: str,
    function: Callable[..., Any],
    inputs: Any,
    positional: tuple[Any, ...],
    keywords: Mapping[str, Any],
) -> None:
    """Checks that a function of a loop takes the arguments that the loop has for it."""
    try:
        signature = inspect.signature(function)
    except ValueError:  # A few built-in functions have none.
        return
    try:
        signature.bind(*inputs, *positional, **keywords)
    except TypeError as error:
        feed = ""
        if positional or keywords:
            names = f" named {', '.join(keywords)}" if keywords else ""
            feed = f" and {len(positional) + len(keywords)} components of the infeed{names}"
        raise TypeError(
            f"The {role} of the loop takes {len(signature.parameters)} arguments, {signature}, "
            f"which do not fit: {error}. The loop passes {len(inputs)} inputs{feed}."
        ) from None


def _outputs(returned: Any, inputs: tuple[tf.Tensor, ...]) -> list[tf.Tensor]:
    """Returns the tensors that a body returned, which wait for the operations after them.

    Args:
        returned: The body's result.
        inputs: The inputs of the iteration.
    """
    values = list(returned) if isinstance(returned, list | tuple) else [returned]
    values = [value for value in values if value is not None]
    is_operation = [isinstance(value, tf.Operation) for value in values]
    if is_operation != sorted(is_operation):
        raise ValueError(
            "The body of the loop must return tensors first, then operations. "
            f"Received: {values!r}."
        )
    operations = values[is_operation.count(False) :]
    tensors = [tf.convert_to_tensor(value) for value in values[: is_operation.count(False)]]
    if len(tensors) != len(inputs):
        raise TypeError(
            f"The body of the loop must return as many tensors as it has inputs, {len(inputs)}. "
            f"Received: {len(tensors)} tensors."
        )
    for index, (tensor, value) in enumerate(zip(tensors, inputs, strict=True)):
        if tensor.dtype != value.dtype:
            raise TypeError(
                f"The body of the loop must return tensors of the types of its inputs. Output "
                f"{index} has type {tensor.dtype.name}, input {index} has type "
                f"{value.dtype.name}."
            )
    with tf.control_dependencies(operations):
        return [tf.identity(tensor) for tensor in tensors]
