"""The reports that the browser tests and the screenshots show."""

from __future__ import annotations

import keras
import numpy as np

import ipu_tf
from ipu_tf.profile.report import Report
from tutorials import cifar10

STAGES = (0, 0, 0, 1, 1, 1, 2, 2, 2, 2, 2, 2)
"""Stages of the first layers of the CIFAR-10 network; the others are in the last one."""


def cifar10_step() -> Report:
    """A training step of the CIFAR-10 network, with the changes that would gain most."""
    return ipu_tf.estimate(cifar10.make_model, batch_size=64, insights=True)


def resnet50_step() -> Report:
    """A training step of ResNet-50."""
    return ipu_tf.estimate(lambda: keras.applications.ResNet50(weights=None), batch_size=4)


def pipeline() -> Report:
    """A weight update of the CIFAR-10 network on four IPUs."""
    config = ipu_tf.IPUConfig()
    config.auto_select_ipus = 4
    with ipu_tf.IPUStrategy().scope():
        model = cifar10.make_model()
        last = (3,) * (len(model.layers) - len(STAGES))
        model.set_pipeline_stage_assignment([*STAGES, *last])
        model.set_pipelining_options(gradient_accumulation_steps_per_replica=16)
        model.compile(loss="categorical_crossentropy", optimizer=keras.optimizers.SGD(0.016))
        return ipu_tf.estimate(model, batch_size=8, config=config)


def profiled_training() -> Report:
    """The training and evaluation of a small network, with what the host did meanwhile."""
    strategy = ipu_tf.IPUStrategy(profile=True)
    with strategy.scope():
        layers = [keras.layers.Dense(128, activation="relu"), keras.layers.Dense(10)]
        model = keras.Sequential([keras.Input((64,)), *layers])
        model.compile(optimizer="sgd", loss="mse", steps_per_execution=4)
        with ipu_tf.profile.trace("load data"):
            x, y = np.ones((512, 64), "float32"), np.ones((512, 10), "float32")
        model.fit(x, y, batch_size=16, epochs=2, verbose=0)
        model.evaluate(x, y, batch_size=16, verbose=0)
    return strategy.report()


REPORTS = {
    "cifar10": cifar10_step,
    "resnet50": resnet50_step,
    "pipeline": pipeline,
    "host": profiled_training,
}
