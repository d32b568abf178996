"""Finds the checkpoints with which a program fits, and loses the fewest cycles."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass

from ipu_tf.compiler.device_program import DeviceProgram
from ipu_tf.compiler.hlo import Module
from ipu_tf.compiler.recomputation.placement import CheckpointSearch

_SHARES = (0.0, 0.125, 0.25, 0.5, 0.75)
"""Limits of live bytes that are tried: 0 for the fewest, 1 for those without recomputation. The
fullest tile need not be the less full the fewer bytes are live."""

_HALVINGS = 3
"""How often the range between a limit that fits and the next is halved."""

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
    """

    recompute: bool
    checkpoints: tuple[str, ...]
    program: DeviceProgram


def cheapest_that_fits(
    compiled: Compile,
    stages: Callable[[], Sequence[Module]],
    first: DeviceProgram | None = None,
    *,
    always: bool = False,
) -> Choice:
    """Returns the cheapest choice that fits; if none fits, the one that overflows least.

    A program that fits as it is recomputes nothing. Otherwise stages on IPUs that are too small get
    checkpoints: those of the lowest cost with a limit to live bytes, which is raised as far as all
    fits.

    Args:
        compiled: Compiles the program.
        stages: Returns the modules of the program's stages, before recomputation.
        first: The program without recomputation, if it is compiled already.
        always: Whether the program recomputes in any case.
    """
    kept = Choice(recompute=False, checkpoints=(), program=first or compiled(False, ()))
    if kept.program.fits and not always:
        return kept
    tried = [] if always else [kept]
    modules = stages()
    over = _too_small(kept.program)
    if len(modules) > 1:
        # The inputs of stages alone take the least memory between the passes.
        inputs = Choice(recompute=True, checkpoints=(), program=compiled(True, ()))
        tried.append(inputs)
        over = _too_small(inputs.program)
        if not over:
            return inputs
    costs = ChainMap(
        *({step.name: step.cycles for step in stage.program.steps} for stage in kept.program.stages)
    )
    searches = {n: CheckpointSearch(modules[n], costs) for n in over or range(len(modules))}
    known: dict[tuple[str, ...], Choice] = {}

    def choice(share: float) -> Choice:
        layers = tuple(layer for one in searches.values() for layer in one.layers_within(share))
        if layers not in known:
            program = compiled(True, layers)
            known[layers] = Choice(recompute=True, checkpoints=layers, program=program)
        return known[layers]

    fitting = [share for share in _SHARES if choice(share).program.fits]
    if fitting:
        low, high = fitting[-1], min((s for s in _SHARES if s > fitting[-1]), default=1.0)
        for _ in range(_HALVINGS):
            middle = (low + high) / 2
            low, high = (middle, high) if choice(middle).program.fits else (low, middle)
    tried += known.values()
    return min(tried, key=lambda one: (_overflow_bytes(one.program), one.program.cycles))


def _too_small(program: DeviceProgram) -> Set[int]:
    """Returns the stages on IPUs that do not hold them."""
    return {stage for ipu in program.ipus if not ipu.memory.fits for stage in ipu.stages}


def _overflow_bytes(program: DeviceProgram) -> int:
    return max(ipu.memory.overflow_bytes for ipu in program.ipus)
