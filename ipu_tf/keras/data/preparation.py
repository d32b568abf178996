"""The rules for the data of `fit`, `evaluate` and `predict` on the IPU.

The rules are checked before Keras wraps the data, so that errors name the user's arguments.
Shapes are static and elements have at most 32 bits, as on the machine.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import tensorflow as tf

from ipu_tf.internals.structures import TensorLike, TensorStructure
from ipu_tf.keras.data import lengths, narrowing
from ipu_tf.keras.data.array_names import ROLES, arrays_by_name, by_role, has_roles, map_arrays
from ipu_tf.keras.data.lengths import DataUse
from ipu_tf.runtime.tracing import static_shapes


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Data:
    """Inputs, targets and weights, as passed by the user or as converted for the IPU.

    Attributes:
        x: Arrays, tensors or a structure of them, or a dataset of batches.
        y: Targets in the same form, None with a dataset.
        sample_weight: Weights of the samples, None with a dataset.
        conversions: The conversions made for the IPU, such as "y: int64 to int32".
    """

    x: object
    y: object = None
    sample_weight: object = None
    conversions: tuple[str, ...] = ()

    @classmethod
    def of(cls, arguments: Mapping[str, object]) -> Data:
        """Returns the data from the arguments of a method of a model."""
        parts: dict[str, Any] = {role: arguments[role] for role in ROLES if role in arguments}
        return cls(**parts)

    @property
    def arguments(self) -> dict[str, object]:
        """The data as arguments of a method of a model."""
        return {role: getattr(self, role) for role in ROLES}


def prepare(data: Data, use: DataUse) -> Data:
    """Returns `data` in the form that the IPU takes.

    Args:
        data: The data that the user passed.
        use: The use of the data.

    Raises:
        ValueError: The data breaks a rule; the message says which, and how to fix it.
    """
    if isinstance(data.x, tf.data.Dataset):
        lengths.check_dataset(data.x, use)
        return dataclasses.replace(data, **_prepare_dataset(data.x, use))
    parts = data.arguments
    if not _are_arrays(parts):
        if not _are_arrays({"x": data.x}):
            _check_not_python_iterable(data.x, use)
        return data  # Keras reports data of an unknown kind.
    return _prepare_arrays(parts, use, whole_batches=True)


def prepare_batch(data: Data, use: DataUse) -> Data:
    """Returns one batch of data in the form that the IPU takes.

    Raises:
        ValueError: The data breaks a rule.
    """
    parts = data.arguments
    if not _are_arrays(parts):
        return data
    return _prepare_arrays(parts, use, whole_batches=False)


def training_and_validation(
    arguments: Mapping[str, object], *, model: str
) -> tuple[Data, Data | None]:
    """Returns the training and validation data from the arguments of `fit`, split as Keras does.

    The second is None without validation, and if the data cannot be split: preparing the data, or
    Keras' own split, then raises the error.

    Args:
        arguments: The arguments of `fit`.
        model: Name of the model.

    Raises:
        ValueError: `validation_split` is not a fraction.
    """
    data = Data.of(arguments)
    validation_data = arguments["validation_data"]
    if validation_data is not None:
        return data, Data.of(by_role(validation_data)) if has_roles(validation_data) else None
    fraction = _fraction(arguments["validation_split"], DataUse(model=model, method="fit"))
    if not fraction or not _are_arrays(data.arguments):
        return data, None
    arrays = [array for _, array in arrays_by_name(data.arguments)]
    counts = {lengths.axis_length(array) for array in arrays}
    if len(counts) > 1 or any(map(static_shapes.not_dense, arrays)):
        return data, None
    count = counts.pop()
    begin = math.floor(count * (1.0 - fraction))
    if not 0 < begin < count:
        return data, None
    training = map_arrays(lambda _, array: array[:begin], data.arguments)
    validation = map_arrays(lambda _, array: array[begin:], data.arguments)
    return Data.of(training), Data.of(validation)


def _fraction(validation_split: Any, use: DataUse) -> float:
    """Returns the fraction of the data to validate with, 0 for none.

    Raises:
        ValueError: It is not a number from 0 up to, not including, 1.
    """
    if not validation_split:
        return 0.0
    try:
        fraction = float(validation_split)
    except (TypeError, ValueError):
        fraction = math.nan
    if not 0 <= fraction < 1:
        raise ValueError(
            f"{use.subject}: `validation_split` must be the fraction of the data to validate with, "
            f"at least 0 and less than 1. Received: {validation_split!r}."
        )
    return fraction


def _are_arrays(parts: Mapping[str, object]) -> bool:
    """Returns whether all values are arrays, tensors or tables, and there is at least one."""
    arrays = [array for _, array in arrays_by_name(parts)]
    return bool(arrays) and all(
        hasattr(array, "shape") and (hasattr(array, "dtype") or hasattr(array, "dtypes"))
        for array in arrays
    )


def _prepare_arrays(parts: Mapping[str, object], use: DataUse, *, whole_batches: bool) -> Data:
    # A table with a dtype for each column becomes an array with one dtype.
    parts = map_arrays(
        lambda _, array: array.to_numpy() if hasattr(array, "dtypes") else array, parts
    )
    arrays = dict(arrays_by_name(parts))
    for name, array in arrays.items():
        _check_dense(name, array, use)
        narrowing.check_supported(name, narrowing.dtype_name(array), model=use.model)
    samples = {name: lengths.axis_length(array) for name, array in arrays.items()}
    if whole_batches:
        lengths.check_arrays(samples, use)
    else:
        lengths.check_equal(samples, use)
    narrow = map_arrays(
        lambda name, array: narrowing.narrow_array(name, array, model=use.model), parts
    )
    return dataclasses.replace(Data.of(narrow), conversions=_conversions(arrays))


def _check_dense(name: str, array: TensorLike, use: DataUse) -> None:
    if sparse := static_shapes.not_dense(array):
        raise ValueError(f"{use.subject}: input {name} is {sparse}.")
    if 0 in array.shape[1:]:
        raise ValueError(
            f"{use.subject}: input {name} has an axis of size 0. Received: shape {array.shape}."
        )


def _prepare_dataset(dataset: tf.data.Dataset, use: DataUse) -> dict[str, Any]:
    spec = dataset.element_spec
    tensors = {}
    for name, tensor in arrays_by_name(by_role(spec)):
        if not isinstance(tensor, tf.TensorSpec):
            if sparse := static_shapes.not_dense(tensor):
                raise ValueError(
                    f"{use.subject}: for {name} the dataset yields {sparse} in `Dataset.map`."
                )
            continue  # The part is None.
        _check_static(name, tensor, dataset, use)
        narrowing.check_supported(name, tensor.dtype.name, model=use.model)
        tensors[name] = tensor
    conversions = _conversions(tensors)
    if not conversions:
        return {"x": dataset}

    # AutoGraph would take as long to convert it as the first step of a small network takes.
    @tf.autograph.experimental.do_not_convert
    def narrow(*element: TensorStructure) -> object:
        batch = element if isinstance(spec, tuple) else element[0]
        parts = map_arrays(
            lambda name, tensor: narrowing.narrow_tensor(name, tensor, model=use.model),
            by_role(batch),
        )
        return tuple(parts.values()) if isinstance(spec, tuple) and has_roles(spec) else parts["x"]

    narrow_dataset = dataset.map(narrow, num_parallel_calls=tf.data.AUTOTUNE)
    return {"x": narrow_dataset, "conversions": conversions}


def _check_static(name: str, spec: tf.TensorSpec, dataset: tf.data.Dataset, use: DataUse) -> None:
    if not spec.shape.is_fully_defined():
        raise ValueError(
            f"{use.subject}: the dataset yields {name} of shape {spec.shape} which is not fully "
            f"defined. {static_shapes.advice(spec.shape, dataset)}"
        )
    if 0 in spec.shape.as_list():
        raise ValueError(
            f"{use.subject}: the dataset yields {name} with an axis of size 0. "
            f"Received: shape {spec.shape}."
        )


def _conversions(arrays: Mapping[str, TensorLike]) -> tuple[str, ...]:
    """Returns the conversions that `narrowing` makes of arrays or specs, in words."""
    dtypes = {name: narrowing.dtype_name(array) for name, array in arrays.items()}
    return tuple(
        f"{name}: {dtype} to {narrowing.NARROWER[dtype]}"
        for name, dtype in dtypes.items()
        if dtype in narrowing.NARROWER
    )


def _check_not_python_iterable(x: object, use: DataUse) -> None:
    """Refuses generators, iterators and sequences of batches: they run Python between steps."""
    if isinstance(x, dict | list | tuple | str) or not (
        isinstance(x, Iterable) or hasattr(x, "__getitem__")
    ):
        return
    hint = ""
    if isinstance(x, Iterator):
        hint = (
            " An iterator cannot start again at the next epoch: pass a function that makes it to "
            "`from_generator`, or the dataset that it iterates over."
        )
    raise ValueError(
        f"{use.subject}: Python generators, iterators and sequences cannot feed the IPU, whose "
        "programs know the shapes of all batches beforehand. Use `tf.data.Dataset.from_generator` "
        f"with an `output_signature` of static shapes.{hint} Received: x of type {type(x)}."
    )
