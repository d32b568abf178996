"""The shapes of the data for a step of a Keras model, without any data."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import tensorflow as tf
from keras import tree

from ipu_tf.internals.structures import DType, SpecStructure
from ipu_tf.keras.adapters.estimates import estimates_of
from ipu_tf.keras.adapters.graphs import GraphModel, Structure
from ipu_tf.keras.data.input_shapes import Shapes, with_shapes
from ipu_tf.keras.data.narrowing import NARROWER


def input_specs(
    model: GraphModel,
    batch_size: int,
    inputs: SpecStructure = None,
    *,
    batched: bool = True,
    shapes: Shapes | None = None,
) -> SpecStructure:
    """Returns the specs of one batch of a model's inputs, in the model's structure.

    Args:
        model: The model.
        batch_size: Samples of the batch.
        inputs: Specs of the inputs where the model does not declare them, `tf.TensorSpec`s with or
            without the batch size.
        batched: Whether the first axis of every input counts samples.
        shapes: Shapes of inputs by name, or that of the only input; see `with_shapes`.

    Raises:
        ValueError: The model declares no inputs and none are given, or a shape is not static, or
            contradicts the declared one.
    """
    declarations = estimates_of(model).inputs if inputs is None else inputs
    if declarations is None:
        raise ValueError(
            f"Model '{model.name}' does not declare its inputs: it is neither functional nor a "
            "Sequential that begins with keras.Input. Call it on one (`x = keras.Input(...)`, "
            "`keras.Model(x, model(x))`), or pass `inputs=tf.TensorSpec(...)`."
        )

    shapes_by_name = (
        with_shapes(model, declarations, batch_size, shapes) if shapes is not None else {}
    )

    def spec(declaration: Any) -> tf.TensorSpec:
        name = getattr(declaration, "name", None) or "input"
        owner = f"Model '{model.name}': input '{name}'"
        if name in shapes_by_name:
            return _static(shapes_by_name[name], declaration.dtype, owner)
        return _batch_spec(declaration, batch_size if batched else None, owner)

    return tree.map_structure(spec, declarations)


def target_specs(
    model: GraphModel, outputs: Structure, losses: object, batch_size: int | None
) -> SpecStructure:
    """Returns the specs of the targets that a compiled model's loss compares to the outputs.

    Losses named "sparse" take integer class numbers; all others take targets like the output.

    Args:
        model: The model.
        outputs: Its outputs, symbolic.
        losses: What `compile` got as `loss`.
        batch_size: Samples of the batch; None where the first axis of outputs does not count them.

    Raises:
        ValueError: The shape of an output is not static.
    """

    def spec(output: Any, loss: Any) -> tf.TensorSpec:
        like = _batch_spec(output, batch_size, f"Model '{model.name}': an output")
        if "sparse" in _name_of(loss).lower():
            return tf.TensorSpec(like.shape[:-1], tf.int32)
        return tf.TensorSpec(like.shape, tf.float32)

    return _map_losses(spec, outputs, losses)


def default_loss(model: GraphModel) -> str:
    """Returns the name of the loss that suits a model's last activation.

    Softmax goes with class numbers, sigmoid with binary targets, all else with squared errors.
    """
    by_activation = {
        "softmax": "sparse_categorical_crossentropy",
        "sigmoid": "binary_crossentropy",
    }
    return by_activation.get(estimates_of(model).last_activation, "mean_squared_error")


def _batch_spec(declaration: Any, batch_size: int | None, owner: str) -> tf.TensorSpec:
    sizes = list(declaration.shape)
    if batch_size is not None:
        if not sizes or sizes[0] not in (None, batch_size):
            raise ValueError(
                f"{owner} has a batch of fixed size, which differs from batch_size={batch_size}. "
                "Without a batch axis, as for graphs, pass `batch_axis=None`, or its shape in "
                f"`input_shapes`. Received: shape {tuple(sizes)}."
            )
        sizes[0] = batch_size
    return _static(sizes, declaration.dtype, owner)


def _static(sizes: Sequence[int | None], dtype: DType, owner: str) -> tf.TensorSpec:
    if None in sizes:
        raise ValueError(
            f"{owner} has no static shape. Shapes are static on the IPU: give every axis a size in "
            f"the model, or pass its shape in `input_shapes`. Received: shape {tuple(sizes)}."
        )
    name = tf.as_dtype(dtype).name
    return tf.TensorSpec(sizes, NARROWER.get(name, name))


def _map_losses(function: Callable[[Any, Any], tf.TensorSpec], outputs: Any, losses: Any) -> Any:
    """Returns `function` of every output and its loss; one loss may stand for all outputs."""
    if isinstance(outputs, Mapping):
        by_name = losses if isinstance(losses, Mapping) else dict.fromkeys(outputs, losses)
        return {
            name: _map_losses(function, output, by_name.get(name))
            for name, output in outputs.items()
        }
    if isinstance(outputs, list | tuple):
        losses_of_outputs = losses if isinstance(losses, list | tuple) else [losses] * len(outputs)
        if isinstance(losses, Mapping):
            losses_of_outputs = list(losses.values())
        pairs = zip(outputs, losses_of_outputs, strict=True)
        return [_map_losses(function, output, loss) for output, loss in pairs]
    return function(outputs, losses)


def _name_of(loss: object) -> str:
    if isinstance(loss, str):
        return loss
    return str(getattr(loss, "name", None) or getattr(loss, "__name__", type(loss).__name__))
