"""The options of stages in Keras: each pass of a stage has plans of its own."""

import keras
import pytest

from ipu_tf import config
from ipu_tf.keras.deployment.device_pipeline import stage_planning
from ipu_tf.ops.pipelining_ops import PipelineStageOptions
from tests.keras.equivalence import BATCH, batches, samples, strategy_of
from tests.keras.pipelined_models import functional
from tests.keras.small_models import compile_model

HALF = PipelineStageOptions(matmul_options={"partialsType": "half"})
DEFAULT = PipelineStageOptions()
STEPS = 4


@pytest.fixture
def strategy():
    yield strategy_of(2)
    config.reset_ipu_configuration()


def staged(strategy, **options):
    with strategy.scope():
        model = compile_model(functional(2), steps_per_execution=STEPS)
    model.set_pipelining_options(STEPS, **options)
    return model


def test_layers_have_the_options_of_their_stages(strategy):
    model = staged(strategy, backward_propagation_stages_poplar_options=[DEFAULT, HALF])
    planning = stage_planning(model)
    for path, stage in model.pipeline_stages().items():
        assert bool(planning[path].backward) == (stage == 1)
        assert not planning[path].forward


def test_a_model_without_options_has_the_plans_of_its_device(strategy):
    assert stage_planning(staged(strategy)) is None


def test_wrong_values_name_the_stage_when_they_are_set(strategy):
    wrong = PipelineStageOptions(matmul_options={"availableMemoryProportion": "3"})
    with pytest.raises(ValueError, match=r"stages_poplar_options\[1\]\.matmul_options"):
        staged(strategy, forward_propagation_stages_poplar_options=[DEFAULT, wrong])


@pytest.mark.slow
def test_partials_are_those_of_the_stage_and_the_pass(strategy):
    keras.mixed_precision.set_global_policy("float16")
    try:
        model = staged(
            strategy,
            forward_propagation_stages_poplar_options=[HALF, DEFAULT],
            backward_propagation_stages_poplar_options=[DEFAULT, HALF],
        )
    finally:
        keras.mixed_precision.set_global_policy("float32")
    model.fit(batches(samples(BATCH * STEPS), BATCH), shuffle=False, verbose=0)
    stages = model.pipeline_stages()
    found = {
        (stages[op.layer], "gradient" in op.name): op.plan.partials
        for program in strategy.report().programs
        for op in program.tile_ops
    }
    assert found == {
        (0, False): "float16",
        (0, True): "float32",
        (1, False): "float32",
        (1, True): "float16",
    }
