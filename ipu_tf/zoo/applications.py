"""Networks that Keras itself has: EfficientNet-B0 and -B4, MobileNet v2 and v3.

Sources: `keras.applications`, which names the papers: Tan and Le, arXiv 1905.11946; Sandler et al.,
"MobileNetV2: Inverted Residuals and Linear Bottlenecks", arXiv 1801.04381; Howard et al.,
"Searching for MobileNetV3", arXiv 1905.02244. Stages begin at Keras' own blocks, and checkpoints
are after their last layers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import keras
from keras import layers

from ipu_tf.zoo.images import pixels
from ipu_tf.zoo.stage_placement import WHOLE, StagePlacement


def efficientnet_b0(
    *, image_size: int = 224, classes: int = 1000, placement: StagePlacement = WHOLE
) -> keras.Model:
    """Returns EfficientNet-B0, from uint8 images to probabilities; blocks are "1a", "2a", ..."""
    maker = keras.applications.EfficientNetB0
    return _application(maker, pixels(image_size), "block{}_", classes, placement)


def efficientnet_b4(
    *, image_size: int = 380, classes: int = 1000, placement: StagePlacement = WHOLE
) -> keras.Model:
    """Returns EfficientNet-B4, from uint8 images to probabilities; blocks are "1a", "2a", ..."""
    maker = keras.applications.EfficientNetB4
    return _application(maker, pixels(image_size), "block{}_", classes, placement)


def mobilenet_v2(
    *, image_size: int = 224, classes: int = 1000, placement: StagePlacement = WHOLE
) -> keras.Model:
    """Returns MobileNet v2, from uint8 images to probabilities; blocks are "1" to "16"."""
    images = layers.Rescaling(1 / 127.5, -1.0, name="rescaled")(pixels(image_size))
    maker = keras.applications.MobileNetV2
    return _application(maker, images, "block_{}_", classes, placement)


def mobilenet_v3_large(
    *, image_size: int = 224, classes: int = 1000, placement: StagePlacement = WHOLE
) -> keras.Model:
    """Returns MobileNet v3 large, from uint8 images to probabilities; blocks are "1" to "14"."""
    maker = keras.applications.MobileNetV3Large
    return _application(maker, pixels(image_size), "expanded_conv_{}_", classes, placement)


def mobilenet_v3_small(
    *, image_size: int = 224, classes: int = 1000, placement: StagePlacement = WHOLE
) -> keras.Model:
    """Returns MobileNet v3 small, from uint8 images to probabilities; blocks are "1" to "10"."""
    maker = keras.applications.MobileNetV3Small
    return _application(maker, pixels(image_size), "expanded_conv_{}_", classes, placement)


def _application(
    maker: Callable[..., keras.Model],
    images: Any,
    prefix: str,
    classes: int,
    placement: StagePlacement,
) -> keras.Model:
    model: Any = maker(weights=None, classes=classes, input_tensor=images)
    if placement.stages:
        _assign(model, [prefix.format(name) for name in placement.stages])
    if placement.checkpoints:
        checkpoints = [_last_layer(model, prefix.format(name)) for name in placement.checkpoints]
        model.set_recomputation_options(checkpoints=checkpoints, recompute=None)
    return model


def _last_layer(model: keras.Model, prefix: str) -> str:
    """Returns the name of the last layer of a block."""
    names = [layer.name for layer in model.layers if layer.name.startswith(prefix)]
    if not names:
        raise ValueError(
            f"'{model.name}' has no block whose layers begin with {prefix!r}, to keep its results. "
            f"Name one of its layers' blocks. Received: a checkpoint after {prefix!r}."
        )
    return names[-1]


def _assign(model: Any, begins: Sequence[str]) -> None:
    """Begins a stage of the pipeline at the first layer of every prefix."""
    assignment = model.get_pipeline_stage_assignment()
    names = [one.layer.name for one in assignment]
    places = []
    for prefix in begins:
        matches = [place for place, name in enumerate(names) if name.startswith(prefix)]
        if not matches:
            raise ValueError(
                f"'{model.name}' has no block whose layers begin with {prefix!r}. Name one of its "
                f"layers' blocks. Received: stages that begin with {list(begins)!r}."
            )
        places.append(matches[0])
    for place, one in enumerate(assignment):
        one.pipeline_stage = sum(place >= begin for begin in places)
    model.set_pipeline_stage_assignment(assignment)
