"""`DeviceConfiguration`: a validated configuration, as the rest of the project reads it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from ipu_tf.machine.system import System
from ipu_tf.machine.target import Target

Partials = Literal["float16", "float32"]
Engine = Literal["auto", "graph", "xla"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannerOptions:
    """Options of the matmul or of the convolution planner.

    Attributes:
        partials: Type of partial sums for float16 inputs; float32 inputs always have float32.
        available_memory_proportion: Share of tile memory that an operation's temporary data may
            take, above 0 and at most 1.
    """

    partials: Partials = "float32"
    available_memory_proportion: float = 0.6  # the default of Poplar's planners

    def __post_init__(self) -> None:
        if self.partials not in ("float32", "float16"):
            raise ValueError(
                "PlannerOptions.partials must be 'float32', 'float16'. "
                f"Received: {self.partials!r}."
            )
        if not 0 < self.available_memory_proportion <= 1:
            raise ValueError(
                "PlannerOptions.available_memory_proportion must be above 0 and at most 1. "
                f"Received: {self.available_memory_proportion!r}."
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceConfiguration:
    """A validated configuration, hashable, with every interplay of options resolved.

    Attributes:
        target: One IPU of the simulated machine, with only those of its tiles that compute.
        system: The system that connects the IPUs to each other and to a host; None for the
            smallest of `ipu_tf.machine.SYSTEMS` that has enough chips of the target's name.
        num_ipus: Number of IPUs of each TensorFlow device, at least one device.
        numerics: Whether matmuls and convolutions run as tile ops or as TensorFlow's own.
        out_of_memory: Whether a program that does not fit is an error, a warning, or (in
            estimates) a figure of the report.
        unsupported: Whether an operation without a cost is an error or a warning.
        engine: What runs programs on the host; "auto" chooses by the program.
        inv: Whether an invalid operation is an error.
        div0: Whether a division by zero is an error.
        oflo: Whether an overflow is an error.
        nanoo: Whether float16 overflow gives NaN; otherwise it saturates.
        stochastic_rounding: Which float16 results are rounded stochastically.
        matmul: Options of the matmul planner.
        conv: Options of the convolution planner.
        share_code: Whether equal operations share their code.
        cholesky_block: Rows of a block of the Cholesky factorisation, 0 for the default.
        triangular_solve_block: Rows of a block of the triangular solver, 0 for the default.
        batch_norm_replica_group_size: Replicas that share the statistics of batch norm.
        connection: When the process attaches to its IPUs.
        io_tiles: Tiles of an IPU set aside for input and output, besides those of `target`.
        io_tile_share: Share of the memory of these tiles that may hold data.
        allow_recompute: Whether programs recompute activations, whatever the options of pipelines.
        trace_numerics: Whether the operation that made the first NaN or infinity is looked for.
        trace_underflow: Whether the first gradient with values that became 0 is looked for.
        isolate_custom_ops: Whether custom ops written for Poplar run in processes of their own.
        without_effect: Options that were set and do nothing here, by dotted name. It takes no
            part in comparisons.
    """

    target: Target
    system: System | None = None
    num_ipus: tuple[int, ...] = (1,)
    numerics: Literal["tiles", "native"] = "tiles"
    out_of_memory: Literal["raise", "warn", "report"] = "raise"
    unsupported: Literal["raise", "warn"] = "raise"
    engine: Engine = "auto"
    inv: bool = False
    div0: bool = False
    oflo: bool = False
    nanoo: bool = False
    stochastic_rounding: Literal["off", "on", "replica_identical_only"] = "off"
    matmul: PlannerOptions = PlannerOptions()
    conv: PlannerOptions = PlannerOptions()
    share_code: bool = True
    cholesky_block: int = 0
    triangular_solve_block: int = 0
    batch_norm_replica_group_size: int = 1
    connection: Literal["always", "on_demand", "never", "pre_compile"] = "always"
    io_tiles: int = 0
    io_tile_share: float = 0.9
    allow_recompute: bool = False
    trace_numerics: bool = False
    trace_underflow: bool = False
    isolate_custom_ops: bool = False
    without_effect: tuple[str, ...] = field(default=(), compare=False)

    @property
    def chip(self) -> str:
        """Name of the chip."""
        return self.target.chip

    @property
    def tiles_per_ipu(self) -> int:
        """Number of tiles of each IPU that compute."""
        return self.target.tiles
