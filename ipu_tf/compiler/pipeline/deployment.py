"""The deployment of a step over IPUs, as a checked value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeVar, get_args

from ipu_tf.tile_program.device_program import Schedule

_Value = TypeVar("_Value")


@dataclass(frozen=True, slots=True, kw_only=True)
class Offload:
    """The categories that are not whole on the tiles all the time.

    Attributes:
        optimizer_state: Whether the optimizer state is in streaming memory.
        shard_optimizer_state: Whether replicas share it out, there or on the tiles.
        accumulators: Whether sums of gradients are in streaming memory.
        activations: Whether values that wait between passes are in streaming memory.
        shard_weights: Whether replicas share the weights out.
        weights: Whether such shares are in streaming memory.
        optimizer_state_replicas: Replicas that share the optimizer state out among them; 0 for all.
        weight_replicas: Replicas that share the weights out among them; 0 for all.
    """

    optimizer_state: bool = False
    shard_optimizer_state: bool = False
    accumulators: bool = False
    activations: bool = False
    shard_weights: bool = False
    weights: bool = False
    optimizer_state_replicas: int = 0
    weight_replicas: int = 0

    def __post_init__(self) -> None:
        if self.weights and not self.shard_weights:
            raise ValueError(
                f"Offload.weights needs Offload.shard_weights: set both. Received: {self!r}."
            )

    def weight_parts(self, replicas: int) -> int:
        """Returns the shares that the weights are in between updates."""
        return (self.weight_replicas or replicas) if self.shard_weights else 1

    def update_parts(self, replicas: int) -> int:
        """Returns the shares that a weight update is in; the optimizer state is in as many."""
        state = self.optimizer_state_replicas or replicas
        return max(state if self.shard_optimizer_state else 1, self.weight_parts(replicas))

    @property
    def streams(self) -> bool:
        """Whether anything is in streaming memory."""
        return self.optimizer_state or self.accumulators or self.activations or self.weights


ALL_ON_TILES = Offload()
"""Nothing is offloaded or shared out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployment:
    """The stages of a step, and how they run.

    Attributes:
        stage_of_layers: Stage of each layer by its path, from 0; a path names all layers below it.
        shared_layers: All stages of each layer that several stages call, in order, by its path;
            `stage_of_layers` has the first of them, which holds the weights.
        ipu_of_stages: IPU of each stage within a replica; empty puts stage i on IPU i.
        schedule: The order in which stages work on micro-batches.
        micro_batches: Micro-batches of a weight update on each replica.
        recompute: Whether stages keep only their inputs and checkpoints, and recompute other
            activations.
        keeps_checkpoints: Whether they keep checkpoints then.
        checkpoints: Layers after which they keep activations, besides the step's own checkpoints.
        replicas: Copies of the pipeline.
        offload: The categories that are not whole on the tiles all the time.
        may_move_state: Whether the optimizer state goes to streaming memory, too, if an IPU's
            tiles would not hold it.
        copies_weights: Whether stages on several IPUs may use a weight: links bring it from one.
    """

    stage_of_layers: Mapping[str, int]
    shared_layers: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    ipu_of_stages: tuple[int, ...] = field(default=())
    schedule: Schedule = "grouped"
    micro_batches: int = 1
    recompute: bool = False
    keeps_checkpoints: bool = True
    checkpoints: tuple[str, ...] = ()
    replicas: int = 1
    offload: Offload = ALL_ON_TILES
    may_move_state: bool = False
    copies_weights: bool = False

    def __post_init__(self) -> None:
        numbers = sorted(set(self.stage_of_layers.values()))
        if not numbers or numbers[0] < 0:
            raise ValueError(
                "Deployment.stage_of_layers must give layers stages from 0 on. "
                f"Received: {dict(self.stage_of_layers)!r}."
            )
        if self.ipu_of_stages and len(self.ipu_of_stages) <= numbers[-1]:
            raise ValueError(
                f"Deployment.ipu_of_stages must name the IPU of each of {numbers[-1] + 1} "
                f"stages. Received: {self.ipu_of_stages!r}."
            )
        if any(ipu < 0 for ipu in self.ipu_of_stages):
            raise ValueError(
                "Deployment.ipu_of_stages must be numbers of IPUs from 0 on. "
                f"Received: {self.ipu_of_stages!r}."
            )
        if self.schedule not in get_args(Schedule):
            choices = ", ".join(map(repr, get_args(Schedule)))
            raise ValueError(
                f"Deployment.schedule must be one of {choices}. Received: {self.schedule!r}."
            )
        for name in ("micro_batches", "replicas"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise ValueError(f"Deployment.{name} must be a positive int. Received: {value!r}.")
        self._check_groups()

    def _check_groups(self) -> None:
        """Checks that the replicas divide into the groups that share variables out."""
        offload = self.offload
        for name in ("optimizer_state_replicas", "weight_replicas"):
            group = getattr(offload, name)
            if group and (group < 0 or self.replicas % group):
                raise ValueError(
                    f"Offload.{name} must divide the {self.replicas} replicas, or be 0 for all of "
                    f"them. Received: {group!r}."
                )
        weights, update = offload.weight_parts(self.replicas), offload.update_parts(self.replicas)
        if update % weights:
            raise ValueError(
                f"The {update} replicas that share out the optimizer state must consist of whole "
                f"groups of the {weights} that share out the weights. Received: {offload!r}."
            )

    @property
    def stages(self) -> int:
        """Number of stages."""
        return len(self.ipu_of_stages) or max(self.stage_of_layers.values()) + 1

    @property
    def ipus(self) -> tuple[int, ...]:
        """IPU of each stage within a replica."""
        return self.ipu_of_stages or tuple(range(self.stages))

    @property
    def replica_ipus(self) -> int:
        """IPUs of a replica: a power of two, as the machine hands them out."""
        return 1 << max(self.ipus).bit_length()


def with_short_paths(by_path: Mapping[str, _Value], model: str) -> dict[str, _Value]:
    """Returns values of layers by every path that a program may name the layers by.

    Layers of a functional model are called before the model exists. So a layer without weights does
    not know the model's path, and its ops have the path of the layer alone.

    Args:
        by_path: A value for each path of a layer.
        model: Name of the model that the paths are within.
    """
    short = {path.removeprefix(f"{model}/"): value for path, value in by_path.items()}
    return {**short, **by_path}
