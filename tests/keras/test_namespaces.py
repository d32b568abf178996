"""Layers and optimizers are where scripts look for them."""

import keras

import ipu_tf


def test_layers_and_optimizers_are_attributes_of_the_package():
    assert ipu_tf.keras.layers.SerialDense.__name__ == "SerialDense"
    assert ipu_tf.keras.optimizers.ALSOptimizer.__name__ == "ALSOptimizer"


def test_every_public_name_is_there():
    for module in (ipu_tf.keras.layers, ipu_tf.keras.optimizers):
        for name in module.__all__:
            assert hasattr(module, name), name


def test_pipelines_are_where_scripts_look_for_them():
    assignments = [name for name in ipu_tf.keras.__all__ if name.endswith("StageAssignment")]
    assert len(assignments) == 6
    for name in ("PipelineStage", *assignments):
        assert getattr(ipu_tf.keras, name).__name__ == name
    for name in ("PipelineSchedule", "RecomputationMode", "PipelineStageOptions"):
        assert getattr(ipu_tf.ops.pipelining_ops, name).__name__ == name


def test_the_reduction_of_replicated_metrics_is_where_scripts_look_for_it():
    method = ipu_tf.keras.extensions.extensions_base.ReplicatedMetricReductionMethod
    assert method is ipu_tf.keras.extensions.ReplicatedMetricReductionMethod
    assert [member.name for member in method] == ["NONE", "LIST", "SUM", "MEAN"]


def test_names_of_the_package_leave_keras_alone():
    names = {"keras": keras}
    exec("from ipu_tf import *", names)
    assert names["keras"] is keras
    assert names["IPUStrategy"] is ipu_tf.IPUStrategy
    assert ipu_tf.keras.__name__ == "ipu_tf.keras"
