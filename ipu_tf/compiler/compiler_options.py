"""Options of the compiler: the machine, and how to plan for it."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field

from ipu_tf.config.device import PlannerOptions
from ipu_tf.machine.system import System, system_of
from ipu_tf.machine.target import CHIPS, Target

_CHOICES = {"unsupported": ("raise", "warn"), "out_of_memory": ("raise", "warn", "report")}


DEFAULT_BLOCK = 64
"""Columns of a block of a factorisation. Modelled: poplibs' default."""

DEFAULT_IO_TILE_SHARE = 0.9
"""The default of the machine's option `io_tiles.available_memory_proportion`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CompilerOptions:
    """Options of a compilation; equal options and equal modules give equal programs.

    Attributes:
        target: The chip.
        system: The system that connects IPUs to each other and to a host; None for the smallest of
            `ipu_tf.machine.SYSTEMS` that has enough chips of the target's name.
        matmul: Planning options of matmuls.
        conv: Planning options of convolutions.
        unsupported: "raise" or "warn" if an opcode has no cost.
        out_of_memory: "raise", "warn", or "report" (an estimate: neither raises nor warns)
            if the program does not fit.
        share_code: Whether equal operations, on any tiles, share vertices and exchange code
            (Poplar's graph outlining); copies bring their operands to where the shared code
            expects them.
        io_tiles: Tiles besides those of `target` that make transfers to and from the host and
            streaming memory beside the work of the others; 0 for none.
        io_tile_share: Share of their memory that may hold data.
        host_ipus: IPUs of one connection to the host that make the same transfer at the same time,
            those of replicas on one machine.
        cholesky_block: Columns of a block of a Cholesky factorisation.
        triangular_solve_block: Columns of a block of a triangular solver.
        recompute: Whether the backward pass recomputes activations, in programs without a
            deployment of their own.
        checkpoints: Paths of layers after which activations are kept while others are recomputed.
    """

    target: Target = CHIPS["bow"]
    system: System | None = None
    matmul: PlannerOptions = field(default_factory=PlannerOptions)
    conv: PlannerOptions = field(default_factory=PlannerOptions)
    unsupported: str = "raise"
    out_of_memory: str = "raise"
    share_code: bool = True
    io_tiles: int = 0
    io_tile_share: float = DEFAULT_IO_TILE_SHARE
    host_ipus: int = 1
    cholesky_block: int = DEFAULT_BLOCK
    triangular_solve_block: int = DEFAULT_BLOCK
    recompute: bool = False
    checkpoints: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name, choices in _CHOICES.items():
            value = getattr(self, name)
            if value not in choices:
                names = ", ".join(repr(choice) for choice in choices)
                raise ValueError(f"CompilerOptions.{name} must be {names}. Received: {value!r}.")
        for name in ("cholesky_block", "triangular_solve_block"):
            value = getattr(self, name)
            if value < 1:
                raise ValueError(f"CompilerOptions.{name} must be positive. Received: {value!r}.")
        if self.io_tiles < 0:
            raise ValueError(
                f"CompilerOptions.io_tiles must not be negative. Received: {self.io_tiles!r}."
            )
        if not 0 <= self.io_tile_share <= 1:
            raise ValueError(
                "CompilerOptions.io_tile_share must be in [0, 1]. "
                f"Received: {self.io_tile_share!r}."
            )
        if self.system is not None and self.system.target.chip != self.target.chip:
            raise ValueError(
                f"CompilerOptions.system must have the {self.target.chip} chips of `target`. "
                f"Received: {self.system.name!r}, of {self.system.target.chip} chips."
            )

    def system_of(self, ipus: int = 1) -> System:
        """Returns the system that connects so many IPUs of the target to each other and to a host.

        Raises:
            ValueError: There is no such system, or it is too small.
        """
        system = system_of(self.system or self.target, ipus)
        # The target may be a part of the system's chip, such as some of its tiles.
        return dataclasses.replace(system, target=self.target)
