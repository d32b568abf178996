"""Traces equal blocks of a model's layers once, in steps that never run."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

from ipu_tf.compiler.equal_blocks.repetition import NotRepeated
from ipu_tf.keras.adapters.estimates import EqualBlocks, TrainableModel, estimates_of
from ipu_tf.runtime.extraction import deployments
from ipu_tf.runtime.programs import device_programs


def trace_equal_blocks_once(
    model: TrainableModel, trace: Callable[[], None], *, training: bool
) -> None:
    """Traces a step for its figures, without most of a model's equal blocks if it has such.

    The compiler adds what is left out. If that does not follow from the others, as where the
    gradients of all blocks are summed, the step is traced once more as a whole.

    Args:
        model: The model; it is compiled if `training`.
        trace: Traces the step, which is compiled then.
        training: Whether it is a training step.
    """
    blocks = None
    if not deployments.planning_of(model):  # Stages may plan their layers in ways of their own.
        blocks = estimates_of(model).equal_blocks(training=training)
    if blocks is not None:
        with contextlib.suppress(NotRepeated), _outer_blocks(model, blocks, training):
            trace()
            return
    trace()


@contextlib.contextmanager
def _outer_blocks(model: TrainableModel, blocks: EqualBlocks, training: bool) -> Iterator[None]:
    """Makes a model's equal blocks the outer ones alone; the compiler adds the others."""
    function = "train_step" if training else "predict_step"
    with contextlib.ExitStack() as stack:
        if training:  # It is built for the weights that the model has meanwhile.
            stack.enter_context(estimates_of(model).with_new_optimizer())
        stack.enter_context(deployments.deployment_scope(deployments.current(model, function)))
        stack.enter_context(device_programs.lengthening(blocks.repetition))
        stack.enter_context(blocks.outer_blocks_alone())
        yield
