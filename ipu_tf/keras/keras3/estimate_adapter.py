"""Models of Keras 3 whose steps are traced for their figures alone."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import cast

import keras
import tensorflow as tf

from ipu_tf.internals.keras_outputs import known_outputs
from ipu_tf.internals.keras_training import build_for_training
from ipu_tf.internals.structures import SpecStructure
from ipu_tf.keras.adapters.estimates import EqualBlocks, estimates_of
from ipu_tf.keras.adapters.graphs import GraphModel, Structure
from ipu_tf.keras.keras3.equal_blocks import equal_blocks_of
from ipu_tf.keras.keras3.own_code import runs_own_code


@estimates_of.register(keras.Model)
@dataclass(frozen=True, slots=True)
class Keras3Estimate:
    """A model of Keras 3; see `EstimateAdapter`.

    Attributes:
        model: The model.
    """

    model: keras.Model

    @property
    def inputs(self) -> Structure:
        """The declared inputs, symbolic and in the structure of the model; None without any."""
        try:
            tensors = self.model.inputs
        except (AttributeError, ValueError):  # Keras raises these for a model without one.
            return None
        if not tensors:
            return None
        return tensors[0] if isinstance(self.model, keras.Sequential) else self.model.input

    @property
    def built_inputs(self) -> SpecStructure:
        """Specs of the inputs that a subclassed model was built for; None if they are unknown."""
        shapes = (self.model.get_build_config() or {}).get("input_shape")
        if shapes is None:
            return None
        return keras.tree.map_shape_structure(
            lambda shape: tf.TensorSpec(shape, self.model.input_dtype), shapes
        )

    @property
    def last_activation(self) -> str:
        """The name of the activation of its last layer, "" without one."""
        last = self.model.layers[-1] if self.model.layers else None
        if isinstance(last, keras.layers.Softmax):
            return "softmax"
        return getattr(getattr(last, "activation", None), "__name__", "")

    @property
    def runs_own_code(self) -> bool:
        """Whether its step runs code of a user's, which may look at the number of samples."""
        return runs_own_code(self.model)

    def equal_blocks(self, *, training: bool) -> EqualBlocks | None:
        """Returns blocks of which a trace may leave out all but the outer ones, or None."""
        return equal_blocks_of(self.model, training=training)

    def outputs(self, inputs: SpecStructure) -> Structure:
        """Returns symbolic outputs for inputs of these specs."""

        def symbolic(spec: tf.TensorSpec) -> keras.KerasTensor:
            return keras.KerasTensor(spec.shape, dtype=spec.dtype.name)

        return self.model.compute_output_spec(keras.tree.map_structure(symbolic, inputs))

    @contextlib.contextmanager
    def with_new_optimizer(self) -> Iterator[None]:
        """Replaces the optimizer by a copy without variables while the context is open."""
        theirs = self.model.optimizer
        # Keras' `deserialize` knows no Lamb.
        self.model.optimizer = type(theirs).from_config(theirs.get_config())
        try:
            yield
        finally:
            self.model.optimizer = theirs

    def compiled(self, loss: str, rate: float) -> GraphModel:
        """Returns a model of the same layers, compiled with this loss and SGD of this rate."""
        model = self.model
        output = model.outputs[0] if isinstance(model, keras.Sequential) else model.output
        compiled = keras.Model(model.inputs, output, name=model.name)
        compiled.compile(optimizer=keras.optimizers.SGD(rate), loss=loss)
        return cast("GraphModel", compiled)

    def build_for_training(self, batch: SpecStructure, outputs: Structure) -> None:
        """Builds layers, loss, metrics and optimizer as `fit` does."""
        with known_outputs(self.model, outputs):
            build_for_training(self.model, batch)
