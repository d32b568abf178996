"""Signatures of the steps of an exported model: names, shapes and dtypes of their inputs."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import tensorflow as tf

from ipu_tf.internals.structures import TensorStructure


@dataclass(frozen=True, slots=True, kw_only=True)
class StepSignature:
    """The inputs of a step.

    Attributes:
        specs: Shape, dtype and name of each input.
        by_keyword: Whether the step takes its inputs by their names.
    """

    specs: tuple[tf.TensorSpec, ...]
    by_keyword: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the inputs."""
        return tuple(spec.name for spec in self.specs)

    def structured(
        self, inputs: Sequence[tf.Tensor]
    ) -> tuple[tf.Tensor, ...] | dict[str, tf.Tensor]:
        """Returns flat inputs as `call_step` takes them."""
        return dict(zip(self.names, inputs, strict=True)) if self.by_keyword else tuple(inputs)


def call_step(step: Callable[..., object], inputs: TensorStructure) -> TensorStructure:
    """Returns the results of a step: mappings are keyword arguments, sequences positional ones."""
    if isinstance(inputs, Mapping):
        return step(**inputs)
    if isinstance(inputs, list | tuple):
        return step(*inputs)
    return step(inputs)


def step_signature(
    argument: str, step: Callable[..., object], signature: object, *, skipped: int = 0
) -> StepSignature | None:
    """Returns the signature of a step that is given, or that its tf.function declares.

    Args:
        argument: Name of the argument that holds the step.
        step: The step.
        signature: The value of its argument of the signature, None if it is not given.
        skipped: Number of first parameters of the step that are no inputs.

    Returns:
        None if there is neither.

    Raises:
        TypeError: The signature is no list or tuple of `tf.TensorSpec`.
        ValueError: It is empty, or the tf.function has another.
    """
    declared = _declared(step)
    if signature is None:
        return None if declared is None else _with_names(step, declared[skipped:], skipped)
    where = f"`{argument}_signature`"
    if declared is not None:
        raise ValueError(
            f"`{argument}` is a tf.function with an input_signature: leave {where} out. "
            f"Received: {where[1:-1]}={signature!r}."
        )
    if not isinstance(signature, list | tuple):
        raise TypeError(
            f"{where} must be a list or tuple of tf.TensorSpec. Received: {signature!r}."
        )
    if not signature:
        raise ValueError(
            f"{where} must not be empty: give one tf.TensorSpec for each input of `{argument}`."
        )
    for spec in signature:
        if not isinstance(spec, tf.TensorSpec):
            raise TypeError(
                f"{where} must be a list or tuple of tf.TensorSpec. Received an element {spec!r}."
            )
    return _with_names(step, signature, skipped)


def dataset_signature(
    step: Callable[..., object], dataset: tf.data.Dataset, *, skipped: int = 0
) -> StepSignature:
    """Returns the signature of a step that takes the elements of a dataset.

    Args:
        step: The step.
        dataset: The dataset.
        skipped: Number of first parameters of the step that are no inputs.

    Raises:
        TypeError: It is no tf.data.Dataset, or its elements are no tensors.
    """
    if not isinstance(dataset, tf.data.Dataset):
        raise TypeError(f"`input_dataset` must be a tf.data.Dataset. Received: {dataset!r}.")
    element = dataset.element_spec
    by_keyword = isinstance(element, Mapping)
    if by_keyword:
        element = tuple(tf.TensorSpec(s.shape, s.dtype, name) for name, s in element.items())
    flat = element if isinstance(element, tuple) else (element,)
    if not all(isinstance(spec, tf.TensorSpec) for spec in flat):
        raise TypeError(
            "The elements of `input_dataset` must be tensors, tuples of tensors or dicts of "
            f"tensors. Received: element_spec={dataset.element_spec!r}."
        )
    signature = _with_names(step, flat, skipped)
    return StepSignature(specs=signature.specs, by_keyword=by_keyword)


def signature_of_results(
    step: Callable[..., object],
    results: tf.Tensor | Sequence[tf.Tensor] | Mapping[str, tf.Tensor],
    skipped: int = 0,
) -> StepSignature:
    """Returns the signature of a step that takes the results of the step before it.

    Args:
        step: The step.
        results: The results, tensors or their specs.
        skipped: Number of first parameters of the step that are no inputs.
    """
    by_keyword = isinstance(results, Mapping)
    if isinstance(results, Mapping):
        flat = [tf.TensorSpec(t.shape, t.dtype, name) for name, t in results.items()]
    else:
        tensors: Sequence[tf.Tensor] = (
            results if isinstance(results, list | tuple) else [cast("tf.Tensor", results)]
        )
        flat = [tf.TensorSpec(tensor.shape, tensor.dtype) for tensor in tensors]
    return StepSignature(specs=_with_names(step, flat, skipped).specs, by_keyword=by_keyword)


def check_static(argument: str, signature: StepSignature) -> None:
    """Checks that the inputs of a step of the device have static shapes.

    Raises:
        ValueError: A shape has an open size.
    """
    for spec in signature.specs:
        if not spec.shape.is_fully_defined():
            raise ValueError(
                f"Input '{spec.name}' of `{argument}` has shape {spec.shape} which is not fully "
                "defined. Shapes are static on the IPU: give every axis a size in the signature; "
                "batch a dataset with `drop_remainder=True`."
            )


def check_results_fit(
    argument: str, results: TensorStructure, next_name: str, signature: StepSignature
) -> None:
    """Checks that the results of a step are what the next one takes.

    Raises:
        ValueError: Their number, a shape or a dtype differs.
    """
    tensors = tf.nest.flatten(results)
    expected = signature.specs
    fits = len(tensors) == len(expected) and all(
        spec.dtype == tensor.dtype and spec.shape.is_compatible_with(tensor.shape)
        for spec, tensor in zip(expected, tensors, strict=True)
    )
    if not fits:
        raise ValueError(
            f"The results of `{argument}` do not fit the signature of `{next_name}`. Expected: "
            f"{_text(expected)}. Received: {_text(tensors)}."
        )


def _text(values: Sequence[Any]) -> str:
    return ", ".join(f"{value.dtype.name}{value.shape}" for value in values) or "nothing"


def _declared(step: Any) -> Sequence[tf.TensorSpec] | None:
    if isinstance(step, tf.types.experimental.ConcreteFunction):
        positional, keywords = step.structured_input_signature
        flat = tf.nest.flatten((positional, keywords))
        return [spec for spec in flat if isinstance(spec, tf.TensorSpec)]
    declared: Sequence[tf.TensorSpec] | None = getattr(step, "input_signature", None)
    return declared


def _with_names(step: Callable[..., Any], specs: Sequence[Any], skipped: int) -> StepSignature:
    """Returns the signature with a name for every input: its own, or that of the parameter."""
    parameters = _parameters(step)[skipped:]
    specs_with_names: list[tf.TensorSpec] = []
    for number, spec in enumerate(specs):
        name = spec.name or (
            parameters[number] if number < len(parameters) else f"input_{number + skipped}"
        )
        specs_with_names.append(tf.TensorSpec(spec.shape, spec.dtype, name))
    return StepSignature(specs=tuple(specs_with_names))


def _parameters(step: Callable[..., Any]) -> list[str]:
    """Returns the names of the parameters that take one positional argument each."""
    function = getattr(step, "python_function", step)
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return []
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return [parameter.name for parameter in parameters if parameter.kind in kinds]
