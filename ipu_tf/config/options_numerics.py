"""Options that change what is computed, or the precision of it."""

from __future__ import annotations

from ipu_tf.config.category import Category
from ipu_tf.config.declaration import option
from ipu_tf.config.enums import StochasticRoundingBehaviour

_PLANNER_EFFECT = (
    '`partialsType` ("half" or "float") and `availableMemoryProportion` (0 to 1) have an effect; '
    "other keys are stored without effect."
)

_TRAP_EFFECT = "Checks operations; the program stops with an error that names the operation."


class FloatingPointBehaviour(Category):
    """Exceptions and rounding of the floating-point unit."""

    inv: bool = option(
        False,
        "Stop with an error on an invalid operation.",
        _TRAP_EFFECT,
    )
    div0: bool = option(
        False,
        "Stop with an error on a division by zero.",
        _TRAP_EFFECT,
    )
    oflo: bool = option(
        False,
        "Stop with an error on an overflow.",
        _TRAP_EFFECT,
    )
    esr: StochasticRoundingBehaviour = option(
        StochasticRoundingBehaviour.OFF,
        "Round float16 results stochastically.",
        "Sets the rounding of the tile ops and of casts from float32 to float16. "
        "REPLICA_IDENTICAL_ONLY is the same as ON.",
    )
    nanoo: bool = option(
        False,
        "Make float16 overflow NaN; otherwise it saturates at 65504.",
        "Sets the result of overflows in tile ops and in casts from float32 to float16.",
    )
    set_all: bool = option(
        False,
        "Turn on inv, div0, oflo, esr and nanoo together.",
        "Overrides these five options when the configuration is installed.",
    )


class Convolutions(Category):
    """Convolutions."""

    poplar_options: dict = option({}, "Options of the convolution planner.", _PLANNER_EFFECT)


class Matmuls(Category):
    """Matrix multiplications."""

    clear_pass_type: bool = option(
        False, "Plan every matmul alone, not as one pass of a fully connected layer."
    )
    poplar_options: dict = option({}, "Options of the matmul planner.", _PLANNER_EFFECT)


class Slices(Category):
    """Dynamic slices and embedding look-ups."""

    poplar_options: dict = option({}, "Options of the slice planner.")


class Pooling(Category):
    """Pooling."""

    poplar_options: dict = option({}, "Options of pooling.")


class NormsExperimental(Category):
    """Options of normalisation that may change or go."""

    distributed_batch_norm_replica_group_size: int = option(
        1,
        "Number of replicas that share batch-norm statistics.",
        "The replicas of a group of this size run as one batch in Keras' `fit`.",
    )


class Norms(Category):
    """Normalisation layers."""

    use_stable_statistics: bool = option(
        False, "Compute variances from centred values: slower, more exact."
    )
    experimental: NormsExperimental
