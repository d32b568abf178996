"""`set_pipelining_options`, and what a pipeline makes of its options and stages."""

import keras
import pytest
import tensorflow as tf

from ipu_tf.gradient_accumulation import GradientAccumulationReductionMethod as Method
from ipu_tf.keras.deployment.model_pipeline import pipeline_of_model
from ipu_tf.ops.pipelining_ops import (
    PipelineSchedule,
    PipelineStageOptions,
    RecomputationMode,
    recomputation_checkpoint,
)
from tests.keras import pipelined_models
from tests.keras.small_models import sequential

GROUPED, INTERLEAVED, SEQUENTIAL = PipelineSchedule


@pytest.fixture
def model(strategy):
    with strategy.scope():
        return pipelined_models.sequential(2)


def options_after(model, *args, **kwargs):
    model.set_pipelining_options(*args, **kwargs)
    return model.ipu_training_state.pipelining


def test_defaults(model):
    options = options_after(model)
    assert options.steps_per_replica is None
    assert options.pipeline_schedule is GROUPED
    assert options.recomputation_mode is RecomputationMode.Auto
    assert options.reduction_method is Method.SUM
    assert options.ipus(3) == (0, 1, 2)
    assert options.accumulate_outfeed is False


def test_options_arrive(model):
    stage = PipelineStageOptions({"availableMemoryProportion": "0.3"}, None, {})
    options = options_after(
        model,
        gradient_accumulation_steps_per_replica=8,
        device_mapping=[1, 0],
        accumulate_outfeed=True,
        gradient_accumulation_reduction_method="Mean",
        gradient_accumulation_dtype=tf.float16,
        pipeline_schedule=INTERLEAVED,
        recomputation_mode=RecomputationMode.RecomputeThenBackpropagate,
        forward_propagation_stages_poplar_options=[stage, stage],
        weight_update_poplar_options=stage,
        offload_weight_update_variables=True,
        replicated_optimizer_state_sharding=True,
        offload_activations=True,
        name="pipeline",
    )
    assert options.steps_per_replica == 8
    assert options.ipus(2) == (1, 0)
    assert options.forward_propagation_stages_poplar_options == (stage, stage)
    accumulation = options.accumulation
    assert (accumulation.steps_per_replica, accumulation.reduction_method) == (8, Method.MEAN)
    assert accumulation.dtype_of(tf.Variable(0.0)) is tf.float16
    assert accumulation.offload_weight_update_variables


def test_none_stands_for_a_default(model):
    options = options_after(model, 4, pipeline_schedule=None, recomputation_mode=None, name=None)
    assert options.pipeline_schedule is GROUPED


@pytest.mark.parametrize("steps", [0, -1, 2.0, True, "2"])
def test_steps(model, steps):
    expected = "Expected `gradient_accumulation_steps_per_replica` to be a positive integer"
    with pytest.raises(ValueError, match=expected):
        model.set_pipelining_options(steps)


@pytest.mark.parametrize("mapping", [0, [0.0, 1], ["0"], [True, False], [0, -1], {0: 1}])
def test_device_mapping(model, mapping):
    with pytest.raises(ValueError, match=r"Expected `device_mapping` to be a list of integers\."):
        model.set_pipelining_options(4, mapping)


def test_reduction_method(model):
    with pytest.raises(ValueError, match="Cannot parse max as one of GradientAccumulationRed"):
        model.set_pipelining_options(4, gradient_accumulation_reduction_method="max")


def test_accumulate_outfeed(model):
    with pytest.raises(TypeError, match="`accumulate_outfeed` must be True, False or None"):
        model.set_pipelining_options(4, accumulate_outfeed=1)


@pytest.mark.fast_cells(4)
@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("gradient_accumulation_count", "set `gradient_accumulation_steps_per_replica` instead"),
        ("reduction_method", "set `gradient_accumulation_reduction_method` instead"),
        ("computational_stages", "Keras sets it from the model"),
        ("repeat_count", "Keras sets it from the model"),
        ("inputs", "Keras sets it from the model"),
        ("infeed_queue", "Keras sets it from the model"),
        ("outfeed_queue", "Keras sets it from the model"),
        ("optimizer_function", "Keras sets it from the model"),
        ("outfeed_loss", "not compatible with Keras"),
        ("outfeed_mask", "not compatible with Keras"),
        ("batch_serialization_iterations", "not compatible with Keras"),
    ],
)
def test_arguments_with_a_better_place(model, name, reason):
    with pytest.raises(ValueError, match=f"`{name}` cannot be set in the pipelining_kw.*{reason}"):
        model.set_pipelining_options(4, **{name: 1})


def test_unknown_arguments(model):
    with pytest.raises(TypeError, match="options of pipelining_kwargs: schedule. Options are"):
        model.set_pipelining_options(4, schedule=GROUPED)


@pytest.mark.parametrize(
    ("name", "value", "kind"),
    [
        ("pipeline_schedule", "Grouped", "PipelineSchedule"),
        ("recomputation_mode", 1, "RecomputationMode"),
        ("weight_update_poplar_options", {}, "PipelineStageOptions"),
        ("forward_propagation_stages_poplar_options", [{}], "list of PipelineStageOptions"),
        ("backward_propagation_stages_poplar_options", 3, "list of PipelineStageOptions"),
        ("offload_activations", 1, "True, False or None"),
        ("name", 1, "str"),
    ],
)
def test_types(model, name, value, kind):
    with pytest.raises(TypeError, match=f"`{name}` must be (a )?{kind}"):
        model.set_pipelining_options(4, **{name: value})


def test_continuous_weight_updates(model):
    with pytest.raises(NotImplementedError, match="Received: continuous_weight_updates=True"):
        model.set_pipelining_options(4, continuous_weight_updates=True)


def test_checkpoints_change_no_values():
    kept = recomputation_checkpoint({"a": tf.constant([1.0]), "b": (tf.constant(2),)}, name="kept")
    assert (kept["a"].numpy().tolist(), int(kept["b"][0])) == ([1.0], 2)


def test_stage_options_are_strings():
    with pytest.raises(TypeError, match="`matmul_options` must map names of options to .* strings"):
        PipelineStageOptions(matmul_options={"partialsType": 16})


def test_each_stage_has_an_ipu(model):
    model.set_pipelining_options(4, device_mapping=[0, 1, 2])
    with pytest.raises(ValueError, match=r"Each stage must be mapped to an IPU: there are 2 stag"):
        pipeline_of_model(model)


def test_each_stage_has_options(model):
    options = [PipelineStageOptions()]
    model.set_pipelining_options(4, backward_propagation_stages_poplar_options=options)
    with pytest.raises(ValueError, match="an entry for each of the 2 stages. Received: 1 entries"):
        pipeline_of_model(model)


def test_one_stage_is_no_pipeline(strategy):
    with strategy.scope():
        model = sequential()
    model.set_pipeline_stage_assignment([0, 0])
    with pytest.raises(ValueError, match="Pipeline requires at least two computational stages"):
        pipeline_of_model(model)


@pytest.mark.parametrize("kind", [keras.Sequential, keras.Model])
def test_an_overridden_call(strategy, kind):
    class Own(kind):
        def call(self, inputs, training=None, mask=None):
            return super().call(inputs, training=training, mask=mask)

    with strategy.scope():
        if kind is keras.Sequential:
            model = Own([keras.Input((4,)), keras.layers.Dense(2), keras.layers.Dense(2)])
        else:
            inputs = keras.Input((4,))
            model = Own(inputs, keras.layers.Dense(2)(keras.layers.Dense(2)(inputs)))
    assignment = model.get_pipeline_stage_assignment()
    for stage, of_layer in enumerate(assignment):
        of_layer.pipeline_stage = stage
    model.set_pipeline_stage_assignment(assignment)
    with pytest.raises(RuntimeError, match="function `call` for the model .* has been overridden"):
        pipeline_of_model(model)
