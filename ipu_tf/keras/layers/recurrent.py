"""Shared parts of the IPU's recurrent layers."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from types import ModuleType
from typing import Any, TypedDict, Unpack

import keras
import tensorflow as tf
from keras import ops

from ipu_tf import scopes
from ipu_tf.config.poplar_options import parse_partials
from ipu_tf.internals.structures import DType, Shape
from ipu_tf.keras.layers.arguments import Initializer, SeedPair
from ipu_tf.keras.layers.ipu_layer import AnyKeras, drop, refuse, seed_pair, unsupported

ACTIVATIONS = ("tanh", "relu", "softmax", "sigmoid", "hard_sigmoid")
RECURRENT_ACTIVATIONS = ("tanh", "softmax", "sigmoid", "hard_sigmoid")
_FLOATS = ("float16", "float32", "mixed_float16")
# Arguments of the Keras layers, with their only supported value.
_ONLY = {
    "use_bias": True,
    "kernel_regularizer": None,
    "recurrent_regularizer": None,
    "bias_regularizer": None,
    "activity_regularizer": None,
    "kernel_constraint": None,
    "recurrent_constraint": None,
    "bias_constraint": None,
    "recurrent_dropout": 0.0,
    "go_backwards": False,
    "unroll": False,
    "zero_output_for_mask": False,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class PopnnOptions:
    """The options that the IPU's recurrent layers have in addition to Keras'.

    Attributes:
        dropout_seed: Seeds of the mask of the inputs, a new mask at every call if None.
        partials_dtype: Dtype of the partial sums of float16 products.
        time_major: Whether inputs and outputs have shape [steps, batch, ...].
        available_memory_proportion_fwd: Share of the tile memory for temporary values of the
            forward pass; None leaves it to the compiler.
        available_memory_proportion_bwd: The same of the backward pass; as forward if None.
        options: Further options of the forward pass for the compiler.
        options_bwd: Further options of the backward pass.
    """

    dropout_seed: tuple[int, int] | None = None
    partials_dtype: str = "float32"
    time_major: bool = False
    available_memory_proportion_fwd: float | None = None
    available_memory_proportion_bwd: float | None = None
    options: Mapping[str, object] | None = None
    options_bwd: Mapping[str, object] | None = None


class PopnnSettings(TypedDict):
    """The fields of `PopnnOptions` that need no check."""

    time_major: bool
    available_memory_proportion_fwd: float | None
    available_memory_proportion_bwd: float | None
    options: Mapping[str, object] | None
    options_bwd: Mapping[str, object] | None


def parse_options(
    owner: str,
    *,
    dropout_seed: SeedPair,
    partials_dtype: DType,
    **settings: Unpack[PopnnSettings],
) -> PopnnOptions:
    """Returns the options of a layer, checked.

    Args:
        owner: Name for errors.
        dropout_seed: A pair of seeds, or None.
        partials_dtype: float16 or float32.
        **others: The other fields of `PopnnOptions`.

    Raises:
        ValueError: The seed is not a pair, or the dtype is another.
    """
    partials = parse_partials(partials_dtype)
    if partials is None:
        raise ValueError(
            f"{owner}: partials_dtype must be tf.float16 or tf.float32. "
            f"Received: partials_dtype={partials_dtype!r}."
        )
    return PopnnOptions(
        dropout_seed=seed_pair(owner, dropout_seed), partials_dtype=partials, **settings
    )


def check_arguments(
    layer: keras.layers.Layer, implementation: int, arguments: Mapping[str, object]
) -> None:
    """Checks arguments of the Keras layer that support only one value on the IPU.

    Args:
        layer: The layer.
        implementation: Keras' number of an implementation, 1 or 2; both are the same here.
        arguments: Further arguments by name.

    Raises:
        NotImplementedError: An argument has another value.
    """
    only_arguments: dict[str, Any] = {name: arguments[name] for name in _ONLY if name in arguments}
    refuse(layer, implementation=implementation not in (1, 2) and implementation)
    refuse(layer, **{name: value for name, value in only_arguments.items() if name != "use_bias"})
    if not only_arguments.get("use_bias", True):
        raise unsupported(layer, "use_bias", only_arguments["use_bias"])


def activation_name(owner: str, argument: str, activation: object, names: tuple[str, ...]) -> str:
    """Returns the name of an activation function.

    Args:
        owner: Name for the error.
        argument: Name of the argument.
        activation: A function of `keras.activations` or its name.
        names: The supported names.

    Raises:
        ValueError: The function is another.
    """
    name = activation if isinstance(activation, str) else getattr(activation, "__name__", None)
    if name not in names:
        raise ValueError(
            f"{owner}: the IPU's recurrent layers do not support {activation!r} as `{argument}`. "
            f"Acceptable values are {', '.join(names)}. Received: {argument}={activation!r}."
        )
    return name


def seeded(
    initializer: Initializer, default: str, seed: int | None, of_keras: ModuleType = keras
) -> Initializer:
    """Returns an initializer, seeded if it is left out or given as a string.

    Args:
        initializer: The initializer, its name, or None for the default.
        default: The name of the default.
        seed: The seed, None for none.
        of_keras: The Keras whose initializer it is.
    """
    if initializer is not None and not isinstance(initializer, str):
        return initializer
    initial = of_keras.initializers.get(initializer or default)
    config = initial.get_config()
    if seed is None or "seed" not in config:
        return initial
    return type(initial).from_config({**config, "seed": seed})


class PopnnBody(AnyKeras):
    """The parts of `PopnnRNN` that are the same over any Keras."""

    _popnn: PopnnOptions
    _rate: float

    def _configure(self, options: PopnnOptions, dropout: float) -> None:
        """Sets the IPU's options, once the layer is made."""
        policy = self.dtype_policy.name
        if policy not in _FLOATS:
            raise ValueError(
                f"{type(self).__name__} layer '{self.name}': only float16 and float32 are "
                f"supported. Received: dtype={policy!r}."
            )
        if not 0 <= dropout < 1:
            raise ValueError(
                f"{type(self).__name__} layer '{self.name}': dropout must be from 0 up to but not "
                f"including 1. Received: dropout={dropout!r}."
            )
        self._popnn = options
        self._rate = dropout

    @property
    def popnn_options(self) -> PopnnOptions:
        """The IPU's options of the layer; the compiler reads them."""
        return self._popnn

    @property
    def dropout(self) -> float:
        """Share of the inputs that is dropped, the same inputs at every step of a sequence."""
        return self._rate

    @property
    def kernel(self) -> keras.Variable:
        """The kernel of the inputs, of shape [features, gates * units].

        A tensor that is set takes the place of the weight in the computation.
        """
        return self.cell.kernel

    @kernel.setter
    def kernel(self, kernel: keras.Variable | tf.Tensor) -> None:
        self.cell.kernel = kernel

    @property
    def recurrent_kernel(self) -> keras.Variable:
        """The kernel of the state, of shape [units, gates * units]; it can be set, too."""
        return self.cell.recurrent_kernel

    @recurrent_kernel.setter
    def recurrent_kernel(self, kernel: keras.Variable | tf.Tensor) -> None:
        self.cell.recurrent_kernel = kernel

    @property
    def biases(self) -> keras.Variable:
        """The biases, of shape [gates * units]; [2, gates * units] of a GRU with `reset_after`."""
        return self.cell.bias

    @biases.setter
    def biases(self, biases: keras.Variable | tf.Tensor) -> None:
        self.cell.bias = biases

    def get_config(self) -> dict[str, object]:
        """Returns the arguments that make this layer."""
        return {**super().get_config(), **asdict(self._popnn), "dropout": self._rate}


class PopnnRNN(PopnnBody, keras.layers.RNN):
    """A Keras recurrent layer with the IPU's options.

    A subclass names this class before the Keras layer that it extends and passes the options.
    """

    def _of_keras(self, *, seed: int | None, time_major: bool) -> dict[str, object]:
        """Returns the arguments that Keras 3 alone has."""
        del time_major  # `call` transposes.
        return {"seed": seed, "use_cudnn": False}

    def build(
        self, inputs_shape: Shape, initial_state_shape: Sequence[Shape] | None = None
    ) -> None:
        """Makes the weights."""
        if len(inputs_shape) != 3 or inputs_shape[-1] is None:
            raise ValueError(
                f"{type(self).__name__} layer '{self.name}': the inputs must be 3D, with a static "
                f"number of features. Received: inputs of shape {tuple(inputs_shape)}."
            )
        super().build(self._batch_major(inputs_shape), initial_state_shape)

    def call(
        self,
        inputs: tf.Tensor,
        mask: tf.Tensor | None = None,
        training: bool | None = None,
        initial_state: Sequence[tf.Tensor] | None = None,
    ) -> tf.Tensor | tuple[tf.Tensor, ...]:
        """Returns the outputs of the sequences, and the states if `return_state`.

        Args:
            inputs: Sequences of shape [batch, steps, features]; [steps, batch, features] if
                `time_major`.
            mask: Not supported.
            training: Whether to apply dropout to the inputs.
            initial_state: The states before the first step, each of shape [batch, units]; zeros
                if None.

        Returns:
            A tensor of shape [batch, steps, units] if `return_sequences`, steps first if
            `time_major`, else of shape [batch, units]; if `return_state`, followed by the states.
        """
        refuse(self, "call", mask=mask)
        sequences = self._batch_first(inputs)
        if training and self._rate:
            batch, _, features = ops.shape(sequences)
            sequences = drop(
                sequences,
                self._rate,
                (batch, 1, features),
                self._popnn.dropout_seed,
                self.cell.seed_generator,
            )
        partials = scopes.partials_type(self._popnn.partials_dtype)
        with partials if self.compute_dtype == "float16" else contextlib.nullcontext():
            results = super().call(sequences, initial_state=initial_state, training=False)
        if not self.return_sequences:
            return results
        if not self.return_state:
            return self._batch_first(results)
        return self._batch_first(results[0]), *results[1:]

    def _batch_first(self, sequences: tf.Tensor) -> tf.Tensor:
        """Returns sequences with batch and steps swapped if they are time major."""
        return ops.transpose(sequences, (1, 0, 2)) if self._popnn.time_major else sequences

    def _batch_major(self, shape: Shape) -> Shape:
        first, second, *sizes = shape
        return (second, first, *sizes) if self._popnn.time_major else tuple(shape)

    def compute_output_shape(
        self, inputs_shape: Shape, initial_state_shape: Sequence[Shape] | None = None
    ) -> Shape | tuple[Shape, ...]:
        """Returns the shapes of the results of `call`."""
        shapes = super().compute_output_shape(self._batch_major(inputs_shape), initial_state_shape)
        if not self.return_sequences:
            return shapes
        if not self.return_state:
            return self._batch_major(shapes)
        return self._batch_major(shapes[0]), *shapes[1:]
