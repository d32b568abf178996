"""Files of a model keep its options and its pipeline stages."""

import contextlib
import copy
import json
import logging
import pickle

import keras
import numpy as np
import pytest

from ipu_tf.gradient_accumulation import GradientAccumulationReductionMethod as Method
from ipu_tf.keras.options import ReplicatedMetricReductionMethod as Reduction
from ipu_tf.keras.pipeline import stage_of_layers
from ipu_tf.keras.saving import options_config
from ipu_tf.ops.pipelining_ops import PipelineSchedule
from tests.keras import pipelined_models
from tests.keras.small_models import FEATURES, compile_model, functional, sequential

# Keras reads its variables through an older NumPy protocol when it saves them.
pytestmark = [
    pytest.mark.filterwarnings("ignore:__array__ implementation doesn't accept a copy"),
    pytest.mark.filterwarnings("ignore:You are saving your model as an HDF5 file"),
]


def in_file(tmp_path, suffix):
    def save_and_load(model):
        model.save(tmp_path / f"model{suffix}")
        return keras.models.load_model(tmp_path / f"model{suffix}")

    return save_and_load


WAYS = {
    "keras": lambda tmp_path: in_file(tmp_path, ".keras"),
    "h5": lambda tmp_path: in_file(tmp_path, ".h5"),
    "pickle": lambda _: lambda model: pickle.loads(pickle.dumps(model)),
    "deepcopy": lambda _: copy.deepcopy,
}


@pytest.fixture(params=WAYS)
def through(request, tmp_path):
    """Saves a model and loads it again, in one of several ways."""
    return WAYS[request.param](tmp_path)


def compiled(model):
    compile_model(model)
    if model.built:
        model.optimizer.build(model.trainable_variables)  # Keras saves no unbuilt optimizer.
    return model


def configured(model):
    model.set_gradient_accumulation_options(4, "mean")
    model.set_pipelining_options(8, [1, 0], True, "running_mean")
    model.set_replication_options("list")
    model.set_asynchronous_callbacks(True)
    model.set_infeed_queue_options(prefetch_depth=7)
    model.set_outfeed_queue_options(buffer_depth=5)
    return compiled(model)


@pytest.mark.fast_cells(1)
@pytest.mark.parametrize("kind", ["sequential", "functional"])
def test_every_option_comes_back(strategy, through, kind):
    with strategy.scope():
        loaded = through(configured(pipelined_models.KINDS[kind](2)))
    accumulation = loaded.ipu_training_state.accumulation
    assert (accumulation.steps_per_replica, accumulation.reduction_method) == (4, Method.MEAN)
    pipelining = loaded.ipu_training_state.pipelining
    assert pipelining.steps_per_replica == 8
    assert pipelining.device_mapping == (1, 0)
    assert pipelining.accumulate_outfeed is True
    assert pipelining.reduction_method is Method.RUNNING_MEAN
    assert loaded.ipu_training_state.replication.metric_reduction is Reduction.LIST
    assert loaded.ipu_training_state.asynchronous_callbacks is True
    assert loaded.ipu_training_state.infeed.prefetch_depth == 7
    assert loaded.ipu_training_state.outfeed.buffer_depth == 5
    assert list(stage_of_layers(loaded).values()) == [0, 0, 1, 1]


def test_a_subclass_keeps_options_and_set_stages(strategy, tmp_path):
    with strategy.scope():
        model = pipelined_models.DeepNet()
        model(np.zeros((2, FEATURES), "float32"))
        configured(model)
        assignment = model.get_pipeline_stage_assignment()
        for number, of_layer in enumerate(assignment):
            of_layer.pipeline_stage = number // 2
        model.set_pipeline_stage_assignment(assignment)
        loaded = in_file(tmp_path, ".keras")(model)
    assert loaded.ipu_training_state.pipelining == model.ipu_training_state.pipelining
    assert list(stage_of_layers(loaded).values()) == [0, 0, 1, 1]


def test_stages_do_not_change_where_weights_are(strategy, tmp_path):
    with strategy.scope():
        model = pipelined_models.DeepNet()
        model(np.zeros((2, FEATURES), "float32"))
        assignment = model.get_pipeline_stage_assignment()
        for number, of_layer in enumerate(assignment):
            of_layer.pipeline_stage = number
        model.set_pipeline_stage_assignment(assignment)
    model.save(tmp_path / "model.keras")
    stock = keras.models.load_model(tmp_path / "model.keras")
    x = np.ones((2, FEATURES), "float32")
    np.testing.assert_array_equal(stock(x), model(x))


def with_dropout(rates):
    return keras.Sequential([keras.Input((FEATURES,)), *map(keras.layers.Dropout, rates)])


def states_of(model):
    return [layer.seed_generator.state.numpy().tolist() for layer in model.layers]


@pytest.mark.parametrize("suffix", [".keras", ".weights.h5"])
def test_random_states_go_on(strategy, tmp_path, suffix):
    path = tmp_path / f"model{suffix}"
    with strategy.scope():
        model = with_dropout([0.5, 0.2])
        model(np.ones((2, FEATURES), "float32"), training=True)
        if suffix == ".keras":
            model.save(path)
            again = keras.models.load_model(path)
        else:
            model.save_weights(path)
            again = with_dropout([0.5, 0.2])
            again.load_weights(path)
    assert states_of(again) == states_of(model)
    assert [counter for _, counter in states_of(again)] == [1, 1]


def test_random_states_of_other_models_are_left_out(strategy, tmp_path, caplog):
    with strategy.scope():
        with_dropout([0.5, 0.2]).save_weights(tmp_path / "model.weights.h5")
        again = with_dropout([0.5])
        before = states_of(again)
        with caplog.at_level(logging.WARNING, "ipu_tf"):
            again.load_weights(tmp_path / "model.weights.h5")
    assert states_of(again) == before
    assert "states of 2 random generators are not loaded, because the model has 1" in caplog.text


def test_stock_weights_have_no_random_states(strategy, tmp_path):
    with_dropout([0.5]).save_weights(tmp_path / "model.weights.h5")
    with strategy.scope():
        again = with_dropout([0.5])
    before = states_of(again)
    again.load_weights(tmp_path / "model.weights.h5")
    assert states_of(again) == before


def test_the_stages_of_a_subclass_are_in_its_code(strategy, tmp_path):
    with strategy.scope():
        model = pipelined_models.DeepNet(stages=4)
        model(np.zeros((2, FEATURES), "float32"))
        assert options_config.options_of(model) == {}
        loaded = in_file(tmp_path, ".keras")(model)
    assert list(stage_of_layers(loaded).values()) == [0, 1, 2, 3]


@keras.saving.register_keras_serializable("ipu_tf_tests")
class OwnConfig(keras.Model):
    """A subclass whose configuration knows nothing of options."""

    def __init__(self, units):
        super().__init__()
        self.units = units
        self.dense = keras.layers.Dense(units)

    def call(self, inputs):
        return self.dense(inputs)

    def get_config(self):
        return {"units": self.units}


def test_a_configuration_of_the_users_own_loses_nothing(strategy, tmp_path):
    with strategy.scope():
        model = OwnConfig(3)
        model(np.zeros((2, FEATURES), "float32"))
        model.set_gradient_accumulation_options(4)
        loaded = in_file(tmp_path, ".keras")(model)
    assert loaded.ipu_training_state.accumulation.steps_per_replica == 4


@pytest.mark.fast_cells(1)
@pytest.mark.parametrize("suffix", [".keras", ".h5"])
@pytest.mark.parametrize("kind", ["sequential", "functional"])
def test_stock_keras_reads_the_files(strategy, tmp_path, suffix, kind):
    with strategy.scope():
        model = configured(pipelined_models.KINDS[kind](2))
    model.save(tmp_path / f"model{suffix}")
    loaded = keras.models.load_model(tmp_path / f"model{suffix}")
    assert type(loaded).__module__.startswith(f"{keras.__name__}.")
    x = np.ones((2, FEATURES), "float32")
    np.testing.assert_array_equal(loaded(x), model(x))


@pytest.mark.fast_cells(1)
@pytest.mark.parametrize("suffix", [".keras", ".h5"])
@pytest.mark.parametrize("build_plain", [sequential, functional])
def test_files_of_stock_keras_have_default_options(strategy, tmp_path, suffix, build_plain):
    compiled(build_plain()).save(tmp_path / f"model{suffix}")
    with strategy.scope():
        loaded = keras.models.load_model(tmp_path / f"model{suffix}")
    assert options_config.options_of(loaded) == {}
    assert stage_of_layers(loaded) == {}


@pytest.mark.parametrize("inside", [True, False])
def test_weights_go_between_pipelined_and_stock_models(strategy, tmp_path, inside):
    with strategy.scope():
        pipelined = pipelined_models.functional(2)
    stock = pipelined_models.functional()
    source, target = (pipelined, stock) if inside else (stock, pipelined)
    source.save_weights(tmp_path / "model.weights.h5")
    target.load_weights(tmp_path / "model.weights.h5")
    x = np.ones((2, FEATURES), "float32")
    np.testing.assert_array_equal(target(x), source(x))


@pytest.mark.fast_cells(1)
def test_reset_stages_stay_reset(strategy, through):
    with strategy.scope():
        model = compiled(pipelined_models.functional(2))
        model.reset_pipeline_stage_assignment()
        loaded = through(model)
    assert stage_of_layers(loaded) == {}


def test_a_subclass_with_stages_in_its_code_stays_reset(strategy, tmp_path):
    with strategy.scope():
        model = pipelined_models.DeepNet(stages=2)
        model(np.zeros((2, FEATURES), "float32"))
        assert stage_of_layers(model)
        model.reset_pipeline_stage_assignment()
        loaded = in_file(tmp_path, ".keras")(model)
    assert stage_of_layers(loaded) == {}


def test_what_is_not_kept_is_said(strategy, tmp_path, caplog):
    with strategy.scope():
        model = compiled(sequential())
        model.set_gradient_accumulation_options(4, dtype="float16")
        model.set_pipelining_options(8, pipeline_schedule=PipelineSchedule.Sequential)
    with caplog.at_level(logging.WARNING, "ipu_tf"):
        model.save(tmp_path / "model.keras")
        assert "set again after loading: dtype, pipeline_schedule." in caplog.text
        caplog.clear()
        model.save(tmp_path / "model.keras")
        assert caplog.text == ""  # Once is enough for a checkpoint of every epoch.
        model.set_pipelining_options(8, name="p")
        model.save(tmp_path / "model.keras")
        assert "set again after loading: dtype, name." in caplog.text


def test_nothing_is_said_or_kept_of_defaults(strategy, tmp_path, caplog):
    with strategy.scope():
        model = compiled(sequential())
    with caplog.at_level(logging.INFO, "ipu_tf.keras"):
        model.save(tmp_path / "model.keras")
    assert caplog.text == ""
    assert options_config.options_of(model) == {}


def test_options_are_plain_values(strategy):
    with strategy.scope():
        options = options_config.options_of(configured(pipelined_models.functional(2)))
    assert json.loads(json.dumps(options))["pipelining"] == {
        "steps_per_replica": 8,
        "device_mapping": [1, 0],
        "accumulate_outfeed": True,
        "reduction_method": "running_mean",
    }


def test_stages_of_another_model_are_refused(strategy):
    with strategy.scope():
        model = sequential()
    with pytest.raises(ValueError, match=r"stages of 3 layers. Received: a model of 2 layers"):
        options_config.set_options(model, {"pipeline_stages": [0, 0, 1]})


@keras.saving.register_keras_serializable("ipu_tf_tests")
class Terse(keras.Model):
    def __init__(self, units=3):
        inputs = keras.Input((FEATURES,))
        super().__init__(inputs, keras.layers.Dense(units)(inputs))
        self.units = units

    def get_config(self):
        return {"units": self.units}


def test_a_configuration_without_that_of_keras_goes_to_keras_files_alone(strategy, tmp_path):
    with strategy.scope():
        model = Terse()
        model.save(tmp_path / "plain.h5")
        model.set_gradient_accumulation_options(4)
        with pytest.raises(RuntimeError, match=r"of Terse does not call super\(\).get_config\(\)"):
            model.save(tmp_path / "model.h5")
        model.save(tmp_path / "model.keras")
        loaded = keras.models.load_model(tmp_path / "model.keras")
    assert loaded.ipu_training_state.accumulation.steps_per_replica == 4
    assert not (tmp_path / "model.h5").exists()


def test_models_of_both_places_load_in_both(strategy, tmp_path):
    for saved_in, loaded_in in ((True, False), (False, True)):
        with strategy.scope() if saved_in else contextlib.nullcontext():
            compiled(functional()).save(tmp_path / "model.h5")
        with strategy.scope() if loaded_in else contextlib.nullcontext():
            loaded = keras.models.load_model(tmp_path / "model.h5")
        assert hasattr(loaded, "set_pipelining_options") == loaded_in
