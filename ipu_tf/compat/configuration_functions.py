"""The functions that configured the system before there was an `IPUConfig`.

`utils.create_ipu_config` returned options, and functions such as `utils.auto_select_ipus` set them.
Here they set the options of an `IPUConfig`, in place.
"""

from __future__ import annotations

import inspect
import json
import logging
from collections.abc import Callable, Mapping
from importlib import resources
from typing import Any

from ipu_tf.config import (
    DeviceConnectionType,
    IPUConfig,
    SchedulingAlgorithm,
    SelectionOrder,
    StochasticRoundingBehaviour,
)

_LOG = logging.getLogger(__name__)

_UNSET = inspect.Parameter.empty

_Argument = tuple[str, Any]
"""The option that an argument sets, "" for none, and the default of the argument."""


def _functions() -> dict[str, Mapping[str, _Argument]]:
    """Returns the arguments of each function that the data file lists."""
    text = resources.files(__package__).joinpath("configuration_functions.json").read_text()
    return {
        function: {
            name: (one.get("option", ""), one.get("default", _UNSET))
            for name, one in arguments.items()
        }
        for function, arguments in json.loads(text).items()
    }


_SETTERS = _functions()
"""The arguments of the functions that set options."""

_CREATION = _SETTERS.pop("create_ipu_config")
"""The arguments of `create_ipu_config`."""

_CONVERSIONS: Mapping[str, Callable[[Any], Any]] = {
    "auto_select_ipus": lambda ipus: list(ipus) if isinstance(ipus, tuple) else ipus,
    "floating_point_behaviour.esr": lambda esr: (
        StochasticRoundingBehaviour.from_bool(esr) if isinstance(esr, bool) else esr
    ),
    "scheduling.algorithm": lambda name: (
        SchedulingAlgorithm[name.upper()] if name else SchedulingAlgorithm.CHOOSE_BEST
    ),
    "selection_order": lambda order: SelectionOrder.AUTO if order is None else order,
    "device_connection.type": lambda kind: DeviceConnectionType.ALWAYS if kind is None else kind,
}
"""Functions that make the value of an option of an argument."""


def _set(
    config: IPUConfig, function: str, arguments: Mapping[str, _Argument], values: Mapping[str, Any]
) -> None:
    """Sets the options of a configuration that the given arguments of a function set."""
    idle_names = [
        name for name in values if not arguments[name][0] and values[name] != arguments[name][1]
    ]
    if idle_names:
        _LOG.warning(
            "utils.%s: %s have no effect. `ipu-tf run --report DIR` writes reports.",
            function,
            ", ".join(f"`{name}`" for name in idle_names),
        )
    for name, value in values.items():
        option = arguments[name][0]
        if not option:
            continue
        convert = _CONVERSIONS.get(option)
        value = value if convert is None else convert(value)
        if value is not None:
            category, _, attribute = option.rpartition(".")
            owner = config
            for part in filter(None, category.split(".")):
                owner = getattr(owner, part)
            setattr(owner, attribute, value)


def _parameters(arguments: Mapping[str, _Argument]) -> list[inspect.Parameter]:
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    return [inspect.Parameter(name, kind, default=one) for name, (_, one) in arguments.items()]


def _bound(
    function: str, signature: inspect.Signature, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> inspect.BoundArguments:
    """Returns the arguments of a call by their names.

    Raises:
        TypeError: They do not fit.
    """
    try:
        return signature.bind(*args, **kwargs)
    except TypeError as error:
        raise TypeError(
            f"utils.{function}: {error}. Its arguments are {[*signature.parameters]}."
        ) from None


def _setter(name: str) -> Callable[..., IPUConfig]:
    """Returns the function of a name in `_SETTERS`."""
    arguments = _SETTERS[name]
    first = inspect.Parameter("opts", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    signature = inspect.Signature([first, *_parameters(arguments)])

    def set_options(*args: Any, **kwargs: Any) -> IPUConfig:
        bound = _bound(name, signature, args, kwargs)
        bound.apply_defaults()
        config: IPUConfig = bound.arguments["opts"]
        if not isinstance(config, IPUConfig):
            raise TypeError(
                f"`utils.{name}` takes the options that `utils.create_ipu_config` returns. "
                f"Received: {config!r}."
            )
        values = {argument: bound.arguments[argument] for argument in arguments}
        _set(config, name, arguments, values)
        return config

    set_options.__name__ = set_options.__qualname__ = name
    set_options.__doc__ = f"Sets options of a configuration, and returns it: {[*arguments]}."
    set_options.__signature__ = signature  # type: ignore[attr-defined]
    return set_options


def create_ipu_config(*args: object, **kwargs: object) -> IPUConfig:
    """Returns a configuration with the given options; those of reports have no effect."""
    signature = inspect.Signature(_parameters(_CREATION))
    bound = _bound("create_ipu_config", signature, args, kwargs)
    config = IPUConfig()
    _set(config, "create_ipu_config", _CREATION, bound.arguments)
    return config


__all__ = ["create_ipu_config", *_SETTERS]
globals().update({name: _setter(name) for name in _SETTERS})
