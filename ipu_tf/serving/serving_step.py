"""The step of an exported program that the device runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from ipu_tf.compiler.pipeline.deployment import Deployment
from ipu_tf.internals.structures import TensorStructure
from ipu_tf.runtime.execution import boundary
from ipu_tf.serving.signatures import StepSignature
from ipu_tf.strategy import IPUStrategyV1

Arguments = tuple[tuple[TensorStructure, ...], Mapping[str, TensorStructure]]
"""Positional and keyword arguments."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedStep:
    """A step of the device with its inputs.

    Attributes:
        step: The step; its name is that of the program.
        arguments: Maps flat inputs to the arguments of the step.
        signature: Shapes, dtypes and names of the flat inputs.
        iterations: Steps of one execution of the device.
        resources: Objects whose variables and tables the step uses.
        deployment: returns how the traced step runs as a pipeline, None if it does not.
    """

    step: Callable[..., object]
    arguments: Callable[[Sequence[object]], Arguments]
    signature: StepSignature
    iterations: int
    resources: tuple[object, ...] = ()
    deployment: Callable[[], Deployment | None] = lambda: None

    def call(self, inputs: Sequence[tf.Tensor]) -> TensorStructure:
        """Returns the results of the step on the host."""
        args, kwargs = self.arguments(inputs)
        return self.step(*args, **kwargs)

    def run(self, strategy: tf.distribute.Strategy, inputs: Sequence[tf.Tensor]) -> TensorStructure:
        """Returns the results of the step as a program of the strategy's device."""
        args, kwargs = self.arguments(inputs)
        return strategy.run(self.step, args=args, kwargs=dict(kwargs))


class Predictor:
    """Owner of a user's function that the device runs as a step of prediction.

    Reports name the program after the function, and repeat it as often as an execution does.

    Args:
        function: The function of a step.
        iterations: Steps of one execution of the device.
    """

    def __init__(self, function: Callable[..., object], iterations: int) -> None:
        self.name = str(getattr(function, "__name__", type(function).__name__)).strip("<>")
        self.steps_per_execution = iterations
        is_traced = isinstance(function, tf.types.experimental.PolymorphicFunction)
        is_concrete = isinstance(function, tf.types.experimental.ConcreteFunction)
        self._function = function if is_traced or is_concrete else _without_operations(function)

    @tf.autograph.experimental.do_not_convert
    def predict_step(self, *args: object, **kwargs: object) -> TensorStructure:
        """Returns the results of the function."""
        return self._function(*args, **kwargs)


def _without_operations(function: Callable[..., Any]) -> Any:
    """Returns a tf.function of a function that may return operations, such as those of loops."""

    def step(*args: Any, **kwargs: Any) -> Any:
        return boundary.without_operations(function(*args, **kwargs))

    return tf.function(step)


def served_function(
    function: Callable[..., object], signature: StepSignature, iterations: int
) -> ServedStep:
    """Returns a user's function as a step of the device.

    Raises:
        ValueError: `iterations` is no positive whole number.
    """
    check_iterations(iterations)

    def arguments(inputs: Sequence[TensorStructure]) -> Arguments:
        structured = signature.structured(inputs)
        return ((), structured) if isinstance(structured, dict) else (structured, {})

    return ServedStep(
        step=Predictor(function, iterations).predict_step,
        arguments=arguments,
        signature=signature,
        iterations=iterations,
        resources=(function,),
    )


def check_iterations(iterations: object) -> None:
    """Checks the number of steps of an execution.

    Raises:
        ValueError: It is no positive whole number.
    """
    if isinstance(iterations, bool) or not isinstance(iterations, int) or iterations < 1:
        raise ValueError(
            f"`iterations` must be a positive integer. Received: iterations={iterations!r}."
        )


def strategy_in_force(
    otherwise: tf.distribute.Strategy | None = None,
) -> tf.distribute.Strategy:
    """Returns the IPU strategy whose scope is open.

    Args:
        otherwise: The strategy to return outside of scopes; None for a new one.
    """
    strategy = tf.distribute.get_strategy()
    if isinstance(strategy, IPUStrategyV1):
        return strategy
    return otherwise or IPUStrategyV1(enable_keras_extensions=False)
