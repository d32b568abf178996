"""Compiles a traced step to its device program, on one IPU or on several."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import logging
from collections.abc import Iterator, Mapping
from types import MappingProxyType

from ipu_tf.base import spans
from ipu_tf.compiler.assembly import build_program
from ipu_tf.compiler.cache import ProgramCache, ProgramStore, fingerprint
from ipu_tf.compiler.compiler_options import CompilerOptions
from ipu_tf.compiler.equal_blocks.lengthening import lengthened_module
from ipu_tf.compiler.equal_blocks.outer_blocks import OuterBlocks
from ipu_tf.compiler.equal_blocks.repetition import NotRepeated
from ipu_tf.compiler.hlo import Module
from ipu_tf.compiler.passes.simplify import simplify
from ipu_tf.compiler.pipeline.deploy import deploy
from ipu_tf.compiler.pipeline.deployment import Deployment
from ipu_tf.compiler.recomputation import marks
from ipu_tf.compiler.recomputation.recompute import recomputed
from ipu_tf.machine import host
from ipu_tf.planner.plan import OpShape, Plan
from ipu_tf.tile_program.device_program import DeviceProgram, on_one_ipu
from ipu_tf.tile_program.errors import IPUOutOfMemoryError, out_of_memory, out_of_streaming_memory

_LOG = logging.getLogger(__name__)
_CACHED_PROGRAMS = 16
_cache: ProgramCache[DeviceProgram] = ProgramCache(_CACHED_PROGRAMS)
_simplified: list[tuple[Module, bool, Module]] = []
"""The two modules that were simplified last, and how: insights begin with the same."""

_NO_PLANS: Mapping[str, tuple[OpShape, Plan]] = MappingProxyType({})


def compile_program(
    module: Module,
    options: CompilerOptions,
    plans: Mapping[str, tuple[OpShape, Plan]] = _NO_PLANS,
    samples_per_run: int = 0,
    deployment: Deployment | None = None,
    store: ProgramStore | None = None,
    outer: OuterBlocks | None = None,
) -> DeviceProgram:
    """Returns the device program of a module, compiled once for equal arguments.

    Args:
        module: The function, or the step of one micro-batch, as traced; this function simplifies
            it.
        options: The chip, options of the planner, and which faults are errors.
        plans: Plans that tile ops run, by the name of their TensorFlow op; others are planned.
        samples_per_run: Samples of one run of the module; 0 if unknown.
        deployment: Its stages, and how they run; None runs it whole on one IPU.
        store: Where several processes share programs, None where they do not.
        outer: The trace of a few equal blocks that the module was made from; None if it was not.

    Raises:
        IPUOutOfMemoryError: An IPU does not hold its stages, and `options` makes that an error.
        UnsupportedOpcodeError: Opcodes have no cost, and `options` makes that an error.
        ValueError: No system of the chip has enough IPUs, or stages on different IPUs share a
            weight.
    """

    def build() -> DeviceProgram:
        recompute = options.recompute if deployment is None else deployment.recompute
        with spans.span("simplify", "compile", program=module.name):
            step = simplified_step(module, recompute=recompute, outer=outer)
        return compile_simplified(step, options, plans, samples_per_run, deployment)

    def shared() -> DeviceProgram:
        if store is None:
            return build()
        return store.get(hashlib.sha256(repr(key).encode()).hexdigest(), build)

    key = fingerprint(module, options, plans, samples_per_run), repr(deployment)
    program = _cache.get(key, shared)
    check_memory(program, options.out_of_memory)
    return program


def compile_simplified(
    module: Module,
    options: CompilerOptions,
    plans: Mapping[str, tuple[OpShape, Plan]] = _NO_PLANS,
    samples_per_run: int = 0,
    deployment: Deployment | None = None,
) -> DeviceProgram:
    """Returns the device program of a simplified module, whether it fits or not; keeps nothing.

    The module has its checkpoints, if it has any (`simplified_step`). Arguments and errors are
    those of `compile_program`.
    """
    if deployment is not None:
        return deploy(module, options, deployment, plans, samples_per_run)
    recompute, system = options.recompute, options.system_of(1)
    step = recomputed(module, recompute=recompute, layers=options.checkpoints).module
    program = build_program(step, options=options, plans=plans)
    return on_one_ipu(
        program,
        system=system.name,
        samples_per_run=samples_per_run,
        recompute=recompute,
        checkpoints=options.checkpoints if recompute else (),
        round_trip_cycles=host.round_trip_cycles(system),
    )


def simplified_step(module: Module, *, recompute: bool, outer: OuterBlocks | None = None) -> Module:
    """Returns a traced step, simplified, with its checkpoints if it recomputes activations.

    Args:
        module: The step, as traced.
        recompute: Whether it recomputes activations.
        outer: The trace of a few equal blocks that a step was made from. If it is this one, passes
            run on that trace, and the other blocks are copied thereafter.
    """
    for source, recomputes, step in tuple(_simplified):
        if source is module and recomputes == recompute:
            return step
    mark = marks.with_checkpoints if recompute else marks.without_checkpoints
    result = None
    if outer is not None and outer.longer is module:
        with contextlib.suppress(NotRepeated):
            result = lengthened_module(simplify(mark(outer.trace)), outer.repetition)
    if result is None:
        result = simplify(mark(module))
    _simplified[:] = [(module, recompute, result), *_simplified[:1]]
    return result


def check_memory(program: DeviceProgram, when_over: str) -> None:
    """Raises or logs an error if a program does not fit.

    Args:
        program: The program.
        when_over: "raise", "warn" or "report", as in `CompilerOptions.out_of_memory`.

    Raises:
        IPUOutOfMemoryError: It does not fit, and `when_over` is "raise".
    """
    if when_over == "report":
        return
    for error in _memory_errors(program):
        if when_over == "raise":
            error.compiled = program
            raise error
        _LOG.warning("%s", error)


def _memory_errors(program: DeviceProgram) -> Iterator[IPUOutOfMemoryError]:
    """Yields an error for streaming memory, and for every IPU, if its part does not fit."""
    if program.streaming_bytes > program.streaming_limit_bytes:
        yield out_of_streaming_memory(program)
    for ipu in program.ipus:
        if ipu.memory.fits:
            continue
        fullest = max(
            (program.stages[stage].program for stage in ipu.stages),
            key=lambda stage: int(stage.memory.peak_tile_bytes.max()),
        )
        number = ipu.ipu if program.replicas * program.replica_ipus > 1 else None
        yield out_of_memory(dataclasses.replace(fullest, memory=ipu.memory), ipu=number)
