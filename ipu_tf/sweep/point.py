"""A point of a sweep: a machine and a way to train on it; and what an estimate of it gives."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TypeAlias

from ipu_tf.base import codec
from ipu_tf.machine.system import System
from ipu_tf.machine.target import Target

Machine: TypeAlias = str | Target | System
"""A chip by its name, by "module:name" of a target or system, or as a value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Streaming:
    """Streaming memory beside the IPUs, in place of that of the system.

    Attributes:
        gib: Capacity of a machine (a chassis or card) in GiB.
        gb_per_second: Rate into one IPU, in 1e9 bytes a second.
        name: Its name in tables, such as "HBM3".
    """

    gib: float
    gb_per_second: float
    name: str = ""

    def __post_init__(self) -> None:
        for field in ("gib", "gb_per_second"):
            value = getattr(self, field)
            if isinstance(value, bool) or not isinstance(value, int | float) or not value > 0:
                raise ValueError(f"Streaming.{field} must be positive. Received: {value!r}.")

    def __str__(self) -> str:
        return self.name or f"{self.gib:g} GiB at {self.gb_per_second:g} GB/s"


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """A point of a sweep.

    Attributes:
        chip: The chip, or the system.
        tile_kib: Memory of a tile in KiB; None for that of the chip.
        streaming: Streaming memory; None for that of the system.
        batch_size: Samples of a micro-batch.
        replicas: Copies of the model, or of its pipeline.
        stages: Stages of the pipeline, which `auto_pipeline` cuts; 1 for none.
        accumulation: Micro-batches of a weight update on each replica.
        precision: The dtype policy of Keras, such as "mixed_float16".
        offload: Whether the state of the optimizer is in streaming memory.
    """

    chip: Machine = "bow"
    tile_kib: float | None = None
    streaming: Streaming | None = None
    batch_size: int = 1
    replicas: int = 1
    stages: int = 1
    accumulation: int = 1
    precision: str = "float32"
    offload: bool = False

    @property
    def ipus(self) -> int:
        """IPUs that it uses."""
        return self.replicas * self.stages

    @property
    def chip_name(self) -> str:
        """Name of the chip or system, for tables."""
        if isinstance(self.chip, str):
            return self.chip.rpartition(":")[2]
        return self.chip.name if isinstance(self.chip, System) else self.chip.chip

    @property
    def key(self) -> str:
        """A text that equal points share, and no others."""
        return json.dumps(codec.encode(self, Point), sort_keys=True)

    def labels(self) -> dict[str, str | int | float | bool]:
        """Returns its values by name, for tables and files of other programs."""
        return {
            "chip": self.chip_name,
            "tile_kib": "" if self.tile_kib is None else self.tile_kib,
            "streaming": "" if self.streaming is None else str(self.streaming),
            "batch_size": self.batch_size,
            "replicas": self.replicas,
            "stages": self.stages,
            "accumulation": self.accumulation,
            "precision": self.precision,
            "offload": self.offload,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The figures of a point, all modelled.

    Attributes:
        error: Why there are none; "" if there are.
        cycles: Cycles of a run: a weight update, or a prediction.
        seconds: The same in seconds.
        samples_per_second: Of all replicas on the device, without calls from the host; None if
            samples are not known.
        memory_bytes: Bytes in use at the peak on the tiles of all IPUs.
        max_tile_bytes: Bytes of the fullest tile.
        tile_bytes: Bytes that a tile has.
        streaming_bytes: Bytes of all replicas in streaming memory.
        flop_utilisation: Share of the chips' peak, in [0, 1].
        joules_per_sample: A bound of the energy of the arithmetic; None if not known.
        fits: Whether it fits.
    """

    error: str = ""
    cycles: int = 0
    seconds: float = 0.0
    samples_per_second: float | None = None
    memory_bytes: int = 0
    max_tile_bytes: int = 0
    tile_bytes: int = 0
    streaming_bytes: int = 0
    flop_utilisation: float = 0.0
    joules_per_sample: float | None = None
    fits: bool = False

    @property
    def verdict(self) -> str:
        """One word for tables."""
        if self.error:
            return "failed"
        return "fits" if self.fits else "too large"


def encoded(value: object) -> object:
    """Returns a point or an outcome as plain data."""
    return codec.encode(value, type(value))


FIGURES = (
    "cycles",
    "seconds",
    "samples_per_second",
    "memory_bytes",
    "max_tile_bytes",
    "tile_bytes",
    "streaming_bytes",
    "flop_utilisation",
    "joules_per_sample",
)
"""The figures of an outcome, in the order of tables and files."""
