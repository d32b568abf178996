"""Trains a vision transformer of Hugging Face on digits, whole and in two pipeline stages.

`TFViTForImageClassification` is a model of tf_keras, with a training step and a loss of its own.
Made in the scope it trains on the IPU; with gradient accumulation it computes its step for each
micro-batch, and updates the weights once for all of them. Its encoder is one layer of Keras, so a
pipeline needs a functional model of what is inside: `make_stages` calls the layers of the same
model, and puts half of the blocks in each stage. Both models have the same weights.

python -m tutorials.huggingface [--epochs N]
"""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

from ipu_tf import IPUConfig, IPUStrategy
from ipu_tf.keras import PipelineStage
from tutorials import digits

try:
    import tf_keras
    import transformers
except ModuleNotFoundError:
    raise SystemExit(
        "This tutorial needs transformers and tf_keras. Install them: "
        'pip install "ipu_tf[huggingface]"'
    ) from None

SIDE = 8
BATCH_SIZE = 8
MICRO_BATCHES = 4
UPDATES = 40  # Weight updates in an epoch.
STEPS = MICRO_BATCHES * UPDATES


def make_model() -> Any:
    """Two blocks on patches of two by two pixels, with random weights."""
    config = transformers.ViTConfig(
        image_size=SIDE,
        patch_size=2,
        num_channels=1,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=64,
        initializer_range=0.1,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
        num_labels=digits.CLASSES,
    )
    return transformers.TFViTForImageClassification(config)


def make_stages(model: Any) -> Any:
    """The layers of the model as a functional model in two stages."""
    vit = model.vit
    blocks = vit.encoder.layer
    images = tf_keras.Input((1, SIDE, SIDE))
    with PipelineStage(0):
        x = vit.embeddings(images)
        for block in blocks[: len(blocks) // 2]:
            (x,) = block(x, head_mask=None, output_attentions=False)
    with PipelineStage(1):
        for block in blocks[len(blocks) // 2 :]:
            (x,) = block(x, head_mask=None, output_attentions=False)
        logits = model.classifier(vit.layernorm(x)[:, 0])
    return tf_keras.Model(images, logits, name="stages")


def make_dataset() -> tf.data.Dataset:
    """Shuffled batches of digits as images of one channel; it repeats."""
    x, y = digits.load_digits()
    images = x.reshape(-1, 1, SIDE, SIDE)
    dataset = tf.data.Dataset.from_tensor_slices((images, y)).cache().shuffle(len(y), seed=1)
    return dataset.batch(BATCH_SIZE, drop_remainder=True).repeat()


def train(strategy: IPUStrategy, epochs: int, *, in_stages: bool) -> list[np.ndarray]:
    """Trains a new model; returns its weights.

    Args:
        strategy: The strategy.
        epochs: Epochs to train.
        in_stages: Whether a functional model of its layers is trained, by the loss of Keras.
    """
    tf_keras.utils.set_random_seed(1)
    with strategy.scope():
        model = make_model()
        trained, loss = model, {}
        options = {
            "gradient_accumulation_steps_per_replica": MICRO_BATCHES,
            "gradient_accumulation_reduction_method": "mean",
        }
        if in_stages:
            trained = make_stages(model)
            loss["loss"] = tf_keras.losses.SparseCategoricalCrossentropy(from_logits=True)
            trained.set_pipelining_options(**options)
        else:
            trained.set_gradient_accumulation_options(**options)
        trained.compile(
            tf_keras.optimizers.Adam(0.003), metrics=["accuracy"], steps_per_execution=STEPS, **loss
        )
        history = trained.fit(
            make_dataset(), epochs=epochs, steps_per_epoch=STEPS, shuffle=False, verbose=0
        ).history
    name = "two stages on two IPUs" if in_stages else "the model as it is, on one IPU"
    print(f"{name}: accuracy {history['accuracy'][-1]:.2%}")
    weights: list[np.ndarray] = trained.get_weights()
    return weights


def main(arguments: list[str] | None = None) -> None:
    """Trains the model whole and in stages, and compares the weights."""
    epochs = digits.epochs(__doc__, arguments, default=6)
    weights = []
    for ipus in (1, 2):
        cfg = IPUConfig()
        cfg.auto_select_ipus = ipus
        cfg.configure_ipu_system()
        strategy = IPUStrategy()
        weights.append(train(strategy, epochs, in_stages=ipus == 2))
        if ipus == 1:
            print(strategy.report().summary())
    print(strategy.report().timeline())
    difference = digits.largest_difference(*weights)
    print(f"largest difference between the weights of both: {difference:.1g}")


if __name__ == "__main__":
    main()
