"""Pipelines of stage functions as SavedModels."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from ipu_tf import IPUConfig, IPUStrategy, config, serving
from ipu_tf.ops.pipelining_ops import PipelineSchedule
from ipu_tf.serving import embedded_runtime

X = np.random.default_rng(2).normal(size=(4, 6)).astype("float32")
SPEC = tf.TensorSpec((4, 6), tf.float32)


@pytest.fixture(scope="module")
def strategy():
    cfg = IPUConfig()
    cfg.auto_select_ipus = 2
    cfg.ipu_model.tiles_per_ipu = 16
    cfg.configure_ipu_system()
    yield IPUStrategy()
    config.reset_ipu_configuration()


@pytest.fixture(scope="module")
def weights():
    values = np.random.default_rng(3)
    return [tf.Variable(values.normal(size=(6, 6)).astype("float32")) for _ in range(2)]


def stages(weights):
    def first(shift, x):
        if tf.reduce_sum(x) < -1e6:  # For AutoGraph.
            x = -x
        return tf.nn.relu(tf.matmul(x, weights[0]) + shift), x

    def last(hidden, x):
        return tf.matmul(hidden, weights[1]), x

    return [first, last]


@pytest.mark.slow
def test_a_pipeline_runs_on_its_ipus_and_from_its_file(strategy, weights, tmp_path):
    with strategy.scope():
        on_device = serving.export_pipeline(
            stages(weights),
            tmp_path,
            4,
            inputs=[2.0],
            device_mapping=[1, 0],
            pipeline_schedule=PipelineSchedule.Interleaved,
            name="served",
            predict_step_signature=[SPEC],
            preprocessing_step=lambda x: 2 * x,
            preprocessing_step_signature=[tf.TensorSpec((4, 6), tf.float32, "features")],
            postprocessing_step=lambda scores, x: {"best": tf.argmax(scores, 1), "scores": scores},
        )
    expected = np.maximum(2 * X @ weights[0].numpy() + 2, 0) @ weights[1].numpy()
    outputs = on_device(X)
    np.testing.assert_allclose(outputs["scores"], expected, rtol=1e-4, atol=1e-4)
    (program,) = strategy.report().programs
    assert program.name == "served.predict_step"
    assert [stage.ipu for stage in program.device.stages] == [1, 0]
    assert program.device.micro_batches == 4
    loaded = tf.saved_model.load(str(tmp_path)).signatures["serving_default"](features=X)
    np.testing.assert_allclose(loaded["scores"], expected, rtol=1e-4, atol=1e-4)
    np.testing.assert_array_equal(loaded["best"], outputs["best"])
    strategy.reset_report()
    with strategy.scope():
        (scores, _) = embedded_runtime.embedded_runtime_start_and_call(
            tmp_path, [], [2 * X], "again"
        )
    np.testing.assert_allclose(scores, expected, rtol=1e-4, atol=1e-4)
    (again,) = strategy.report().programs
    assert again.name == "again.predict_step"
    assert [stage.ipu for stage in again.device.stages] == [1, 0]
    assert again.device.micro_batches == 4
    assert again.device.cycles == program.device.cycles


@pytest.mark.slow
def test_a_pipelined_keras_model_runs_on_its_ipus(strategy, tmp_path):
    strategy.reset_report()
    with strategy.scope():
        model = keras.Sequential(
            [keras.Input((6,)), keras.layers.Dense(4), keras.layers.Dense(3, dtype="float16")]
        )
        model.compile(steps_per_execution=4)
        model.set_pipeline_stage_assignment([0, 1])
        model.set_pipelining_options(gradient_accumulation_steps_per_replica=4)
        on_device = model.export_for_ipu_serving(tmp_path, batch_size=4)
    np.testing.assert_array_equal(on_device(X)[0], model(X))
    (program,) = strategy.report().programs
    assert [stage.ipu for stage in program.device.stages] == [0, 1]
    (name,) = on_device.get_concrete_function().structured_input_signature[0]
    loaded = tf.saved_model.load(str(tmp_path)).signatures["serving_default"]
    found = loaded(**{name.name: X})["output_0"]
    assert found.dtype == tf.float16
    np.testing.assert_allclose(found, model(X), atol=5e-3)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"computational_stages": [abs]}, ValueError, "a list of at least two computational stage"),
        ({"iterations": 0}, ValueError, "`iterations` must be a positive integer"),
        (
            {"iterations": 3},
            tf.errors.FailedPreconditionError,
            "must be a multiple of 2",
        ),
        ({"device_mapping": [0]}, ValueError, "Each stage must be mapped to an IPU"),
        ({"device_mapping": {0: 1}}, TypeError, "device_mapping"),
        ({"pipeline_schedule": "Grouped"}, TypeError, "chedule"),
        ({"predict_step_signature": None}, ValueError, "inputs of `predict_step` are unknown"),
        ({"poplar_options": [1]}, ValueError, "options"),
    ],
)
def test_bad_arguments_are_refused(weights, arguments, error, message, tmp_path):
    given = {
        "computational_stages": stages(weights),
        "iterations": 4,
        "inputs": [2.0],
        "predict_step_signature": [SPEC],
    }
    with pytest.raises(error, match=message):
        serving.export_pipeline(export_dir=tmp_path, **(given | arguments))
    assert not list(tmp_path.iterdir())
