"""Compiles the ways to train a model that are within bounds, and keeps the best."""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from ipu_tf.compiler.compile import simplified_step
from ipu_tf.compiler.compiler_options import CompilerOptions
from ipu_tf.compiler.hlo import Module
from ipu_tf.compiler.pipeline.balance import (
    BalanceRequest,
    LayerFigures,
    balanced_stages,
    corrected,
    cycles_per_byte,
    even_stages,
    layer_figures,
)
from ipu_tf.compiler.pipeline.candidate import PipelineCandidate, Split
from ipu_tf.compiler.pipeline.deploy import deploy, stage_modules
from ipu_tf.compiler.pipeline.deployment import Deployment, Offload, with_short_paths
from ipu_tf.compiler.pipeline.search_bounds import Bounds, PipelineShape
from ipu_tf.compiler.recomputation.cheapest import cheapest_that_fits
from ipu_tf.compiler.traced_step import TracedStep
from ipu_tf.tile_program.device_program import DeviceProgram

_FOR_LAYERS = 0.8
"""Share of a chip's memory for which layers are first cut; code and values that are live for a
moment take the rest. The search compiles every candidate, so its fit is known."""

_ROUNDS = 3
"""How often layers of a shape are cut, each time by the figures of the last cut."""

_ROUNDS_TO_FIT = 6
"""How often they are cut while no cut fits."""

_WITH_CHECKPOINTS = 2
"""Candidates that are too large for which checkpoints are searched, the fastest ones."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelinedCall:
    """A call of a layer, which one stage runs whole.

    Attributes:
        path: Path of the layer, as programs name it: "model/nested/dense".
        weights: Numbers of the weights that it uses; calls with a number in common share a weight.
    """

    path: str
    weights: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CompiledCandidate:
    """A candidate with its program.

    Attributes:
        candidate: Its figures.
        program: Its compiled program.
    """

    candidate: PipelineCandidate
    program: DeviceProgram


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SearchResult:
    """The result of a search.

    Attributes:
        candidates: All compiled candidates, the best first.
        best: The best candidate.
        even: The best of those with the same number of layers in every stage; if no pipeline was
            within the bounds, the model with one replica per IPU.
    """

    candidates: tuple[PipelineCandidate, ...]
    best: CompiledCandidate
    even: CompiledCandidate


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Step:
    """A train step to be cut into stages.

    Attributes:
        trace: The step.
        module: Its HLO, simplified.
        options: The compiler's options.
        figures: The figures of each layer.
    """

    trace: TracedStep
    module: Module
    options: CompilerOptions
    figures: LayerFigures

    @classmethod
    def of(cls, traced: TracedStep, places: Mapping[str, int], offload: Offload) -> _Step:
        """Returns a traced step, simplified; the other arguments are those of `layer_figures`."""
        module = simplified_step(traced.module, recompute=True, outer=traced.outer)
        options = dataclasses.replace(traced.options, out_of_memory="report")
        figures = layer_figures(module, places, options, traced.plans, offload)
        return cls(trace=traced, module=module, options=options, figures=figures)

    def compiled(self, pipeline: Deployment) -> DeviceProgram:
        """Returns its program."""
        plans, samples = self.trace.plans, self.trace.samples_per_run
        return deploy(self.module, self.options, pipeline, plans, samples)


class PipelineSearch:
    """Compiles ways to train a model.

    Args:
        model: Name of the model.
        calls: The calls of its layers, in their order.
        trace: Maps the micro-batches of a weight update to the traced train step. It is called
            once for a single one and once for several: other numbers change only constants.
        offload: The data that a pipeline moves off its tiles.
        offload_whole: The data that a model without stages moves off its tiles.
    """

    def __init__(
        self,
        model: str,
        calls: Sequence[PipelinedCall],
        trace: Callable[[int], TracedStep],
        *,
        offload: Offload,
        offload_whole: Offload,
    ) -> None:
        self._model, self._trace = model, trace
        self._offload, self._offload_whole = offload, offload_whole
        self._paths = [call.path for call in calls]
        self._together = sharing(calls)
        self._steps: dict[bool, _Step] = {}

    def run(self, bounds: Bounds) -> SearchResult | None:
        """Returns the best pipelines within bounds, None if there are none."""
        candidates: list[PipelineCandidate] = []
        compiled_all: list[CompiledCandidate] = []
        best: CompiledCandidate | None = None
        even: CompiledCandidate | None = None
        for shape in bounds.shapes(len(self._paths) - len(self._together)):
            for compiled in self._compiled(shape):
                compiled_all.append(compiled)
                candidates.append(compiled.candidate)
                best = _better(best, compiled)
                if compiled.candidate.split == "even":
                    even = _better(even, compiled)
        if best is None:
            return None
        if True in bounds.recompute:
            for compiled in self._with_checkpoints(compiled_all, best):
                candidates.append(compiled.candidate)
                best = _better(best, compiled)
        candidates.sort(key=lambda candidate: candidate.rank)
        return SearchResult(candidates=tuple(candidates), best=best, even=even or best)

    def _compiled(self, shape: PipelineShape) -> Iterator[CompiledCandidate]:
        """Yields the pipelines of a shape, one for each way to split the layers."""
        if shape.stages == 1:
            yield self._compile(shape, (0,) * len(self._paths), "whole")
            return
        candidates: dict[tuple[int, ...], CompiledCandidate] = {}
        even = even_stages(len(self._paths), shape.stages)
        if not self._together.intersection(_begins(even)):
            candidates[even] = self._compile(shape, even, "even")
            yield candidates[even]
        request, figures = self._request(shape), self._step(shape).figures
        for cut_round in range(_ROUNDS_TO_FIT):
            if cut_round >= _ROUNDS and any(
                compiled.candidate.fits for compiled in candidates.values()
            ):
                return
            stages = balanced_stages(figures, request)
            is_new = stages not in candidates
            if is_new:
                candidates[stages] = self._compile(shape, stages, "balanced")
                yield candidates[stages]
            elif request.chip_bytes == self._chip_bytes(shape):
                return
            # From here on, the figures include the parts that the first cuts only guess: code,
            # values that are live for a moment, and values that are not spread evenly.
            figures = corrected(figures, request, stages, candidates[stages].program)
            request = dataclasses.replace(request, chip_bytes=self._chip_bytes(shape))

    def _with_checkpoints(
        self, candidates: Sequence[CompiledCandidate], best: CompiledCandidate
    ) -> Iterator[CompiledCandidate]:
        """Yields the fastest candidates that do not fit, with checkpoints with which they may.

        Args:
            candidates: All candidates so far.
            best: The best of them.
        """
        limit = best.candidate.cycles_per_micro_batch
        too_large = [
            one
            for one in candidates
            if not one.candidate.fits
            and (one.candidate.options.recompute or one.candidate.split == "whole")
            and (not best.candidate.fits or one.candidate.cycles_per_micro_batch < limit)
        ]
        too_large.sort(key=lambda one: one.candidate.cycles_per_micro_batch)
        for one in too_large[:_WITH_CHECKPOINTS]:
            options = one.candidate.options
            step = self._step_of(options.micro_batches)
            cheapest = cheapest_that_fits(
                functools.partial(_recompiled, step, options),
                functools.partial(stage_modules, step.module, options),
                None if options.recompute else one.program,
                always=options.recompute,
            )
            if cheapest.checkpoints:
                recomputing = dataclasses.replace(
                    options, recompute=True, checkpoints=cheapest.checkpoints
                )
                candidate = PipelineCandidate.of(
                    cheapest.program,
                    split=one.candidate.split,
                    stages=one.candidate.stages,
                    options=recomputing,
                )
                yield CompiledCandidate(candidate=candidate, program=cheapest.program)

    def _step(self, shape: PipelineShape) -> _Step:
        """Returns the train step of a shape."""
        return self._step_of(shape.micro_batches)

    def _step_of(self, micro_batches: int) -> _Step:
        """Returns the train step; it depends only on whether it accumulates."""
        accumulates = micro_batches > 1
        if accumulates not in self._steps:
            self._steps[accumulates] = _Step.of(
                self._trace(micro_batches),
                self._by_path(range(len(self._paths))),
                self._offload,
            )
        return self._steps[accumulates]

    def _request(self, shape: PipelineShape) -> BalanceRequest:
        system = self._step(shape).options.system_of(shape.stages * shape.replicas)
        return BalanceRequest(
            stages=shape.stages,
            schedule=shape.schedule,
            recompute=shape.recompute,
            chip_bytes=int(_FOR_LAYERS * self._chip_bytes(shape)),
            cycles_per_byte=cycles_per_byte(system),
            together=self._together,
        )

    def _chip_bytes(self, shape: PipelineShape) -> int:
        target = self._step(shape).options.target
        return target.tiles * target.tile_bytes

    def _compile(
        self, shape: PipelineShape, stages: tuple[int, ...], split: Split
    ) -> CompiledCandidate:
        options = Deployment(
            stage_of_layers=self._by_path(stages),
            shared_layers=self._shared(stages),
            schedule=shape.schedule,
            micro_batches=shape.micro_batches,
            recompute=shape.recompute,
            replicas=shape.replicas,
            offload=self._offload_whole if split == "whole" else self._offload,
        )
        program = self._step(shape).compiled(options)
        candidate = PipelineCandidate.of(program, split=split, stages=stages, options=options)
        return CompiledCandidate(candidate=candidate, program=program)

    def _by_path(self, stages: Sequence[int]) -> dict[str, int]:
        """Returns the stage of each layer by its path; a layer that is called again keeps its first
        stage."""
        of_paths: dict[str, int] = {}
        for path, stage in zip(self._paths, stages, strict=True):
            of_paths.setdefault(path, stage)
        return with_short_paths(of_paths, self._model)

    def _shared(self, stages: Sequence[int]) -> dict[str, tuple[int, ...]]:
        """Returns all stages of each layer that several stages call, by its path."""
        of_paths: dict[str, set[int]] = {}
        for path, stage in zip(self._paths, stages, strict=True):
            of_paths.setdefault(path, set()).add(stage)
        shared = {path: tuple(sorted(of)) for path, of in of_paths.items() if len(of) > 1}
        return with_short_paths(shared, self._model)


def sharing(calls: Sequence[PipelinedCall]) -> frozenset[int]:
    """Returns the calls before which no stage may begin. Weights are on one IPU, so all calls from
    the first to the last use of a weight are in one stage."""
    calls_of_weights: dict[int, list[int]] = {}
    for number, call in enumerate(calls):
        for weight in call.weights:
            calls_of_weights.setdefault(weight, []).append(number)
    return frozenset(
        itertools.chain.from_iterable(
            range(of[0] + 1, of[-1] + 1) for of in calls_of_weights.values()
        )
    )


def _recompiled(
    step: _Step, options: Deployment, recompute: bool, checkpoints: tuple[str, ...]
) -> DeviceProgram:
    """Returns the program of a deployment that recomputes otherwise."""
    recomputing = dataclasses.replace(options, recompute=recompute, checkpoints=checkpoints)
    return step.compiled(recomputing)


def _begins(stages: Sequence[int]) -> Iterator[int]:
    """Yields the number of the first layer of each stage but the first."""
    return (n for n, (last, stage) in enumerate(itertools.pairwise(stages), 1) if stage != last)


def _better(best: CompiledCandidate | None, candidate: CompiledCandidate) -> CompiledCandidate:
    """Returns the one with the better rank, `best` if they are equal."""
    return candidate if best is None or candidate.candidate.rank < best.candidate.rank else best
