"""Finds the checkpoints with which a program fits, and loses the fewest cycles."""

from __future__ import annotations

import itertools
from collections import ChainMap
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ipu_tf.compiler.hlo import Module
from ipu_tf.compiler.recomputation.placement import CheckpointSearch
from ipu_tf.tile_program.device_program import DeviceProgram

_SHARES = (0.0, 0.125, 0.25, 0.5, 0.75)
"""Limits of live bytes that are tried: 0 for the fewest, 1 for those without recomputation. The
fullest tile need not be the less full the fewer bytes are live."""

_HALVINGS = 3
"""How often the range between a limit that fits and the next is halved."""

_PIPELINE_SHARES = (0.0, 0.25, 0.5)
"""The same for the stages of a pipeline, of which every IPU takes the best."""

Compile = Callable[[bool, tuple[str, ...]], DeviceProgram]
"""Compiles a program: whether it recomputes, and the layers after which it keeps activations."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Choice:
    """A choice of checkpoints.

    Attributes:
        recompute: Whether the program recomputes.
        checkpoints: Paths of the layers after which activations are kept while others are
            recomputed.
        program: The program. It does not fit if none does.
        is_own: Whether it keeps the checkpoints that the program has itself.
    """

    recompute: bool
    checkpoints: tuple[str, ...]
    program: DeviceProgram
    is_own: bool = False


def cheapest_that_fits(
    compiled: Compile,
    stages: Callable[[], Sequence[Module]],
    first: DeviceProgram | None = None,
    *,
    always: bool = False,
    with_own_checkpoints: Callable[[], DeviceProgram] | None = None,
) -> Choice:
    """Returns the cheapest choice that fits; if none fits, the one that overflows least.

    A program that fits as it is recomputes nothing. Otherwise it gets checkpoints: those of the
    lowest cost with a limit to live bytes, which is raised as far as all fits. In a pipeline each
    IPU gets the limit with which its stages fit and take the fewest cycles.

    Args:
        compiled: Compiles the program.
        stages: Returns the modules of the program's stages, before recomputation.
        first: The program without recomputation, if it is compiled already.
        always: Whether the program recomputes in any case.
        with_own_checkpoints: Compiles the program with the checkpoints that it has itself; None if
            it has none.
    """
    without = Choice(recompute=False, checkpoints=(), program=first or compiled(False, ()))
    if without.program.fits and not always:
        return without
    modules = stages()
    costs = ChainMap(
        *(
            {step.name: step.cycles for step in stage.program.steps}
            for stage in without.program.stages
        )
    )
    searches = [CheckpointSearch(module, costs) for module in modules]
    choices = [] if always else [without]
    if len(searches) > 1:
        choices += _of_pipeline(compiled, searches)
    else:
        choices += _of_one_ipu(compiled, searches[0])
    if with_own_checkpoints is not None:
        choices.append(
            Choice(recompute=True, checkpoints=(), program=with_own_checkpoints(), is_own=True)
        )
    return min(choices, key=lambda one: (_overflow_bytes(one.program), one.program.cycles))


def _of_one_ipu(compiled: Compile, search: CheckpointSearch) -> list[Choice]:
    """Returns choices of the checkpoints of a program without stages."""
    choices: dict[tuple[str, ...], Choice] = {}

    def choice(share: float) -> Choice:
        layers = search.layers_within(share)
        if layers not in choices:
            program = compiled(True, layers)
            choices[layers] = Choice(recompute=True, checkpoints=layers, program=program)
        return choices[layers]

    shares = [share for share in _SHARES if choice(share).program.fits]
    if shares:
        low, high = shares[-1], min((s for s in _SHARES if s > shares[-1]), default=1.0)
        for _ in range(_HALVINGS):
            middle = (low + high) / 2
            low, high = (middle, high) if choice(middle).program.fits else (low, middle)
    return list(choices.values())


def _of_pipeline(compiled: Compile, searches: Sequence[CheckpointSearch]) -> list[Choice]:
    """Returns choices of the checkpoints of stages, the last one with the best of every IPU.

    The inputs of stages alone take the least memory between the passes, the ends of all layers
    the fewest cycles. The last stage recomputes only what leads to its checkpoints.
    """
    shares = [[search.layers_within(share) for search in searches] for share in _PIPELINE_SHARES]
    ends = [*(search.layers for search in searches[:-1]), ()]
    inputs: list[tuple[str, ...]] = [()] * len(searches)
    rows = list(dict.fromkeys(tuple(row) for row in (inputs, *shares, ends)))
    choices = [_choice(compiled, row) for row in rows]
    if len({stage.ipu for stage in choices[0].program.stages}) == 1:
        return choices
    best = list(inputs)
    for number, ipu in enumerate(choices[0].program.ipus):
        least = min(range(len(rows)), key=lambda row: _rank(choices[row].program, number))
        for stage in ipu.stages:
            best[stage] = rows[least][stage]
    return choices if tuple(best) in rows else [*choices, _choice(compiled, best)]


def _choice(compiled: Compile, of_stages: Sequence[tuple[str, ...]]) -> Choice:
    """Returns the choice of the checkpoints of each stage."""
    layers = tuple(dict.fromkeys(itertools.chain.from_iterable(of_stages)))
    return Choice(recompute=True, checkpoints=layers, program=compiled(True, layers))


def _rank(program: DeviceProgram, number: int) -> tuple[int, int]:
    """Returns the sort key of a program, best first, by what one of its IPUs needs."""
    ipu = program.ipus[number]
    stages = [program.stages[stage] for stage in ipu.stages]
    return ipu.memory.overflow_bytes, sum(stage.micro_batch_cycles for stage in stages)


def _overflow_bytes(program: DeviceProgram) -> int:
    return max(ipu.memory.overflow_bytes for ipu in program.ipus)
