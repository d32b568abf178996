"""The time of a program as the script calls it: its runs and the call from the host around them."""

from __future__ import annotations

from dataclasses import dataclass

from ipu_tf.compiler.host_call import call_cycles
from ipu_tf.tile_program.device_program import DeviceProgram


@dataclass(frozen=True, slots=True, kw_only=True)
class HostCall:
    """A call from the host, which runs a program one or more times in a loop on the device.

    Attributes:
        runs: Runs of the program.
        seconds: Seconds until the host has the results of all runs.
        micro_batches: Micro-batches of all runs, each on all replicas.
        samples: Samples of all runs; 0 if unknown.
        is_known: Whether `seconds` has the host's part; otherwise they are those of a run alone.
    """

    runs: int
    seconds: float
    micro_batches: int
    samples: int
    is_known: bool = True

    @property
    def run_seconds(self) -> float:
        """Seconds of a run, with its share of the call."""
        return self.seconds / self.runs

    @property
    def micro_batch_seconds(self) -> float:
        """Seconds of a micro-batch, with its share of the call."""
        return self.seconds / self.micro_batches

    @property
    def samples_per_second(self) -> float | None:
        """Samples a second; None if they are not known."""
        return self.samples / self.seconds if self.samples and self.seconds else None


def call_of(device: DeviceProgram, steps: int) -> HostCall:
    """Returns the call that runs a number of steps (micro-batches of a replica), at least one run.

    Args:
        device: The program.
        steps: The steps; 0 if nothing says how many a call runs.
    """
    is_known = steps > 0 and device.round_trip_cycles > 0
    runs = max(1, steps // device.micro_batches)
    cycles = call_cycles(device, runs) if is_known else runs * device.cycles
    return HostCall(
        runs=runs,
        seconds=device.target.seconds(cycles),
        micro_batches=runs * device.micro_batches,
        samples=runs * device.samples_per_update,
        is_known=is_known,
    )
