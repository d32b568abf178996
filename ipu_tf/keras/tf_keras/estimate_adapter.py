"""Models of tf_keras whose steps are traced for their figures alone."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import cast

import tensorflow as tf
import tf_keras

from ipu_tf.internals.structures import SpecStructure, TensorStructure
from ipu_tf.keras.adapters.estimates import estimates_of
from ipu_tf.keras.adapters.graphs import GraphModel, Structure
from ipu_tf.keras.adapters.models import adapter_of
from ipu_tf.keras.data.input_shapes import specs_of_shapes


@estimates_of.register(tf_keras.Model)
@dataclass(frozen=True, slots=True)
class TfKerasEstimate:
    """A model of tf_keras; see `EstimateAdapter`.

    Attributes:
        model: The model.
    """

    model: tf_keras.Model

    @property
    def inputs(self) -> Structure:
        """The declared inputs, symbolic and in the structure of the model; None without any."""
        declared = self.model.inputs
        if not declared:
            return None
        return declared[0] if isinstance(self.model, tf_keras.Sequential) else self.model.input

    @property
    def built_inputs(self) -> SpecStructure:
        """Specs of the inputs of the first call or the build of the model; None before these."""
        called_with = self.model.save_spec(dynamic_batch=False)
        if called_with is not None:
            return called_with[0][0]
        shapes = (self.model.get_build_config() or {}).get("input_shape")
        return None if shapes is None else specs_of_shapes(shapes, self.model.compute_dtype)

    @property
    def last_activation(self) -> str:
        """The name of the activation of its last layer, "" without one."""
        last = self.model.layers[-1] if self.model.layers else None
        if isinstance(last, tf_keras.layers.Softmax):
            return "softmax"
        return getattr(getattr(last, "activation", None), "__name__", "")

    @property
    def runs_own_code(self) -> bool:
        """True: which code is the user's is known of models of Keras 3 alone."""
        return True

    def equal_blocks(self, *, training: bool) -> None:
        """Returns None: blocks are compared in models of Keras 3 alone."""
        del training

    def outputs(self, inputs: SpecStructure) -> Structure:
        """Returns specs of the outputs for inputs of these specs; builds the layers."""

        def call(x: TensorStructure) -> TensorStructure:
            return adapter_of(self.model).outputs(x, training=False)

        function = tf.function(call, autograph=False).get_concrete_function(inputs)
        return function.structured_outputs

    @contextlib.contextmanager
    def with_new_optimizer(self) -> Iterator[None]:
        """Replaces the optimizer by a copy without variables while the context is open."""
        theirs = self.model.optimizer
        self.model.optimizer = type(theirs).from_config(theirs.get_config())
        try:
            yield
        finally:
            self.model.optimizer = theirs

    def compiled(self, loss: str, rate: float) -> GraphModel:
        """Returns a model of the same layers, compiled with this loss and SGD of this rate."""
        compiled = tf_keras.Model(self.inputs, self.model.output, name=self.model.name)
        compiled.compile(optimizer=tf_keras.optimizers.SGD(rate), loss=loss)
        return cast("GraphModel", compiled)

    def build_for_training(self, batch: SpecStructure, outputs: Structure) -> None:
        """Builds the optimizer, the loss and metrics by tracing a step."""
        del outputs
        adapter_of(self.model).build_missing_parts("train_step", batch)
