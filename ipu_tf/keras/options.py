"""The options of a model's training loop, as checked values."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import tensorflow as tf

from ipu_tf.gradient_accumulation import GradientAccumulationReductionMethod
from ipu_tf.internals.structures import DType

DEFAULT_PREFETCH_DEPTH = 3  # Batches; the default of the machine's infeed queues.
_MAX_PREFETCH_DEPTH = 255

DtypeOption: TypeAlias = "tf.DType | str | Callable[[tf.Variable], DType | None] | None"
"""A type, its name, a function from a variable to one of these, or None."""


class ReplicatedMetricReductionMethod(enum.Enum):
    """How the logs of a replicated model combine the replicas' values of each metric.

    NONE gives the value of the last replica, LIST all values; SUM and MEAN (by default) reduce
    them. The replicas are those of all instances of a job.
    """

    NONE = "none"
    LIST = "list"
    SUM = "sum"
    MEAN = "mean"

    @classmethod
    def parse(cls, value: object) -> ReplicatedMetricReductionMethod:
        """Returns the method of this name, in any case, or the method itself.

        Raises:
            ValueError: There is no such method.
        """
        if isinstance(value, cls):
            return value
        if isinstance(value, str) and value.upper() in cls.__members__:
            return cls[value.upper()]
        raise ValueError(
            f"Cannot parse {value} as a ReplicatedMetricReductionMethod. "
            f"Use one of {', '.join(cls.__members__)}, as a member or by name. Received: {value!r}."
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class RecomputationOptions:
    """How the training of a model recomputes activations.

    Attributes:
        recompute: Whether it does; None leaves it to the configuration and the pipeline.
        checkpoints: Layers after which activations are kept, besides those of
            `RecomputationCheckpoint`.
    """

    recompute: bool | None = None
    checkpoints: tuple[str, ...] = ()


def check_steps_per_replica(steps: object) -> int:
    """Returns the micro-batches of one weight update on one replica.

    Raises:
        ValueError: It is not a positive integer.
    """
    if isinstance(steps, bool) or not isinstance(steps, int) or steps < 1:
        raise ValueError(
            "Expected `gradient_accumulation_steps_per_replica` to be a positive integer. "
            f"Received: {steps!r} of type {type(steps).__name__}."
        )
    return steps


def check_normalization(
    normalizes: bool | None, method: GradientAccumulationReductionMethod
) -> None:
    """Checks that `experimental_normalize_gradients` normalises sums.

    Raises:
        ValueError: It is beside another reduction method.
    """
    if normalizes and method is not GradientAccumulationReductionMethod.SUM:
        raise ValueError(
            "`experimental_normalize_gradients=True` is for sums: leave it out, or leave "
            "`gradient_accumulation_reduction_method` out. Received: "
            f"gradient_accumulation_reduction_method={method}."
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class GradientAccumulationOptions:
    """The micro-batches of one weight update, and how their gradients are reduced.

    Attributes:
        steps_per_replica: Micro-batches of one update on each replica.
        reduction_method: How their gradients are reduced.
        dtype: Type of the accumulators: a type, its name, a function from a variable to one of
            these, or None for the type of each variable.
        offload_weight_update_variables: Whether the optimizer state lies in streaming memory.
        replicated_optimizer_state_sharding: Whether replicas share out the optimizer state, in
            streaming memory or on the tiles.
        verify_usage: Kept for scripts that set it: the loop is always verified.
        experimental_normalize_gradients: Whether an update of several micro-batches takes the mean
            over them and over the replicas; an option of the vendor's earlier releases.

    The two options about the optimizer state set its place; numbers do not depend on them.
    """

    steps_per_replica: int = 1
    reduction_method: GradientAccumulationReductionMethod = GradientAccumulationReductionMethod.SUM
    dtype: DtypeOption = None
    offload_weight_update_variables: bool | None = None
    replicated_optimizer_state_sharding: bool = False
    verify_usage: bool = True
    experimental_normalize_gradients: bool | None = None

    def __post_init__(self) -> None:
        check_steps_per_replica(self.steps_per_replica)
        check_normalization(self.experimental_normalize_gradients, self.reduction_method)
        if not callable(self.dtype) and self.dtype is not None:
            _floating(self.dtype)

    @classmethod
    def of(
        cls, steps: object, reduction_method: object, optimizer_arguments: Mapping[str, object]
    ) -> GradientAccumulationOptions:
        """Returns the options for the arguments of `set_gradient_accumulation_options`.

        Raises:
            TypeError: There is no such optimizer argument.
            ValueError: An argument is out of its range, or belongs to another method.
        """
        refuse(
            optimizer_arguments,
            {
                "opt": "it is the optimizer that the model is compiled with",
                "num_mini_batches": "set `gradient_accumulation_steps_per_replica` instead",
                "reduction_method": "set `gradient_accumulation_reduction_method` instead",
            },
            argument="gradient_accumulation_optimizer_kwargs",
        )
        names = {field.name for field in dataclasses.fields(cls)}
        names -= {"steps_per_replica", "reduction_method"}
        check_known(optimizer_arguments, names, "gradient_accumulation_optimizer_kwargs")
        fields: dict[str, Any] = dict(optimizer_arguments)
        return cls(
            steps_per_replica=1 if steps is None else check_steps_per_replica(steps),
            reduction_method=GradientAccumulationReductionMethod.parse(reduction_method),
            **fields,
        )

    def scale(self, replicas: int) -> float:
        """Returns the factor of each micro-batch's gradients, for all methods but running means."""
        if self.experimental_normalize_gradients and self.steps_per_replica > 1:
            return 1 / (self.steps_per_replica * replicas)
        is_mean = self.reduction_method is GradientAccumulationReductionMethod.MEAN
        return 1 / self.steps_per_replica if is_mean else 1.0

    def dtype_of(self, variable: tf.Variable) -> tf.DType:
        """Returns the dtype in which a variable's gradients are accumulated.

        Raises:
            ValueError: It is not a floating point type.
        """
        dtype = self.dtype(variable) if callable(self.dtype) else self.dtype
        return tf.as_dtype(variable.dtype) if dtype is None else _floating(dtype)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicationOptions:
    """Options of the logs of a replicated model.

    Attributes:
        metric_reduction: How the metrics of the replicas are reduced.
    """

    metric_reduction: ReplicatedMetricReductionMethod = ReplicatedMetricReductionMethod.MEAN


@dataclass(frozen=True, slots=True, kw_only=True)
class InfeedOptions:
    """Options of the transfer of data to the device.

    Attributes:
        prefetch_depth: Batches of a replica that are prepared ahead of the device.
        device_ordinal: Number of the device; the model's strategy overrides it.
        optimise_latency: Accepted without effect: the simulated host copies nothing.
    """

    prefetch_depth: int = DEFAULT_PREFETCH_DEPTH
    device_ordinal: int | None = None
    optimise_latency: bool = False

    @classmethod
    def of(cls, arguments: Mapping[str, object]) -> InfeedOptions:
        """Returns the options for the arguments of `set_infeed_queue_options`.

        Raises:
            TypeError: There is no such option.
            ValueError: An option is out of its range, or Keras itself sets it.
        """
        automatic = "Keras makes the infeed queue from the data of the model's methods"
        names = ("dataset", "infeed_spec", "element_spec", "_internal_id")
        refuse(arguments, dict.fromkeys(names, automatic), argument="infeed queue options")
        check_known(arguments, {field.name for field in dataclasses.fields(cls)}, "infeed queue")
        options: dict[str, Any] = dict(arguments)
        depth = options.pop("prefetch_depth", None) or DEFAULT_PREFETCH_DEPTH
        if type(depth) is not int or not 1 <= depth <= _MAX_PREFETCH_DEPTH:
            raise ValueError(
                f"`prefetch_depth` must be an integer from 1 to {_MAX_PREFETCH_DEPTH}, or 0 or "
                f"None for the default of {DEFAULT_PREFETCH_DEPTH}. Received: {depth!r}."
            )
        ordinal = options.get("device_ordinal")
        if ordinal is not None and (type(ordinal) is not int or ordinal < 0):
            raise ValueError(
                f"`device_ordinal` must be an integer of at least 0. Received: {ordinal!r}."
            )
        return cls(prefetch_depth=depth, **options)


@dataclass(frozen=True, slots=True, kw_only=True)
class OutfeedOptions:
    """Options of the transfer of results from the device.

    Attributes:
        buffer_depth: Results that wait for the host; the simulated host takes all of them.
        optimise_latency: Accepted without effect: the simulated host copies nothing.
    """

    buffer_depth: int = 3  # The default of the machine's outfeed queues.
    optimise_latency: bool = False

    @classmethod
    def of(cls, arguments: Mapping[str, object]) -> OutfeedOptions:
        """Returns the options for the arguments of `set_outfeed_queue_options`.

        Raises:
            TypeError: There is no such option.
            ValueError: An option is out of its range, or Keras itself sets it.
        """
        refuse(
            arguments,
            {
                "outfeed_mode": "Keras keeps the results that its callbacks and logs need",
                "device_ordinal": "the results come from the device of the model's strategy",
            },
            argument="outfeed queue options",
        )
        check_known(arguments, {field.name for field in dataclasses.fields(cls)}, "outfeed queue")
        options: dict[str, Any] = dict(arguments)
        depth = options.get("buffer_depth", 3)
        if type(depth) is not int or depth < 1:
            raise ValueError(f"`buffer_depth` must be a positive integer. Received: {depth!r}.")
        return cls(**options)


def chosen(options: InfeedOptions | OutfeedOptions) -> dict[str, object]:
    """Returns the arguments of options that are not the default."""
    fields = dataclasses.fields(options)
    values = {field.name: getattr(options, field.name) for field in fields}
    return {
        field.name: values[field.name] for field in fields if values[field.name] != field.default
    }


def refuse(options: Mapping[str, object], reasons: Mapping[str, str], *, argument: str) -> None:
    """Refuses arguments that belong to another place.

    Raises:
        ValueError: One of them was given.
    """
    for name in sorted(reasons.keys() & options.keys()):
        raise ValueError(
            f"`{name}` cannot be set in the {argument}: {reasons[name]}. "
            f"Received: {name}={options[name]!r}."
        )


def check_known(options: Mapping[str, object], names: set[str], subject: str) -> None:
    """Refuses unknown arguments.

    Raises:
        TypeError: One of them was given.
    """
    unknown = sorted(options.keys() - names)
    if unknown:
        raise TypeError(
            f"Unknown options of {subject}: {', '.join(unknown)}. "
            f"Options are {', '.join(sorted(names))}."
        )


def _floating(dtype: DType) -> tf.DType:
    result = tf.as_dtype(dtype)
    if not result.is_floating or result.size > 4:
        raise ValueError(
            "Gradients are accumulated in floating point types of at most 32 bits. "
            f"Received: dtype={result.name}."
        )
    return result
