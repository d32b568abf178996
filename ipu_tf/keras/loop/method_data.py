"""Prepares the data of Keras' methods: checks and converts it, and makes the infeed.

`ipu_tf.keras.data` has the rules for the data.
"""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from ipu_tf.internals.structures import SpecStructure
from ipu_tf.keras.adapters.models import adapter_of
from ipu_tf.keras.data import feeding, lengths, preparation
from ipu_tf.keras.data.infeed import Infeed
from ipu_tf.keras.data.lengths import DataUse
from ipu_tf.keras.data.preparation import Data
from ipu_tf.keras.deployment.model_pipeline import (
    check_inference_steps,
    inference_depth,
    replicas_on_device,
)
from ipu_tf.keras.loop import execution
from ipu_tf.keras.loop.step_checks import check_step, is_built_for
from ipu_tf.keras.loop.update_checks import check_training, check_update, steps_of_update
from ipu_tf.keras.replication.instance_sums import check_equal_steps
from ipu_tf.keras.steps.own_steps import build_by_tracing, has_own
from ipu_tf.keras.training_state import StatefulModel

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class MethodCall:
    """The call of Keras' method once its data is prepared.

    Attributes:
        arguments: Its arguments.
        infeed: The infeed of the device, None for a single batch.
    """

    arguments: dict[str, object]
    infeed: Infeed | None = None


class MethodData:
    """Prepares the data of the methods of one model.

    Keras' arguments come whole, defaults included; `shuffle` is None unless it was given.
    """

    def __init__(self) -> None:
        self._warnings: frozenset[str] = frozenset()

    def prepare(
        self, model: StatefulModel, method: str, arguments: dict[str, object]
    ) -> MethodCall:
        """Returns the prepared call of a method.

        Args:
            model: The model.
            method: Name of the method.
            arguments: The arguments of Keras' method by name.

        Raises:
            RuntimeError: Executions do not hold whole weight updates.
            ValueError: The data breaks a rule, or does not fit the model's pipeline.
        """
        of_method: Mapping[str, Callable[..., MethodCall]] = {
            "fit": self._fit,
            "evaluate": self._evaluate,
            "predict": self._predict,
            "predict_on_batch": self._predict_on_batch,
        }
        if method in of_method:
            return of_method[method](model, arguments)
        return self._on_batch(model, arguments, method)

    def _fit(self, model: StatefulModel, arguments: dict[str, Any]) -> MethodCall:
        training, validation = preparation.training_and_validation(arguments, model=model.name)
        infeed = self._infeed(
            model,
            training,
            shuffle=arguments["shuffle"],
            class_weight=arguments["class_weight"],
            method="fit",
            batch_size=arguments["batch_size"],
            steps=arguments["steps_per_epoch"],
            epochs=max(1, arguments["epochs"] - arguments["initial_epoch"]),
        )
        if validation is not None:
            validation_infeed = self._infeed(
                model,
                validation,
                method="fit",
                part="validation data",
                batch_size=arguments["validation_batch_size"] or arguments["batch_size"],
                steps=arguments["validation_steps"],
            )
            arguments |= {
                "validation_data": validation_infeed,
                "validation_split": 0.0,
                "validation_steps": validation_infeed.schedule.steps,
            }
        if arguments["validation_split"] and arguments["validation_data"] is None:
            return MethodCall(arguments=arguments)  # Keras raises the error of the split.
        check_training(model, infeed)
        of_infeed = ("y", "sample_weight", "class_weight", "batch_size", "validation_batch_size")
        replacements = {
            "x": infeed,
            "shuffle": False,
            "steps_per_epoch": infeed.schedule.steps,
            # Fewer than asked for while a script is tried out.
            "epochs": min(arguments["epochs"], arguments["initial_epoch"] + infeed.epochs),
        }
        return MethodCall(
            arguments=arguments | dict.fromkeys(of_infeed) | replacements, infeed=infeed
        )

    def _evaluate(self, model: StatefulModel, arguments: dict[str, Any]) -> MethodCall:
        infeed = arguments["x"]
        if isinstance(infeed, Infeed):  # The validation data of `fit`.
            adapter_of(model).note_validation_steps(infeed.schedule.steps_per_execution)
            return MethodCall(arguments=arguments, infeed=infeed)
        infeed = self._infeed(
            model,
            Data.of(arguments),
            method="evaluate",
            batch_size=arguments["batch_size"],
            steps=arguments["steps"],
        )
        of_infeed = dict.fromkeys(("y", "sample_weight", "batch_size"))
        replacements = {"x": infeed, "steps": infeed.schedule.steps}
        return MethodCall(arguments=arguments | of_infeed | replacements, infeed=infeed)

    def _predict(self, model: StatefulModel, arguments: dict[str, Any]) -> MethodCall:
        infeed = self._infeed(
            model,
            Data.of(arguments),
            method="predict",
            batch_size=arguments["batch_size"],
            steps=arguments["steps"],
        )
        replacements = {"x": infeed, "batch_size": None, "steps": infeed.schedule.steps}
        return MethodCall(arguments=arguments | replacements, infeed=infeed)

    def _predict_on_batch(self, model: StatefulModel, arguments: dict[str, Any]) -> MethodCall:
        use = DataUse(model=model.name, method="predict_on_batch")
        data = self._prepared(model, Data.of(arguments), preparation.prepare_batch, use)
        check_inference_steps(model, 1)
        return MethodCall(arguments=arguments | {"x": data.x})

    def _on_batch(self, model: StatefulModel, arguments: dict[str, Any], method: str) -> MethodCall:
        if method == "train_on_batch":  # The batch holds a whole weight update.
            check_update(model)
        use = DataUse(model=model.name, method=method)
        data = self._prepared(model, Data.of(arguments), preparation.prepare_batch, use)
        if method == "test_on_batch":
            check_inference_steps(model, 1)
        return MethodCall(arguments=arguments | data.arguments)

    def _infeed(
        self,
        model: StatefulModel,
        data: Data,
        *,
        shuffle: bool | None = False,
        class_weight: Mapping[int, float] | None = None,
        **use: Any,
    ) -> Infeed:
        """Returns the infeed of a method's data; `use` gives the fields of `DataUse`."""
        data_use = DataUse(model=model.name, **use)
        if data_use.steps is not None:
            argument = f"{data_use.subject}: `{data_use.steps_argument}`"
            steps = lengths.positive_integer(data_use.steps, argument)
            data_use = dataclasses.replace(data_use, steps=steps)
        loop = adapter_of(model).loop
        source = feeding.source(
            loop,
            self._prepared(model, data, preparation.prepare, data_use),
            data_use,
            shuffle=shuffle,
            class_weight=class_weight,
        )
        step = STEP_OF_METHOD[data_use.method]
        if not is_built_for(model, step):
            # Only a built model knows its pipeline stages, and so how many replicas fit.
            _build(model, step, execution.batch_spec(source.batches.dataset.element_spec))
            check_step(model, step)
        data_use = dataclasses.replace(
            data_use,
            replicas=replicas_on_device(model),
            steps_per_execution=model.steps_per_execution,
        )
        depth = model.ipu_training_state.infeed.prefetch_depth
        trains = data_use.method == "fit" and not data_use.part
        if trains:
            check_update(model)
        infeed = feeding.infeed(
            loop,
            source,
            data_use,
            prefetch_depth=depth,
            of_update=steps_of_update(model) if trains else inference_depth(model),
        )
        if step != "predict_step":
            check_equal_steps(infeed.schedule.steps, name=data_use.subject)
        if not trains:
            check_inference_steps(model, infeed.schedule.steps_per_execution)
        return infeed

    def _prepared(
        self,
        model: StatefulModel,
        data: Data,
        prepare: Callable[[Data, DataUse], Data],
        use: DataUse,
    ) -> Data:
        data_of_ipu = prepare(data, use)
        if data_of_ipu.conversions:
            self._warn_once(
                model,
                "the IPU has no 64-bit types, so data is converted, after a check that it fits: %s",
                "; ".join(data_of_ipu.conversions),
            )
        return data_of_ipu

    def _warn_once(self, model: StatefulModel, message: str, *arguments: object) -> None:
        """Logs a warning, once for the model."""
        if message not in self._warnings:
            self._warnings |= {message}
            logger.warning(
                f"Model '%s': {message}. This is said once for a model.", model.name, *arguments
            )


STEP_OF_METHOD = MappingProxyType(
    {
        "fit": "train_step",
        "evaluate": "test_step",
        "predict": "predict_step",
        "train_on_batch": "train_step",
        "test_on_batch": "test_step",
        "predict_on_batch": "predict_step",
    }
)
"""The step that each method runs."""


def _build(model: StatefulModel, step: str, batch: SpecStructure) -> None:
    """Builds a model for batches of these shapes and types."""
    if step == "predict_step" or has_own(model, step):
        adapter_of(model).note_inputs(batch)
        build_by_tracing(model, step, batch)
    else:
        adapter_of(model).build_missing_parts(step, batch)
