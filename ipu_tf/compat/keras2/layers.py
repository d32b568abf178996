"""Arguments of layers as Keras 2 took them."""

from __future__ import annotations

import functools
import inspect
import operator
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import keras
import tensorflow as tf

from ipu_tf.compat.keras2 import patches
from ipu_tf.compat.spellings.spelling import Call, Notify, Spelling
from ipu_tf.internals.keras_layers import allow_positional_arguments, new_without_config
from ipu_tf.internals.patches import Patch, Wrap

_OPERATION_CREATION = Patch(keras.Operation, "__new__", "initializers of layers may be decorated")
_WEIGHT_CREATION = Patch(keras.Layer, "add_weight", "its arguments may come in Keras 2's order")
_VARIABLE_CREATION = Patch(keras.Layer, "add_variable", "it takes the arguments of `add_weight`")
_METRIC_VARIABLES = Patch(keras.Metric, "add_weight", "its name may come first")
_POOLING_ARGUMENTS = tuple(
    Patch(owner, "__init__", "the size of the pools has a default")
    for owner in (
        keras.layers.AveragePooling1D,
        keras.layers.AveragePooling2D,
        keras.layers.AveragePooling3D,
    )
)
_ENCODING_ARGUMENTS = Patch(
    keras.layers.CategoryEncoding, "__init__", "its arguments have their names of Keras 2"
)
_DISCRETIZATION_ARGUMENTS = Patch(
    keras.layers.Discretization, "__init__", "its arguments have their names of Keras 2"
)
_NORM_BUILDS = Patch(
    keras.layers.LayerNormalization, "build", "the axes are counted from the first"
)
_RNN_ARGUMENTS = Patch(keras.layers.RNN, "__init__", "cells may tell their sizes as shapes")

_LAYER_ARGUMENTS = ("trainable", "name", "dtype", "dynamic")
_WEIGHT_ARGUMENTS = (
    "name",
    "shape",
    "dtype",
    "initializer",
    "regularizer",
    "trainable",
    "constraint",
)
_METRIC_ARGUMENTS = ("name", "shape", "aggregation", "synchronization", "initializer", "dtype")

_WITHOUT_EFFECT: Mapping[str, tuple[Any, ...]] = MappingProxyType(
    {
        "dynamic": (False, None),
        "fused": (True, False, None),
        "virtual_batch_size": (None,),
        "adjustment": (None,),
        "time_major": (False,),
        "input_dtype": (None, "float32", tf.float32),
        "batch_size": (None,),
    }
)
"""Arguments of layers that Keras 3 lacks, and the values that asked for nothing it does not do."""

_CALL_DEFAULTS: Mapping[str, Any] = MappingProxyType({"training": False, "mask": None})
"""Arguments of `call` that Keras 2 gave to layers that were called without them."""

_CELL_SIZES = ("state_size", "output_size")
_AUTOCAST = "experimental_autocast"

_OF_GRAPHS = (
    "use_resource",
    "synchronization",
    "aggregation",
    "partitioner",
    "collections",
    "caching_device",
    "getter",
)
"""Arguments of `add_weight` that only spoke of where TensorFlow 1 or a cluster keeps a variable."""


def _positional(call: Call, names: Sequence[str]) -> None:
    """Gives the positional arguments of a call their names.

    Raises:
        TypeError: There are more arguments than names, or an argument is given twice.
    """
    if len(call.args) > len(names) or set(names[: len(call.args)]) & set(call.kwargs):
        raise TypeError(
            f"`{type(call.owner).__name__}` got the positional arguments {call.args} beside "
            f"{sorted(call.kwargs)}. The positions of Keras 2 are {', '.join(names)}: give the "
            "arguments by name."
        )
    call.kwargs |= dict(zip(names, call.args, strict=False))
    call.args = ()


def _positional_layer_arguments(call: Call) -> bool:
    """Names the positional arguments of `super().__init__`; the layer itself is no argument."""
    if not call.args:
        return False
    if call.args[0] is call.owner:
        call.args = call.args[1:]
    _positional(call, _LAYER_ARGUMENTS)
    return True


def _without_effect(call: Call) -> bool:
    """Removes arguments of Keras 2 where they ask for what Keras 3 does anyway."""
    found = [
        name
        for name, values in _WITHOUT_EFFECT.items()
        if name in call.kwargs and any(call.kwargs[name] == value for value in values)
    ]
    for name in found:
        del call.kwargs[name]
    return bool(found)


def _weight_arguments(call: Call) -> bool:
    """Brings the arguments of `add_weight` into the order and the types of Keras 3."""
    is_renamed = _AUTOCAST in call.kwargs
    if is_renamed:
        call.kwargs["autocast"] = call.kwargs.pop(_AUTOCAST)
    names_first = bool(call.args) and (call.args[0] is None or isinstance(call.args[0], str))
    dropped = [name for name in _OF_GRAPHS if name in call.kwargs]
    if isinstance(call.kwargs.get("aggregation"), str):
        dropped.remove("aggregation")  # Keras 3's own.
    if not (names_first or dropped or _has_keras_2_values(call.kwargs)):
        return is_renamed
    if names_first:
        _positional(call, _WEIGHT_ARGUMENTS)
    _convert_weight_arguments(call.kwargs, dropped)
    return True


def _variable_arguments(call: Call) -> bool:
    """Does the same for `add_variable`, which Keras 3 gives no default initializer."""
    is_keras_2 = _weight_arguments(call)
    if call.args or "initializer" in call.kwargs:
        return is_keras_2
    call.kwargs["initializer"] = None
    return True


def _has_keras_2_values(kwargs: Mapping[str, Any]) -> bool:
    return (
        isinstance(kwargs.get("shape"), int)
        or "/" in (kwargs.get("name") or "")
        or ("trainable" in kwargs and kwargs["trainable"] is None)
    )


def _convert_weight_arguments(kwargs: dict[str, Any], dropped: Sequence[str]) -> None:
    for name in dropped:
        del kwargs[name]
    if isinstance(kwargs.get("shape"), int):
        kwargs["shape"] = (kwargs["shape"],)
    if kwargs.get("trainable", True) is None:
        del kwargs["trainable"]
    if kwargs.get("name"):
        kwargs["name"] = kwargs["name"].replace("/", "_")


def _metric_arguments(call: Call) -> bool:
    """Brings the arguments of a metric's `add_weight` into the order of Keras 3."""
    if not call.args or not isinstance(call.args[0], str):
        return False
    _positional(call, _METRIC_ARGUMENTS)
    for name in _OF_GRAPHS:
        call.kwargs.pop(name, None)
    call.kwargs.setdefault("shape", ())
    return True


def _pool_size(call: Call) -> bool:
    """Gives a pool its default size, 2 along each axis."""
    is_missing = not call.args and "pool_size" not in call.kwargs
    if is_missing:
        call.kwargs["pool_size"] = 2
    return is_missing


def _bin_boundaries(call: Call) -> bool:
    """Reads `bins` as `bin_boundaries`."""
    is_keras_2 = "bins" in call.kwargs
    if is_keras_2:
        call.kwargs["bin_boundaries"] = call.kwargs.pop("bins")
    return is_keras_2


def _encoding_arguments(call: Call) -> bool:
    """Gives the arguments of `CategoryEncoding` their names in Keras 3."""
    modes = {"binary": "multi_hot"}
    is_keras_2 = "max_tokens" in call.kwargs or call.kwargs.get("output_mode") in modes
    if "max_tokens" in call.kwargs:
        call.kwargs["num_tokens"] = call.kwargs.pop("max_tokens")
    if is_keras_2 and "output_mode" in call.kwargs:
        mode = call.kwargs["output_mode"]
        call.kwargs["output_mode"] = modes.get(mode, mode)
    return is_keras_2


def _setting_weights(notify: Notify, stock: Callable[..., None]) -> Callable[..., None]:
    """Returns an initializer of layers that sets `weights` once the layer is built."""

    def init(layer: keras.Layer, /, *args: Any, **kwargs: Any) -> None:
        weights = kwargs.pop("weights", None)
        stock(layer, *args, **kwargs)
        if weights is not None:
            notify()
            layer.build = _build_with(layer, weights)

    return init


def _optional_call_arguments(notify: Notify, stock: Callable[..., None]) -> Callable[..., None]:
    """Returns an initializer of layers whose `call` may have `training` or `mask` without default.

    Keras 2 gave them; Keras 3 takes them for inputs.
    """

    def init(layer: keras.Layer, /, *args: Any, **kwargs: Any) -> None:
        is_of_script = not type(layer).__module__.startswith(("keras.", "ipu_tf."))
        if is_of_script:
            parameters = list(inspect.signature(layer.call).parameters.values())[1:]
            given = [p for p in parameters if p.name in _CALL_DEFAULTS]
            missing = _that_may_be_left_out(parameters)
            if missing:
                notify()
            if given:
                # Before the initializer of Keras runs: it reads the signature.
                vars(layer)["call"] = _call_with_defaults(layer.call, missing)
        stock(layer, *args, **kwargs)
        if is_of_script or isinstance(layer, keras.layers.Lambda):
            allow_positional_arguments(layer)

    return init


def _that_may_be_left_out(parameters: Sequence[inspect.Parameter]) -> list[str]:
    """Returns the arguments with a default of Keras 2 alone; none follows them that lacks one."""
    found: list[str] = []
    for parameter in reversed(parameters):
        is_positional = parameter.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD
        if parameter.default is not inspect.Parameter.empty:
            continue
        if parameter.name in _CALL_DEFAULTS:
            found.append(parameter.name)
        elif is_positional:
            break
    return found


def _call_with_defaults(call: Callable[..., Any], names: Sequence[str]) -> Callable[..., Any]:
    """Returns a `call` whose arguments of these names have defaults."""
    signature = inspect.signature(call)
    parameters = {
        name: parameter.replace(default=_CALL_DEFAULTS[name]) if name in names else parameter
        for name, parameter in signature.parameters.items()
    }
    optional = signature.replace(parameters=list(parameters.values()))

    @functools.wraps(call)
    def call_with_defaults(*args: Any, **kwargs: Any) -> Any:
        # Keras 3 gives by name what it finds at a position, too.
        by_position = list(parameters)[: len(args)]
        by_name = {name: value for name, value in kwargs.items() if name not in by_position}
        bound = optional.bind(*args, **by_name)
        bound.apply_defaults()
        return call(*bound.args, **bound.kwargs)

    call_with_defaults.__signature__ = optional  # type: ignore[attr-defined]
    return call_with_defaults


def _decorated_initializers(notify: Notify) -> Wrap:
    """Returns the factory of `__new__`, which reads the arguments of the initializer.

    It fails where the signature of a decorated initializer is that of the function inside.
    """

    def wrap(stock: Callable[..., Any]) -> Callable[..., Any]:
        def new(kind: Any, /, *args: Any, **kwargs: Any) -> Any:
            if not _states_another_signature(kind.__init__):
                return stock(kind, *args, **kwargs)
            notify()
            return new_without_config(kind)

        return new

    return wrap


def _states_another_signature(initializer: Callable[..., None]) -> bool:
    """Returns whether the signature of a function is that of one that it wraps."""
    own = inspect.getfullargspec(initializer)
    stated = inspect.signature(initializer).parameters
    names = [*own.args, *filter(None, (own.varargs, own.varkw))]
    return any(name not in stated for name in names)


def _build_with(layer: keras.Layer, weights: Sequence[Any]) -> Callable[..., None]:
    build = layer.build

    @functools.wraps(build)
    def build_and_set(*args: Any, **kwargs: Any) -> None:
        build(*args, **kwargs)
        layer.set_weights(weights)

    return build_and_set


def _axes_from_first(notify: Notify) -> Wrap:
    """Returns the factory of the `build` of layer norms, which counts axes from the first."""
    del notify  # The axes are the same.

    def wrap(stock: Callable[..., None]) -> Callable[..., None]:
        def build(norm: keras.layers.LayerNormalization, input_shape: Any) -> None:
            stock(norm, input_shape)
            norm.axis = [axis % len(input_shape) for axis in norm.axis]

        return build

    return wrap


def _sizes_of_cells(call: Call) -> bool:
    """Makes the sizes of a recurrent cell numbers where they are shapes of one dimension."""
    cell = call.kwargs.get("cell", call.args[0] if call.args else None)
    found = False
    for name in _CELL_SIZES:
        value = getattr(cell, name, None)
        number = _as_numbers(value)
        if number is not value:
            setattr(cell, name, number)
            found = True
    return found


def _as_numbers(sizes: Any) -> Any:
    """Returns a size, or sizes, with shapes of one dimension as numbers; itself without any."""
    if isinstance(sizes, tf.TensorShape):
        return sizes[0] if sizes.rank == 1 else sizes
    if not isinstance(sizes, list | tuple):
        return sizes
    numbers = [_as_numbers(size) for size in sizes]
    return sizes if all(map(operator.is_, numbers, sizes)) else numbers


SPELLINGS = (
    Spelling(
        name="`super().__init__(self)`, positional arguments of `Layer.__init__`",
        keras_2="The positions were `trainable, name, dtype, dynamic`; the layer itself, given "
        "once too often, was read as `trainable=True`.",
        here="The arguments get their names; the layer itself is left out.",
        rewrites=MappingProxyType({patches.LAYER_ARGUMENTS: _positional_layer_arguments}),
    ),
    Spelling(
        name="`fused=`, `virtual_batch_size=None`, `time_major=False`, `dynamic=False` of a layer",
        keras_2="They chose between implementations.",
        here="They are left out: Keras 3 has one implementation. Other values are refused.",
        rewrites=MappingProxyType({patches.LAYER_ARGUMENTS: _without_effect}),
    ),
    Spelling(
        name="`weights=` of a layer",
        keras_2="The layer had these weights once it was built.",
        here="The weights are set when the layer is built.",
        wraps=MappingProxyType(
            {
                patches.LAYER_ARGUMENTS: lambda notify: functools.partial(_setting_weights, notify),
            }
        ),
    ),
    Spelling(
        name='`add_weight("name", shape)`, `add_variable("name", shape)`',
        keras_2="The positions were `name, shape, dtype, initializer, regularizer, trainable, "
        "constraint`; further arguments placed the variable in a cluster.",
        here="The arguments get their names; those that place the variable are left out, and a `/` "
        "in the name becomes `_`.",
        rewrites=MappingProxyType(
            {
                _WEIGHT_CREATION: _weight_arguments,
                _VARIABLE_CREATION: _variable_arguments,
                _METRIC_VARIABLES: _metric_arguments,
            }
        ),
    ),
    Spelling(
        name="`call(self, x, training)` without a default, `layer(x, True, mask)`",
        keras_2="A layer that was called without it had `training=False`, or that of the layer "
        "around it; any argument could be given by its position.",
        here="It is so; Keras 3 alone takes arguments at positions for inputs.",
        wraps=MappingProxyType(
            {
                patches.LAYER_ARGUMENTS: lambda notify: functools.partial(
                    _optional_call_arguments, notify
                ),
            }
        ),
    ),
    Spelling(
        name="`LayerNormalization().axis` of a built layer",
        keras_2="A list of axes, counted from the first one.",
        here="It is that list.",
        wraps=MappingProxyType({_NORM_BUILDS: _axes_from_first}),
    ),
    Spelling(
        name="a decorator around `Layer.__init__`",
        keras_2="It was a function like any other.",
        here="It is; the layer is saved by its own `get_config`, as in Keras 2. Keras 3 alone "
        "fails where the decorator has `functools.wraps`.",
        wraps=MappingProxyType({_OPERATION_CREATION: _decorated_initializers}),
    ),
    Spelling(
        name="`AveragePooling2D()` without a size",
        keras_2="The size of the pools was 2 along each axis.",
        here="The size is 2 along each axis.",
        rewrites=MappingProxyType(dict.fromkeys(_POOLING_ARGUMENTS, _pool_size)),
    ),
    Spelling(
        name='`CategoryEncoding(max_tokens=, output_mode="binary")`, `Discretization(bins=)`',
        keras_2="The number of classes, and a vector of zeros and ones; the ends of the bins.",
        here='They are read as `num_tokens=`, `output_mode="multi_hot"` and `bin_boundaries=`.',
        rewrites=MappingProxyType(
            {
                _ENCODING_ARGUMENTS: _encoding_arguments,
                _DISCRETIZATION_ARGUMENTS: _bin_boundaries,
            }
        ),
    ),
    Spelling(
        name="`cell.state_size = tf.TensorShape(8)`, `cell.output_size = tf.TensorShape(8)`",
        keras_2="The sizes of a recurrent cell, as shapes of one dimension.",
        here="They become numbers. Keras 3 has no states of several dimensions in an `RNN`.",
        rewrites=MappingProxyType({_RNN_ARGUMENTS: _sizes_of_cells}),
    ),
)
