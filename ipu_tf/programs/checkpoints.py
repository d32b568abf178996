"""Recomputes the activations of traced programs as far as their memory needs it."""

from __future__ import annotations

import dataclasses

from ipu_tf.compiler.compile import compile_simplified, simplified_step
from ipu_tf.compiler.hlo import Module
from ipu_tf.compiler.pipeline.deploy import stage_modules
from ipu_tf.compiler.pipeline.deployment import Deployment
from ipu_tf.compiler.recomputation import marks
from ipu_tf.compiler.recomputation.cheapest import cheapest_that_fits
from ipu_tf.compiler.traced_step import TracedStep
from ipu_tf.programs.program import Program
from ipu_tf.programs.source import Source
from ipu_tf.tile_program.device_program import DeviceProgram


def with_cheapest_checkpoints(program: Program) -> Program:
    """Returns a program with the cheapest checkpoints with which it fits, its own or others.

    A program that fits without recomputation recomputes nothing; if none fits, it has those with
    which it overflows least. Programs whose source is gone stay as they are.
    """
    source, device = program.source, program.device
    if source is None or device is None:
        return program
    step = source.step
    plain = _without_checkpoints(step)
    module = simplified_step(plain.module, recompute=False, outer=plain.outer)

    def with_checkpoints(
        recompute: bool, checkpoints: tuple[str, ...], traced: TracedStep = plain
    ) -> Source:
        new_options = dataclasses.replace(
            step.options, out_of_memory="report", recompute=recompute, checkpoints=checkpoints
        )
        where = source.deployment and dataclasses.replace(
            source.deployment, recompute=recompute, checkpoints=(), keeps_checkpoints=True
        )
        new = dataclasses.replace(traced, options=new_options)
        return dataclasses.replace(source, step=new, deployment=where)

    def compiled(
        recompute: bool, checkpoints: tuple[str, ...], simplified: Module = module
    ) -> DeviceProgram:
        new = with_checkpoints(recompute, checkpoints)
        return compile_simplified(
            simplified, new.step.options, step.plans, step.samples_per_run, new.deployment
        )

    def with_own_checkpoints() -> DeviceProgram:
        own = simplified_step(step.module, recompute=True, outer=step.outer)
        return compiled(True, (), own)

    whole = Deployment(stage_of_layers={"": 0})
    choice = cheapest_that_fits(
        compiled,
        lambda: stage_modules(module, source.deployment or whole),
        with_own_checkpoints=with_own_checkpoints if marks.has_checkpoints(step.module) else None,
    )
    notes = tuple(note for note in device.notes if note not in choice.program.notes)
    return dataclasses.replace(
        program,
        device=dataclasses.replace(choice.program, notes=(*choice.program.notes, *notes)),
        source=with_checkpoints(
            choice.recompute, choice.checkpoints, step if choice.is_own else plain
        ),
    )


def _without_checkpoints(step: TracedStep) -> TracedStep:
    """Returns a step whose layers keep no activations, made from the same blocks if it was."""
    if not marks.has_checkpoints(step.module):
        return step
    module, outer = marks.without_checkpoints(step.module), step.outer
    if outer is not None:
        trace = marks.without_checkpoints(outer.trace)
        outer = dataclasses.replace(outer, trace=trace, longer=module)
    return dataclasses.replace(step, module=module, outer=outer)
