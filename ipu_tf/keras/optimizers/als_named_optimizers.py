"""Adam, SGD and RMSProp with automatic loss scaling, made from their own arguments."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Self

import keras

from ipu_tf.keras.optimizers.als_optimizer import ALSOptimizer
from ipu_tf.keras.optimizers.ipu_optimizer_base import AnyOptimizer, Rate


class NamedALSBody(AnyOptimizer):
    """An `ALSOptimizer` whose configuration holds the arguments of the optimizer that it makes.

    It trains the same values as an `ALSOptimizer` around that optimizer.
    """

    _keras: ClassVar[Any]
    _optimizers: ClassVar[Any] = keras.optimizers
    _inner_arguments: ClassVar[tuple[str, ...]]

    def get_config(self) -> dict[str, object]:
        """Returns the arguments that make this optimizer."""
        inner = self.inner_optimizer.get_config()
        settings = super().get_config()
        del settings["opt"]
        return {**{name: inner[name] for name in self._inner_arguments}, **settings}

    @classmethod
    def from_config(
        cls, config: Mapping[str, object], custom_objects: Mapping[str, object] | None = None
    ) -> Self:
        """Returns the optimizer that `get_config` describes."""
        arguments: dict[str, Any] = dict(config)
        if isinstance(arguments["learning_rate"], dict):  # A schedule.
            arguments["learning_rate"] = cls._keras.saving.deserialize_keras_object(
                arguments["learning_rate"], custom_objects=custom_objects
            )
        return cls(**arguments)


class ALSOptimizerAdamBody(NamedALSBody):
    """The parts of `ALSOptimizerAdam` that are the same over any Keras."""

    _inner_arguments = ("learning_rate", "beta_1", "beta_2", "epsilon")

    def __init__(
        self,
        learning_rate: Rate = 0.001,
        beta_1: float = 0.9,
        beta_2: float = 0.999,
        epsilon: float = 1e-07,
        *settings: float,
        name: str = "ALSOptimizerAdam",
        **named_settings: float,
    ) -> None:
        inner = self._optimizers.Adam(learning_rate, beta_1, beta_2, epsilon)
        super().__init__(inner, *settings, **{"name": name, **named_settings})


class ALSOptimizerSGDBody(NamedALSBody):
    """The parts of `ALSOptimizerSGD` that are the same over any Keras."""

    _inner_arguments = ("learning_rate", "momentum")

    def __init__(
        self,
        learning_rate: Rate = 0.01,
        momentum: float = 0.0,
        *settings: float,
        name: str = "ALSOptimizerSGD",
        **named_settings: float,
    ) -> None:
        inner = self._optimizers.SGD(learning_rate, momentum)
        super().__init__(inner, *settings, **{"name": name, **named_settings})


class ALSOptimizerRMSPropBody(NamedALSBody):
    """The parts of `ALSOptimizerRMSProp` that are the same over any Keras."""

    _inner_arguments = ("learning_rate", "rho", "momentum", "epsilon", "centered")

    def __init__(
        self,
        learning_rate: Rate = 0.001,
        rho: float = 0.9,
        momentum: float = 0.0,
        epsilon: float = 1e-07,
        centered: bool = False,
        *settings: float,
        name: str = "ALSOptimizerRMSProp",
        **named_settings: float,
    ) -> None:
        inner = self._optimizers.RMSprop(learning_rate, rho, momentum, epsilon, centered)
        super().__init__(inner, *settings, **{"name": name, **named_settings})


@keras.saving.register_keras_serializable("ipu_tf")
class ALSOptimizerAdam(ALSOptimizerAdamBody, ALSOptimizer):
    """Adam with automatic loss scaling.

    Args:
        learning_rate: As in `keras.optimizers.Adam`, also all arguments up to `epsilon`.
        *settings: Settings of `ALSOptimizer`, in its order.
        name: Name of the optimizer.
        **named_settings: Settings of `ALSOptimizer`, by their names.

    Raises:
        ValueError: A setting is out of its range.
    """


@keras.saving.register_keras_serializable("ipu_tf")
class ALSOptimizerSGD(ALSOptimizerSGDBody, ALSOptimizer):
    """SGD with automatic loss scaling.

    Args:
        learning_rate: As in `keras.optimizers.SGD`.
        momentum: See there.
        *settings: Settings of `ALSOptimizer`, in its order.
        name: Name of the optimizer.
        **named_settings: Settings of `ALSOptimizer`, by their names.

    Raises:
        ValueError: A setting is out of its range.
    """


@keras.saving.register_keras_serializable("ipu_tf")
class ALSOptimizerRMSProp(ALSOptimizerRMSPropBody, ALSOptimizer):
    """RMSProp with automatic loss scaling.

    Args:
        learning_rate: As in `keras.optimizers.RMSprop`, also all arguments up to `centered`.
        *settings: Settings of `ALSOptimizer`, in its order.
        name: Name of the optimizer.
        **named_settings: Settings of `ALSOptimizer`, by their names.

    Raises:
        ValueError: A setting is out of its range.
    """
