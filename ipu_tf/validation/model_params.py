"""The configuration of a measured model, read from a record and checked."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import cast

from ipu_tf.calibration.outcome import CannotPredict
from ipu_tf.calibration.params import number, whole
from ipu_tf.calibration.records import MeasuredPoint
from ipu_tf.zoo.stage_placement import StagePlacement

_POLICIES = {
    "float16": "float16", "fp16": "float16", "f16": "float16", "half": "float16",
    "float32": "float32", "fp32": "float32", "f32": "float32", "single": "float32",
    "mixed_float16": "mixed_float16",
}  # fmt: skip
"""Keras' dtype policy by the name of the type of weights and activations."""

_PARTIALS = {
    name: {"float16": "half", "float32": "float"}[policy]
    for name, policy in _POLICIES.items()
    if policy != "mixed_float16"
}
"""The machine's name of the type of partials."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelParams:
    """The configuration that a model ran with.

    Attributes:
        network: Its name in the zoo.
        training: Whether a weight update was measured; otherwise predictions.
        ipus: IPUs of the system.
        micro_batch: Items of a micro-batch of one replica.
        accumulation: Micro-batches of a weight update on each replica; without training, of one
            run of a pipeline.
        replicas: Copies of the model.
        placement: The blocks that begin stages, and those after which activations are kept.
        recompute: Whether activations are recomputed.
        policy: Keras' dtype policy.
        optimizer: Its name in the zoo; None for that of the network's publication.
        poplar_options: Options of contractions, as the machine's libraries name them.
        num_io_tiles: Tiles of an IPU that make transfers beside the work of the others.
        offload: Where the optimizer's state is, as options of accumulation and pipelines name it.
        options: Options of the network, by name.
    """

    network: str
    training: bool
    ipus: int
    micro_batch: int
    accumulation: int
    replicas: int
    placement: StagePlacement
    recompute: bool
    policy: str
    optimizer: str | None = None
    poplar_options: Mapping[str, str] = field(default_factory=dict)
    num_io_tiles: int = 0
    offload: Mapping[str, bool] = field(default_factory=dict)
    options: Mapping[str, object] = field(default_factory=dict)


_NAMES = (
    "network", "training", "ipus", "micro_batch", "accumulation", "replicas", "stages",
    "checkpoints", "recompute", "partials", "optimizer", "availableMemoryProportion",
    "num_io_tiles", "offload_weight_update_variables", "replicated_optimizer_state_sharding",
)  # fmt: skip
_OFFLOAD = _NAMES[-2:]
"""Flags that place the optimizer's state, named after options of pipelines."""


def model_params(record: MeasuredPoint, network_options: Iterable[str]) -> ModelParams:
    """Returns the configuration of a record of the kind "model".

    Args:
        record: The record.
        network_options: Names of further parameters, which the network takes.

    Raises:
        CannotPredict: A parameter is unknown, is missing, or has no such value.
    """
    names = [*_NAMES, *(name for name in network_options if name != "placement")]
    unknown = [name for name in record.params if name not in names]
    if unknown:
        raise CannotPredict(
            f"a model has no parameter {', '.join(map(repr, unknown))}. Known are "
            f"{', '.join(names)}"
        )
    return ModelParams(
        network=str(record.params.get("network")),
        training=_flag(record, "training", default=True),
        ipus=whole(record, "ipus", default=1),
        micro_batch=whole(record, "micro_batch"),
        accumulation=whole(record, "accumulation", default=1),
        replicas=whole(record, "replicas", default=1),
        placement=StagePlacement(
            stages=_names(record, "stages"), checkpoints=_names(record, "checkpoints")
        ),
        recompute=_flag(record, "recompute", default=False),
        policy=_type(record.dtype, _POLICIES, "dtype"),
        optimizer=cast("str | None", record.params.get("optimizer")),
        poplar_options=_poplar_options(record),
        num_io_tiles=whole(record, "num_io_tiles") if "num_io_tiles" in record.params else 0,
        offload={name: _flag(record, name) for name in _OFFLOAD if name in record.params},
        options={
            name: record.params[name] for name in names[len(_NAMES) :] if name in record.params
        },
    )


def check_ipus(params: ModelParams, stages: int) -> None:
    """Checks that the IPUs of a system are those of its replicas.

    Args:
        params: The configuration.
        stages: IPUs that the stages of one replica run on.

    Raises:
        CannotPredict: They are not.
    """
    each = 1 << (stages - 1).bit_length()
    if params.replicas * each != params.ipus:
        raise CannotPredict(
            f"{params.ipus} IPUs do not divide into {params.replicas} replicas of {each} IPUs, "
            f"which the stages of a model take: write replicas = ipus / {each}"
        )


def _poplar_options(record: MeasuredPoint) -> dict[str, str]:
    partials = _type(str(record.params.get("partials", "float32")), _PARTIALS, "partials")
    options = {"partialsType": partials}
    if "availableMemoryProportion" in record.params:
        proportion = number(record, "availableMemoryProportion")
        if not 0 < proportion <= 1:
            raise CannotPredict(
                f"'availableMemoryProportion' must be above 0 and at most 1, and is {proportion:g}"
            )
        options["availableMemoryProportion"] = str(proportion)
    return options


def _type(text: str, names: Mapping[str, str], owner: str) -> str:
    value = names.get(text.strip().lower())
    if value is None:
        raise CannotPredict(f"{owner} must be one of {', '.join(names)}, and is {text!r}")
    return value


def _flag(record: MeasuredPoint, name: str, *, default: bool = False) -> bool:
    value = record.params.get(name, default)
    if not isinstance(value, bool):
        raise CannotPredict(f"the parameter {name!r} must be true or false, and is {value!r}")
    return value


def _names(record: MeasuredPoint, name: str) -> tuple[str, ...]:
    value = record.params.get(name, [])
    if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
        raise CannotPredict(f"the parameter {name!r} must be a list of blocks, and is {value!r}")
    return tuple(value)
