"""The cheapest checkpoints with which a program fits, among those of stages and its own."""

import dataclasses
from types import SimpleNamespace

import pytest

from ipu_tf.compiler.compile import compile_simplified, simplified_step
from ipu_tf.compiler.compiler_options import CompilerOptions
from ipu_tf.compiler.pipeline.deploy import stage_modules
from ipu_tf.compiler.pipeline.deployment import Deployment
from ipu_tf.compiler.recomputation.cheapest import cheapest_that_fits
from ipu_tf.machine.target import target
from tests.compiler import modules
from tests.compiler.pipeline.cifar10_pipeline import stages_at

STAGES = Deployment(stage_of_layers=stages_at(4, 5, 6, 7), micro_batches=8)


@pytest.fixture(scope="module")
def simplified():
    return simplified_step(modules.text("cifar10"), recompute=False)


@pytest.fixture
def compile_for(simplified):
    """Makes the function that compiles for tiles of some bytes."""

    def compile_for_(tile_bytes):
        def compiled(recompute, layers):
            chip = dataclasses.replace(target("bow", 64), tile_bytes=tile_bytes)
            options = CompilerOptions(target=chip, out_of_memory="report", checkpoints=layers)
            wanted = Deployment(
                stage_of_layers=STAGES.stage_of_layers, micro_batches=8, recompute=recompute
            )
            return compile_simplified(simplified, options, {}, 0, wanted)

        return compiled

    return compile_for_


def peaks(program):
    return [int(ipu.memory.peak_tile_bytes.max()) for ipu in program.ipus]


@pytest.mark.slow
def test_stages_with_room_keep_more_than_their_inputs(simplified, compile_for):
    roomy = compile_for(1 << 20)
    kept, inputs = roomy(False, ()), roomy(True, ())
    # A byte too few to keep everything; the inputs alone leave room.
    limit = max(peaks(kept)) - 1
    assert max(peaks(inputs)) < limit
    found = cheapest_that_fits(compile_for(limit), lambda: stage_modules(simplified, STAGES))
    assert found.program.fits
    assert found.checkpoints
    assert found.program.cycles < inputs.cycles


def program(cycles, overflow_bytes):
    """A program as the search sees it."""
    memory = SimpleNamespace(overflow_bytes=overflow_bytes, fits=not overflow_bytes)
    return SimpleNamespace(
        cycles=cycles,
        fits=memory.fits,
        ipus=[SimpleNamespace(memory=memory, stages=(0,))],
        stages=[SimpleNamespace(program=SimpleNamespace(steps=()), ipu=0)],
    )


@pytest.mark.parametrize(
    ("cycles", "overflow", "is_own"), [(70, 0, True), (99, 0, False), (5, 1, False)]
)
def test_the_checkpoints_of_the_program_itself_are_tried(simplified, cycles, overflow, is_own):
    found = cheapest_that_fits(
        lambda recompute, layers: program(90, 0) if recompute else program(50, 9),
        lambda: [simplified],
        with_own_checkpoints=lambda: program(cycles, overflow),
    )
    assert found.is_own is is_own
    assert found.program.cycles == (70 if is_own else 90)
