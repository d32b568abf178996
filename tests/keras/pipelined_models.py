"""Small models of every kind whose four layers are split into pipeline stages."""

import contextlib

import keras

from ipu_tf.keras import PipelineStage
from ipu_tf.ops.pipelining_ops import PipelineSchedule
from tests.keras.small_models import CLASSES, FEATURES

LAYERS = 4


def stage_of(layer, stages):
    """Returns the stage of a layer by its number, as even a split as there is."""
    return layer * stages // LAYERS


def in_stage(layer, stages):
    """Returns the scope of a layer, which is none for a model that is no pipeline."""
    return PipelineStage(stage_of(layer, stages)) if stages > 1 else contextlib.nullcontext()


def make_layers():
    units = [10, 9, 8, CLASSES]
    return [
        keras.layers.Dense(size, activation="tanh" if size != CLASSES else None) for size in units
    ]


def sequential(stages=1):
    model = keras.Sequential([keras.Input((FEATURES,)), *make_layers()])
    if stages > 1:
        model.set_pipeline_stage_assignment([stage_of(layer, stages) for layer in range(LAYERS)])
    return model


def functional(stages=1):
    x = inputs = keras.Input((FEATURES,))
    for number, layer in enumerate(make_layers()):
        with in_stage(number, stages):
            x = layer(x)
    return keras.Model(inputs, x)


@keras.saving.register_keras_serializable("ipu_tf_tests")
class DeepNet(keras.Model):
    """A subclassed model that assigns stages in its call."""

    def __init__(self, stages=1, **kwargs):
        super().__init__(**kwargs)
        self.stages = stages
        self.parts = make_layers()

    def call(self, inputs):
        x = inputs
        for number, layer in enumerate(self.parts):
            with in_stage(number, self.stages):
                x = layer(x)
        return x

    def get_config(self):
        return {**super().get_config(), "stages": self.stages}


KINDS = {"sequential": sequential, "functional": functional, "subclass": DeepNet}


def schedule_for(micro_batches, stages):
    """Returns the first schedule that trains so many micro-batches in so many stages."""
    if micro_batches % (2 * stages) == 0:
        return PipelineSchedule.Grouped
    if micro_batches % stages == 0:
        return PipelineSchedule.Interleaved
    return PipelineSchedule.Sequential
