"""Trains a Keras model on digits whose layers are in pipeline stages."""

import argparse

import numpy as np
import tensorflow as tf
from tensorflow import keras
from tensorflow.python import ipu


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--ipus", type=int, default=2)
    return parser.parse_args()


def make_model():
    inputs = keras.Input((28, 28, 1))
    with ipu.keras.PipelineStage(0):
        x = keras.layers.Conv2D(8, 5, strides=4, activation="relu")(inputs)
        x = keras.layers.Flatten()(x)
    with ipu.keras.PipelineStage(1):
        x = keras.layers.Dense(64, activation="relu")(x)
        outputs = keras.layers.Dense(10)(x)
    return keras.Model(inputs, outputs)


def main():
    args = parse_arguments()
    config = ipu.config.IPUConfig()
    config.auto_select_ipus = args.ipus
    config.configure_ipu_system()
    (images, labels), _ = keras.datasets.mnist.load_data()
    images = images[:4096, ..., np.newaxis].astype(np.float32) / 255
    data = tf.data.Dataset.from_tensor_slices((images, labels[:4096].astype(np.int32)))
    data = data.batch(16, drop_remainder=True).repeat()

    strategy = ipu.ipu_strategy.IPUStrategy()
    with strategy.scope():
        model = make_model()
        model.set_pipelining_options(
            gradient_accumulation_steps_per_replica=8,
            device_mapping=[0, 1],
            pipeline_schedule=ipu.ops.pipelining_ops.PipelineSchedule.Interleaved,
            gradient_accumulation_reduction_method="mean",
            accumulate_outfeed=True,
        )
        model.compile(
            optimizer=keras.optimizers.SGD(0.05, momentum=0.9),
            loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
            metrics=["accuracy"],
            steps_per_execution=64,
        )
        model.print_pipeline_stage_assignment_summary()
        history = model.fit(data, epochs=args.epochs, steps_per_epoch=256, verbose=0)
        print("accuracy", history.history["accuracy"][-1])


if __name__ == "__main__":
    main()
