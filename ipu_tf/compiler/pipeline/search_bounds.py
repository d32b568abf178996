"""The bounds of a search for a pipeline, and the shapes of pipelines within them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ipu_tf.compiler.pipeline.schedule import schedule_depth
from ipu_tf.tile_program.device_program import Schedule


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineShape:
    """A pipeline without its split of layers into stages.

    Attributes:
        stages: Number of stages, each on an IPU of its own.
        replicas: Copies of the pipeline.
        schedule: The order in which stages run.
        recompute: Whether stages recompute activations.
        micro_batches: Micro-batches of a weight update on each replica.
    """

    stages: int
    replicas: int
    schedule: Schedule
    recompute: bool
    micro_batches: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """The bounds of the search.

    Attributes:
        ipus: IPUs of all replicas together.
        replicas: Number of replicas, None for any.
        micro_batches: The least and the most micro-batches of a weight update on each replica.
        schedules: Orders in which stages may run.
        recompute: The values to try for whether stages recompute activations: one or both.
    """

    ipus: int
    replicas: int | None
    micro_batches: tuple[int, int]
    schedules: tuple[Schedule, ...]
    recompute: tuple[bool, ...]

    def counts(self, schedule: Schedule, stages: int) -> tuple[int, ...]:
        """Returns the numbers of micro-batches to try for a pipeline.

        More micro-batches share ramp-up, ramp-down, all-reduce and update, so the most that the
        schedule runs is tried; a single one needs no accumulators, which helps if memory is short.
        """
        ipus = tuple(range(stages))
        # A model on one IPU is not a pipeline: it has no schedule to fill.
        depth = schedule_depth(schedule, ipus, training=True) if stages > 1 else 1
        least, most = self.micro_batches
        counts = {most // depth * depth, *([1] if depth == 1 else [])}
        return tuple(sorted(count for count in counts if count >= least))

    def shapes(self, layers: int) -> Iterator[PipelineShape]:
        """Yields every shape of a pipeline on all IPUs with at most one stage per layer."""
        for replicas in (1 << power for power in range(self.ipus.bit_length())):
            stages = self.ipus // replicas
            if self.replicas not in (None, replicas) or stages > layers:
                continue
            # With one stage, all schedules are the same, and recomputation only helps to fit.
            for schedule in self.schedules if stages > 1 else self.schedules[:1]:
                for recompute in self.recompute if stages > 1 else (min(self.recompute),):
                    for count in self.counts(schedule, stages):
                        yield PipelineShape(
                            stages=stages,
                            replicas=replicas,
                            schedule=schedule,
                            recompute=recompute,
                            micro_batches=count,
                        )
