"""Files of tf_keras models keep the options of the IPU, and stock tf_keras reads them."""

import contextlib
import copy
import logging
import pickle

import h5py
import numpy as np
import pytest
import tensorflow as tf

from ipu_tf.keras import PipelineStage
from tests.grids import mostly_slow
from tests.keras.tf_keras_training import X, Y, check_equal_weights, strategy_of

tf_keras = pytest.importorskip("tf_keras")

layers = tf_keras.layers
pytestmark = pytest.mark.filterwarnings("ignore:You are saving your model as an HDF5 file")


def sequential(stages=(0, 1)):
    model = tf_keras.Sequential([tf_keras.Input((6,)), layers.Dense(4), layers.Dense(3)])
    if stages:
        model.set_pipeline_stage_assignment(list(stages))
    return model


def functional(stages=(0, 1)):
    x = inputs = tf_keras.Input((6,))
    for stage, units in zip(stages or (None, None), (4, 3), strict=True):
        with contextlib.nullcontext() if stage is None else PipelineStage(stage):
            x = layers.Dense(units)(x)
    return tf_keras.Model(inputs, x)


class Own(tf_keras.Model):
    """A functional model whose configuration has nothing of its layers."""

    def __init__(self, units=3):
        inputs = tf_keras.Input((6,))
        super().__init__(inputs, layers.Dense(units)(inputs))

    def get_config(self):
        return {"units": 3}


class Subclass(tf_keras.Model):
    """Two layers."""

    def __init__(self, units=3):
        super().__init__()
        self.first, self.last = layers.Dense(4), layers.Dense(units)

    def call(self, inputs):
        return self.last(self.first(inputs))

    def get_config(self):
        return {"units": 3}


def compiled(model):
    model.compile("adam", "mse")
    return model


def configured(model):
    model.set_gradient_accumulation_options(4, "mean")
    model.set_pipelining_options(8, [1, 0], True, "running_mean")
    model.set_replication_options("list")
    model.set_asynchronous_callbacks(True)
    model.set_infeed_queue_options(prefetch_depth=7)
    model.set_outfeed_queue_options(buffer_depth=5)
    return compiled(model)


def in_file(name):
    def save_and_load(model, folder):
        model.save(folder / name)
        objects = {"Own": Own, "Subclass": Subclass}
        return tf_keras.models.load_model(folder / name, custom_objects=objects)

    return save_and_load


KINDS = {"sequential": sequential, "functional": functional}
WAYS = {
    "keras": in_file("model.keras"),
    "h5": in_file("model.h5"),
    "saved_model": in_file("model"),
    "pickle": lambda model, _: pickle.loads(pickle.dumps(model)),
    "deepcopy": lambda model, _: copy.deepcopy(model),
}


def check_options(loaded, model):
    state, expected = loaded.ipu_training_state, model.ipu_training_state
    for name in ("accumulation", "pipelining", "replication", "infeed", "outfeed"):
        assert getattr(state, name) == getattr(expected, name)
    assert state.asynchronous_callbacks == expected.asynchronous_callbacks
    stages = [list(one.pipeline_stages().values()) for one in (loaded, model)]
    assert stages[0] == stages[1]
    check_equal_weights(loaded, model)


@pytest.mark.parametrize("way", mostly_slow(WAYS, fast=["keras", "h5"]))
@pytest.mark.parametrize("build", mostly_slow(KINDS, fast=["functional"]))
def test_every_option_comes_back(way, build, tmp_path):
    with strategy_of(2).scope():
        model = configured(build())
        check_options(way(model, tmp_path), model)


def test_files_saved_outside_of_the_scope_keep_options(tmp_path):
    strategy = strategy_of(2)
    with strategy.scope():
        model = configured(functional())
    model.save(tmp_path / "model.h5")
    with strategy.scope():
        check_options(tf_keras.models.load_model(tmp_path / "model.h5"), model)
        tf_keras.models.save_model(model, tmp_path / "by_function.h5")
        check_options(tf_keras.models.load_model(tmp_path / "by_function.h5"), model)


@pytest.mark.parametrize("way", mostly_slow(WAYS, fast=["h5"]))
def test_a_configuration_of_the_users_own_loses_nothing(way, tmp_path):
    with strategy_of().scope():
        model = compiled(Own())
        model.set_gradient_accumulation_options(4)
        check_options(way(model, tmp_path), model)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["model.keras", "model"])
def test_a_subclass_keeps_options_and_set_stages(name, tmp_path):
    with strategy_of(2).scope():
        model = Subclass()
        model.build((None, 6))
        model(X)  # A SavedModel has the computation.
        assignments = model.get_pipeline_stage_assignment()
        for stage, assignment in enumerate(assignments):
            assignment.pipeline_stage = stage
        model.set_pipeline_stage_assignment(assignments)
        configured(model)
        check_options(in_file(name)(model, tmp_path), model)
        if name == "model":
            message = "stages of model 'subclass.*' cannot be loaded.* Load it with the class that"
            with pytest.raises(ValueError, match=message):
                tf_keras.models.load_model(tmp_path / name)


@pytest.mark.parametrize("name", mostly_slow(["model.keras", "model.h5", "model"], ["model.h5"]))
def test_files_go_from_and_to_stock_tf_keras(name, tmp_path):
    strategy = strategy_of(2)
    with strategy.scope():
        model = configured(functional())
    model.save(tmp_path / name)
    stock = tf_keras.models.load_model(tmp_path / name)
    assert type(stock) is model.__class__
    check_equal_weights(stock, model)
    again = f"again_{name}"
    stock.save(tmp_path / again)
    with strategy.scope():
        loaded = tf_keras.models.load_model(tmp_path / again)
    assert loaded.ipu_training_state.pipelining.steps_per_replica is None
    assert loaded.pipeline_stages() == {}
    check_equal_weights(loaded, model)


def test_what_is_not_kept_is_said(tmp_path, caplog):
    with strategy_of().scope():
        model = compiled(functional(stages=None))
    model.set_gradient_accumulation_options(4, dtype="float16")
    with caplog.at_level(logging.WARNING, "ipu_tf"):
        model.save(tmp_path / "model.h5")
        assert "set again after loading: dtype." in caplog.text
        caplog.clear()
        model.save(tmp_path / "model.h5")
    assert caplog.text == ""


@pytest.mark.parametrize("name", ["model.keras", "model.h5", "model.weights.h5", "weights.h5"])
def test_a_failed_save_leaves_the_earlier_file(tmp_path, name, monkeypatch):
    with strategy_of().scope():
        model = compiled(functional(stages=None))
    save = model.save_weights if "weights" in name else model.save
    save(tmp_path / name)
    written = (tmp_path / name).read_bytes()

    def fail(*_, **how):
        raise OSError("No space left on device")

    monkeypatch.setattr(h5py.Group, "create_dataset", fail)
    with pytest.raises(OSError, match="No space left"):
        save(tmp_path / name)
    assert (tmp_path / name).read_bytes() == written
    assert [path.name for path in tmp_path.iterdir()] == [name]


def fit(model, **how):
    return model.fit(X, tf.one_hot(Y, 3), batch_size=8, shuffle=False, verbose=0, **how).history


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["checkpoint", "tf", "h5"])
def test_weights_and_the_optimizer_go_on_from_checkpoints(kind, tmp_path):
    """A run of two epochs is one of one epoch, saved, loaded and continued."""
    with strategy_of().scope():
        tf_keras.utils.set_random_seed(3)
        whole, begun, resumed = (compiled(functional(stages=None)) for _ in range(3))
        begun.set_weights(whole.get_weights())
        expected = fit(whole, epochs=2)["loss"][1]
        fit(begun)
        if kind == "checkpoint":
            saved = tf.train.Checkpoint(model=begun, optimizer=begun.optimizer)
            path = saved.save(tmp_path / "checkpoint")
            loaded = tf.train.Checkpoint(model=resumed, optimizer=resumed.optimizer)
            loaded.restore(path)
        elif kind == "tf":
            begun.save_weights(tmp_path / "weights")
            resumed.load_weights(tmp_path / "weights")
        else:
            begun.save(tmp_path / "model.h5")
            resumed = tf_keras.models.load_model(tmp_path / "model.h5")
        found = fit(resumed)["loss"][0]
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    check_equal_weights(resumed, whole)


@pytest.mark.slow
def test_callbacks_write_files_and_resume(tmp_path):
    class Interrupt(tf_keras.callbacks.Callback):
        def on_epoch_begin(self, epoch, logs=None):
            if epoch == 2:
                raise KeyboardInterrupt

    def run(*callbacks):
        with strategy_of().scope():
            tf_keras.utils.set_random_seed(3)
            model = configured(functional(stages=None))
            model.set_asynchronous_callbacks(False)
            model.set_gradient_accumulation_options(1)
            model.set_replication_options("mean")
            return model, fit(model, epochs=3, callbacks=list(callbacks))

    whole, logs = run()
    save = tf_keras.callbacks.ModelCheckpoint(str(tmp_path / "{epoch}.keras"))
    weights = tf_keras.callbacks.ModelCheckpoint(
        str(tmp_path / "{epoch}"), save_weights_only=True, save_freq=6
    )
    backup = tf_keras.callbacks.BackupAndRestore(str(tmp_path / "backup"))
    with pytest.raises(KeyboardInterrupt):
        run(save, weights, backup, Interrupt())
    resumed, others = run(tf_keras.callbacks.BackupAndRestore(str(tmp_path / "backup")))
    np.testing.assert_allclose(others["loss"], logs["loss"][2:], rtol=1e-6)
    check_equal_weights(resumed, whole)
    with strategy_of().scope():
        loaded = tf_keras.models.load_model(tmp_path / "2.keras")
        assert loaded.ipu_training_state.infeed.prefetch_depth == 7
        other = functional(stages=None)
        other.load_weights(tmp_path / "2").expect_partial()
    check_equal_weights(other, loaded)
