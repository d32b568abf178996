"""All passes, in order."""

from __future__ import annotations

from ipu_tf.compiler.hlo import Module
from ipu_tf.compiler.passes import (
    attribution,
    common_subexpressions,
    constants,
    dead_code,
    fusion,
    identities,
    inline,
    local_casts,
    narrow_sums,
    narrowing,
    recomputation,
    small_sources,
    sunk_broadcasts,
)
from ipu_tf.compiler.passes.loops import dead_loop_parts, flat_loops, invariant_stacks, trip_counts
from ipu_tf.compiler.passes.recognition import (
    dropouts,
    error_functions,
    gates,
    gelus,
    norm_folding,
    norms,
    powers,
    random_generators,
    random_normals,
    softmaxes,
    statistics_folding,
)

_BEFORE_TRIP_COUNTS = (
    inline.run,
    dead_code.run,
    # Runs before other passes take the arithmetic of a generator apart.
    random_generators.run,
    random_normals.run,
    flat_loops.run,
    identities.run,
    constants.run,
    powers.run,
    # Folded constants make new identities (a multiplication by one).
    identities.run,
    common_subexpressions.run,
    dead_code.run,
    trip_counts.run,
)

_PASSES = (
    *_BEFORE_TRIP_COUNTS,
    invariant_stacks.run,
    sunk_broadcasts.run,
    dead_loop_parts.run,
    # Constants and trip counts use the types that TensorFlow computes with.
    narrowing.run,
    # A fusion stays within a layer and a phase of the step.
    attribution.run,
    # Ahead of passes that copy or join their parts.
    error_functions.run,
    gelus.run,
    dropouts.run,
    gates.run,
    softmaxes.run,
    local_casts.run,
    norms.run,
    norm_folding.run,
    narrow_sums.run,
    dead_code.run,
    recomputation.run,
    small_sources.run,
    fusion.run,
    statistics_folding.run,
    # Lets equal fusions share a computation.
    common_subexpressions.run,
    dead_code.run,
)


def simplify(module: Module) -> Module:
    """Returns a module that computes the same results with fewer instructions, ready for lowering.

    It has no calls, no copies, and element-wise chains are fusions; loops know their trip counts
    and instructions their layers and phases. Simplifying it again changes nothing.
    """
    for run in _PASSES:
        module = run(module)
    return module


def count_loops(module: Module) -> Module:
    """Returns a module as it is within `simplify` after loops know their trip counts, unfused."""
    for run in _BEFORE_TRIP_COUNTS:
        module = run(module)
    return module
