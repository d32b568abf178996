"""The options of a pipeline, as a checked value."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ipu_tf.gradient_accumulation import GradientAccumulationReductionMethod
from ipu_tf.internals.structures import DType
from ipu_tf.keras.options import (
    DtypeOption,
    GradientAccumulationOptions,
    check_known,
    check_steps_per_replica,
    refuse,
)
from ipu_tf.ops.pipelining_ops import (
    PipelineSchedule,
    PipelineStageOptions,
    RecomputationMode,
)

_USE_ARGUMENT = "set the argument of that name of `set_pipelining_options` instead"
_AUTOMATIC = "Keras sets it from the model, its optimizer and its data"
_INCOMPATIBLE = "it is not compatible with Keras, whose loss and metrics belong to the last stage"
_REFUSALS = {
    "gradient_accumulation_count": "set `gradient_accumulation_steps_per_replica` instead",
    "device_mapping": _USE_ARGUMENT,
    "accumulate_outfeed": _USE_ARGUMENT,
    "reduction_method": "set `gradient_accumulation_reduction_method` instead",
    "computational_stages": _AUTOMATIC,
    "repeat_count": _AUTOMATIC,
    "inputs": _AUTOMATIC,
    "infeed_queue": _AUTOMATIC,
    "outfeed_queue": _AUTOMATIC,
    "optimizer_function": _AUTOMATIC,
    "outfeed_loss": _INCOMPATIBLE,
    "outfeed_mask": _INCOMPATIBLE,
    "batch_serialization_iterations": _INCOMPATIBLE,
}
_STAGE_OPTIONS = (
    "forward_propagation_stages_poplar_options",
    "backward_propagation_stages_poplar_options",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PipeliningOptions:
    """How the stages of a model run as a pipeline.

    Only the micro-batches of an update, the reduction of their gradients and the type of the
    accumulators change numbers. The other options set where and when stages run, where values are
    stored meanwhile, and when metrics come.

    Attributes:
        steps_per_replica: Micro-batches of a weight update on each replica; None for not set.
        device_mapping: IPU of each stage, None for stage i on IPU i.
        accumulate_outfeed: Whether metrics come once a weight update instead of once a
            micro-batch; both cover all micro-batches so far.
        reduction_method: How the gradients of micro-batches are reduced.
        gradient_accumulation_dtype: Type of the accumulators: a type, its name, a function from a
            variable to one of these, or None for the type of each variable.
        gradient_accumulation_for_captured_grads: Kept for scripts that set it.
        pipeline_schedule: Order of the stages of different micro-batches.
        recomputation_mode: How stages recompute activations; Auto leaves it to the schedule.
        forward_propagation_stages_poplar_options: Options of the forward pass of each stage.
        backward_propagation_stages_poplar_options: Options of the backward pass of each stage.
        weight_update_poplar_options: Options of the weight update; checked, without effect: an
            optimizer of Keras has no products that are planned.
        offload_weight_update_variables: Whether the optimizer state lies in streaming memory.
        replicated_optimizer_state_sharding: Whether replicas share out the optimizer state, in
            streaming memory or on the tiles.
        offload_activations: Whether waiting activations lie in streaming memory.
        offload_gradient_accumulation_buffers: Whether the accumulators lie in streaming memory.
        replicated_weight_sharding: Whether replicas share out the weights.
        offload_weights: Whether weights that replicas share out lie in streaming memory.
        optimizer_state_replicas: Replicas of a group that shares out the optimizer state; 0 for
            all. A group of this simulator: the machine's own framework shares over all replicas.
        weight_replicas: The same for the weights; the replicas that share out the optimizer state
            consist of whole groups.
        continuous_weight_updates: Not supported.
        accumulate_outfeed_dtype: Kept for scripts that set it: Keras adds up metrics in its own
            dtypes.
        name: Name of the pipeline.
        experimental_normalize_gradients: As of `GradientAccumulationOptions`.
    """

    steps_per_replica: int | None = None
    device_mapping: tuple[int, ...] | None = None
    accumulate_outfeed: bool = False
    reduction_method: GradientAccumulationReductionMethod = GradientAccumulationReductionMethod.SUM
    gradient_accumulation_dtype: DtypeOption = None
    gradient_accumulation_for_captured_grads: bool = True
    pipeline_schedule: PipelineSchedule = PipelineSchedule.Grouped
    recomputation_mode: RecomputationMode = RecomputationMode.Auto
    forward_propagation_stages_poplar_options: tuple[PipelineStageOptions, ...] | None = None
    backward_propagation_stages_poplar_options: tuple[PipelineStageOptions, ...] | None = None
    weight_update_poplar_options: PipelineStageOptions | None = None
    offload_weight_update_variables: bool | None = None
    replicated_optimizer_state_sharding: bool = False
    offload_activations: bool | None = None
    offload_gradient_accumulation_buffers: bool | None = None
    replicated_weight_sharding: bool | None = None
    offload_weights: bool | None = None
    optimizer_state_replicas: int = 0
    weight_replicas: int = 0
    continuous_weight_updates: bool = False
    accumulate_outfeed_dtype: DType | None = None
    name: str | None = None
    experimental_normalize_gradients: bool | None = None

    def __post_init__(self) -> None:
        if self.continuous_weight_updates:
            raise NotImplementedError(
                "Weights are updated once for all micro-batches of a pipeline. "
                "Received: continuous_weight_updates=True."
            )
        self.accumulation  # noqa: B018 # Checks the type.

    @classmethod
    def of(
        cls,
        steps: object,
        device_mapping: object,
        accumulate_outfeed: object,
        reduction_method: object,
        pipeline_arguments: Mapping[str, object],
    ) -> PipeliningOptions:
        """Returns the options for the arguments of `set_pipelining_options`.

        Raises:
            NotImplementedError: Weights are to be updated continuously.
            TypeError: There is no such argument of a pipeline, or it is of another type.
            ValueError: An argument is out of its range, or belongs to another method.
        """
        refuse(pipeline_arguments, _REFUSALS, argument="pipelining_kwargs")
        fields = {field.name for field in dataclasses.fields(cls)}
        own = {"steps_per_replica", "device_mapping", "accumulate_outfeed", "reduction_method"}
        check_known(pipeline_arguments, fields - own, "pipelining_kwargs")
        return cls(
            steps_per_replica=None if steps is None else check_steps_per_replica(steps),
            device_mapping=_device_mapping(device_mapping),
            accumulate_outfeed=_flag("accumulate_outfeed", accumulate_outfeed),
            reduction_method=GradientAccumulationReductionMethod.parse(reduction_method),
            **_pipeline_arguments(pipeline_arguments),
        )

    @property
    def accumulation(self) -> GradientAccumulationOptions:
        """How gradients are accumulated."""
        return GradientAccumulationOptions(
            steps_per_replica=self.steps_per_replica or 1,
            reduction_method=self.reduction_method,
            dtype=self.gradient_accumulation_dtype,
            offload_weight_update_variables=self.offload_weight_update_variables,
            replicated_optimizer_state_sharding=self.replicated_optimizer_state_sharding,
            experimental_normalize_gradients=self.experimental_normalize_gradients,
        )

    def ipus(self, stages: int) -> tuple[int, ...]:
        """Returns the IPU of each of the stages.

        Raises:
            ValueError: The device mapping has a different number of stages.
        """
        mapping = tuple(range(stages)) if self.device_mapping is None else self.device_mapping
        if len(mapping) != stages:
            raise ValueError(
                f"Each stage must be mapped to an IPU: there are {stages} stages. "
                f"Received: device_mapping={list(mapping)}."
            )
        return mapping

    def check_stages(self, stages: int) -> None:
        """Checks that per-stage options are given for every stage.

        Raises:
            ValueError: They are not.
        """
        for name in _STAGE_OPTIONS:
            options = getattr(self, name)
            if options is not None and len(options) != stages:
                raise ValueError(
                    f"`{name}` must have an entry for each of the {stages} stages. "
                    f"Received: {len(options)} entries."
                )


def _device_mapping(mapping: object) -> tuple[int, ...] | None:
    if mapping is None:
        return None
    if not isinstance(mapping, list | tuple) or any(
        type(ipu) is not int or ipu < 0 for ipu in mapping
    ):
        raise ValueError(
            "Expected `device_mapping` to be a list of integers. They are the numbers of the IPUs "
            f"of the stages. Received: {mapping!r}."
        )
    return tuple(mapping)


def _flag(name: str, value: object) -> bool:
    if value is not None and not isinstance(value, bool):
        raise TypeError(f"`{name}` must be True, False or None. Received: {value!r}.")
    return bool(value)


def _pipeline_arguments(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Returns checked arguments of a pipeline; None stands for the default."""
    options = {name: value for name, value in arguments.items() if value is not None}
    for name, kind in (
        ("pipeline_schedule", PipelineSchedule),
        ("recomputation_mode", RecomputationMode),
        ("weight_update_poplar_options", PipelineStageOptions),
        ("name", str),
    ):
        if name in options and not isinstance(options[name], kind):
            raise TypeError(
                f"`{name}` must be a {kind.__name__}. Received: {options[name]!r} of type "
                f"{type(options[name]).__name__}."
            )
    for name in ("optimizer_state_replicas", "weight_replicas"):
        if name in options and (type(options[name]) is not int or options[name] < 0):
            raise ValueError(
                f"`{name}` must be a number of replicas, or 0 for all of them. "
                f"Received: {options[name]!r}."
            )
    for name in _STAGE_OPTIONS:
        if name in options:
            options[name] = _stage_options(name, options[name])
    for field in dataclasses.fields(PipeliningOptions):
        if field.name in options and str(field.type).startswith("bool"):
            options[field.name] = _flag(field.name, options[field.name])
    return options


def _stage_options(name: str, value: Any) -> tuple[PipelineStageOptions, ...]:
    if not isinstance(value, Sequence) or not all(
        isinstance(options, PipelineStageOptions) for options in value
    ):
        raise TypeError(f"`{name}` must be a list of PipelineStageOptions. Received: {value!r}.")
    for stage, options in enumerate(value):
        options.overrides(f"{name}[{stage}]")  # Checks the values.
    return tuple(value)
