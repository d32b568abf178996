"""Model classes of their own, which the vendor's earlier releases had.

Their options were arguments of the model, and their steps were weight updates.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

import keras

from ipu_tf.compat.earlier_steps import StepsAreUpdates
from ipu_tf.internals.keras import KerasFunctional, is_functional_call
from ipu_tf.keras.keras3 import models
from ipu_tf.keras.options import DtypeOption
from ipu_tf.keras.pipeline import PipelineStage

__all__ = ["Model", "PipelineModel", "PipelineSequential", "Sequential", "SequentialPipelineModel"]

_LOG = logging.getLogger(__name__)


class Model(StepsAreUpdates, models.Model):
    """A functional model whose accumulation of gradients is set by its arguments.

    Args:
        *args: Inputs and outputs, as of `keras.Model`.
        gradient_accumulation_count: Micro-batches of a weight update on each replica.
        gradient_accumulation_dtype: Dtype of the accumulators, or a function of a variable.
        layer_replacement: Without effect: Keras' own layers run on the device.
        accumulation_count: `gradient_accumulation_count` in still earlier releases.
        accumulation_dtype: `gradient_accumulation_dtype` in still earlier releases.
        **kwargs: Further arguments of `keras.Model`.

    Raises:
        ValueError: An argument is given under both names.
    """

    def __new__(cls, *args: Any, **kwargs: Any) -> Model:
        """Returns an uninitialised model, a functional one for inputs and outputs."""
        is_functional = cls is Model and is_functional_call(args, kwargs)
        return keras.Model.__new__(_Functional if is_functional else cls)

    def __init__(
        self,
        *args: object,
        gradient_accumulation_count: int | None = None,
        gradient_accumulation_dtype: DtypeOption = None,
        layer_replacement: bool = False,
        accumulation_count: int | None = None,
        accumulation_dtype: DtypeOption = None,
        **kwargs: object,
    ) -> None:
        del layer_replacement
        super().__init__(*args, **kwargs)
        _set_accumulation(
            self,
            _renamed("accumulation_count", accumulation_count, gradient_accumulation_count),
            _renamed("accumulation_dtype", accumulation_dtype, gradient_accumulation_dtype),
        )


class _Functional(Model, models.Functional):
    """A `Model` of inputs and outputs."""

    _stands_for = KerasFunctional


class Sequential(StepsAreUpdates, models.Sequential):
    """A Sequential whose accumulation of gradients is set by its arguments.

    Args:
        layers: The layers.
        gradient_accumulation_count: Micro-batches of a weight update on each replica.
        gradient_accumulation_dtype: Dtype of the accumulators, or a function of a variable.
        layer_replacement: Without effect: Keras' own layers run on the device.
        accumulation_count: `gradient_accumulation_count` in still earlier releases.
        accumulation_dtype: `gradient_accumulation_dtype` in still earlier releases.
        trainable: As of `keras.Sequential`.
        name: Name of the model.

    Raises:
        ValueError: An argument is given under both names.
    """

    _stands_for = keras.Sequential

    def __init__(
        self,
        layers: list[keras.Layer] | None = None,
        gradient_accumulation_count: int | None = None,
        gradient_accumulation_dtype: DtypeOption = None,
        layer_replacement: bool = False,
        accumulation_count: int | None = None,
        accumulation_dtype: DtypeOption = None,
        trainable: bool = True,
        name: str | None = None,
    ) -> None:
        del layer_replacement
        super().__init__(layers, trainable, name)
        _set_accumulation(
            self,
            _renamed("accumulation_count", accumulation_count, gradient_accumulation_count),
            _renamed("accumulation_dtype", accumulation_dtype, gradient_accumulation_dtype),
        )


class PipelineModel(StepsAreUpdates, models.Model):
    """A functional model whose layers are in scopes of `PipelineStage`.

    Args:
        *args: Inputs and outputs, as of `keras.Model`.
        gradient_accumulation_count: Micro-batches of a weight update on each replica.
        inputs: The inputs, if not in `args`.
        outputs: The outputs, if not in `args`.
        name: Name of the model.
        **options: Further arguments of `set_pipelining_options`, and `layer_replacement`.
    """

    def __init__(
        self,
        *args: object,
        gradient_accumulation_count: int | None = None,
        inputs: keras.KerasTensor | Sequence[keras.KerasTensor] | None = None,
        outputs: keras.KerasTensor | Sequence[keras.KerasTensor] | None = None,
        name: str | None = None,
        **options: object,
    ) -> None:
        given = (one for one in (inputs, outputs) if one is not None)
        super().__init__(*args, *given, name=name)
        _set_pipelining(self, gradient_accumulation_count, options)


class PipelineSequential(StepsAreUpdates, models.Sequential):
    """A Sequential that is made of the layers of each of its stages.

    Args:
        stages: A list of layers for each stage.
        gradient_accumulation_count: Micro-batches of a weight update on each replica.
        name: Name of the model.
        **options: Further arguments of `set_pipelining_options`, and `layer_replacement`.

    Raises:
        ValueError: There is no stage, or a stage is not a list of layers.
    """

    def __init__(
        self,
        stages: Sequence[Sequence[keras.Layer]],
        gradient_accumulation_count: int | None = None,
        name: str | None = None,
        **options: object,
    ) -> None:
        _check_stages(type(self).__name__, stages)
        super().__init__(name=name)
        for number, layers in enumerate(stages):
            for layer in layers:
                with PipelineStage(number):
                    self.add(layer)
        stage_of_layer = [number for number, layers in enumerate(stages) for _ in layers]
        self.set_pipeline_stage_assignment(stage_of_layer)
        _set_pipelining(self, gradient_accumulation_count, options)


SequentialPipelineModel = PipelineSequential
"""The name of `PipelineSequential` in still earlier releases."""


def _renamed(old_name: str, old: Any, new: Any) -> Any:
    """Returns the value of an argument that has two names.

    Raises:
        ValueError: It is given under both.
    """
    if old is not None and new is not None:
        raise ValueError(
            f"Arguments `{old_name}` and `gradient_{old_name}` cannot be used together: they are "
            f"one argument. Received: {old!r} and {new!r}."
        )
    if old is not None:
        _LOG.warning("`%s` is `gradient_%s` in later releases.", old_name, old_name)
    return new if old is None else old


def _set_accumulation(model: Any, count: int | None, dtype: Any) -> None:
    model.gradient_accumulation_count = count or 1
    model.set_gradient_accumulation_options(count, dtype=dtype)


def _set_pipelining(model: Any, count: int | None, options: dict[str, Any]) -> None:
    options.pop("layer_replacement", None)  # Keras' own layers run on the device.
    if options.get("batch_serialization_iterations") == 1:
        del options["batch_serialization_iterations"]
    model.gradient_accumulation_count = count or 1
    model.set_pipelining_options(gradient_accumulation_steps_per_replica=count, **options)


def _check_stages(name: str, stages: Any) -> None:
    if not (isinstance(stages, Sequence) and stages and all(map(_are_layers, stages))):
        raise ValueError(
            f"{name} takes a list with a list of layers for each stage, such as "
            f"[[Dense(8)], [Dense(1)]]. Received: {stages!r}."
        )


def _are_layers(stage: Any) -> bool:
    return isinstance(stage, Sequence) and all(isinstance(one, keras.Layer) for one in stage)
