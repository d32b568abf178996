"""Layers and phases of instructions, from the names that frameworks above XLA give to operations.

JAX names an operation after the functions around it: "jit(step)/jvp(Net)/Dense_0/dot_general" in
the forward pass, "jit(step)/transpose(jvp(Net))/Dense_0/dot_general" in the backward pass.
"""

from __future__ import annotations

import re

from ipu_tf.compiler.hlo.module import Computation, Instruction, Module
from ipu_tf.tile_program.phase import Phase

_WHOLE = re.compile(r"p?jit\(.*\)$")
_WRAPPER = re.compile(r"(?:jvp|transpose|vmap|remat|checkpoint|custom_jvp|custom_vjp)\((.*)\)$")
_BACKWARD = "transpose("


def with_layers(module: Module) -> Module:
    """Returns a module whose instructions have the layers and phases that their names tell."""
    computations = {
        name: Computation(
            name=name,
            root=computation.root,
            instructions=tuple(_with_layer(instruction) for instruction in computation),
        )
        for name, computation in module.computations.items()
    }
    return module.replace(computations=computations)


def _with_layer(instruction: Instruction) -> Instruction:
    phase: Phase = "backward" if _BACKWARD in instruction.op_name else instruction.phase
    return instruction.replace(layer=layer_of(instruction.op_name), phase=phase)


def layer_of(op_name: str) -> str:
    """Returns the path of an operation's layer, "" for none: its name without the operation."""
    *around, _ = op_name.split("/")
    parts = []
    for part in around:
        if _WHOLE.match(part):
            continue
        while match := _WRAPPER.match(part):
            part = match[1]
        if part:
            parts.append(part)
    return "/".join(parts)
