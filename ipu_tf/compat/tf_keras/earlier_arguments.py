"""Options of models that were arguments of the model classes of the vendor's earlier releases.

The bodies of the classes of `earlier_models`.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any, ClassVar

from ipu_tf.compat.tf_keras.earlier_steps import StepsAreUpdates
from ipu_tf.keras.adapters.graphs import Layer, Structure
from ipu_tf.keras.options import DtypeOption
from ipu_tf.keras.pipeline import PipelineStage

_LOG = logging.getLogger(__name__)


class AccumulatesByArguments(StepsAreUpdates):
    """A model whose accumulation of gradients is set by its arguments.

    Args:
        *args: As of the model of today.
        gradient_accumulation_count: Micro-batches of a weight update on each replica.
        gradient_accumulation_dtype: Dtype of the accumulators, or a function of a variable.
        layer_replacement: Without effect: Keras' own layers run on the device.
        accumulation_count: `gradient_accumulation_count` in still earlier releases.
        accumulation_dtype: `gradient_accumulation_dtype` in still earlier releases.
        **kwargs: Further arguments of the model of today.

    Raises:
        ValueError: An argument is given under both names.
    """

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
        count = _either("accumulation_count", accumulation_count, gradient_accumulation_count)
        dtype = _either("accumulation_dtype", accumulation_dtype, gradient_accumulation_dtype)
        self.gradient_accumulation_count = count or 1
        self.set_gradient_accumulation_options(count, dtype=dtype)


class LayersAccumulateByArguments(AccumulatesByArguments):
    """A Sequential whose accumulation of gradients is set by its arguments, also by position.

    Args:
        layers: The layers.
        gradient_accumulation_count: See `AccumulatesByArguments`, also for all that follow.
    """

    def __init__(
        self,
        layers: Sequence[Layer] | None = None,
        gradient_accumulation_count: int | None = None,
        gradient_accumulation_dtype: DtypeOption = None,
        layer_replacement: bool = False,
        accumulation_count: int | None = None,
        accumulation_dtype: DtypeOption = None,
        **kwargs: object,
    ) -> None:
        super().__init__(
            layers,
            gradient_accumulation_count=gradient_accumulation_count,
            gradient_accumulation_dtype=gradient_accumulation_dtype,
            layer_replacement=layer_replacement,
            accumulation_count=accumulation_count,
            accumulation_dtype=accumulation_dtype,
            **kwargs,
        )


class PipelinesByArguments(StepsAreUpdates):
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
        inputs: Structure = None,
        outputs: Structure = None,
        name: str | None = None,
        **options: object,
    ) -> None:
        structures = (one for one in (inputs, outputs) if one is not None)
        super().__init__(*args, *structures, name=name)
        _set_pipelining(self, gradient_accumulation_count, options)


class StagesByArguments(StepsAreUpdates):
    """A Sequential that is made of the layers of each of its stages.

    Args:
        stages: A list of layers for each stage.
        gradient_accumulation_count: Micro-batches of a weight update on each replica.
        name: Name of the model.
        **options: Further arguments of `set_pipelining_options`, and `layer_replacement`.

    Raises:
        ValueError: There is no stage, or a stage is not a list of layers.
    """

    _layer_class: ClassVar[type]

    def __init__(
        self,
        stages: Sequence[Sequence[Layer]],
        gradient_accumulation_count: int | None = None,
        name: str | None = None,
        **options: object,
    ) -> None:
        _check_stages(type(self).__name__, stages, self._layer_class)
        super().__init__(name=name)
        for number, layers in enumerate(stages):
            for layer in layers:
                with PipelineStage(number):
                    self.add(layer)
        stage_of_layer = [number for number, layers in enumerate(stages) for _ in layers]
        self.set_pipeline_stage_assignment(stage_of_layer)
        _set_pipelining(self, gradient_accumulation_count, options)


def _either(old_name: str, old: Any, new: Any) -> Any:
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


def _set_pipelining(model: Any, count: int | None, options: dict[str, Any]) -> None:
    options.pop("layer_replacement", None)  # Keras' own layers run on the device.
    if options.get("batch_serialization_iterations") == 1:
        del options["batch_serialization_iterations"]
    model.gradient_accumulation_count = count or 1
    model.set_pipelining_options(gradient_accumulation_steps_per_replica=count, **options)


def _check_stages(name: str, stages: Any, layer_class: type) -> None:
    def are_layers(stage: Any) -> bool:
        return isinstance(stage, Sequence) and all(isinstance(one, layer_class) for one in stage)

    if not (isinstance(stages, Sequence) and stages and all(map(are_layers, stages))):
        raise ValueError(
            f"{name} takes a list with a list of layers for each stage, such as "
            f"[[Dense(8)], [Dense(1)]]. Received: {stages!r}."
        )
