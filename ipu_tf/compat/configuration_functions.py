"""The functions that configured the system before there was an `IPUConfig`.

`utils.create_ipu_config` returned options, and functions such as `utils.auto_select_ipus` set them.
Here they set the options of an `IPUConfig`, in place.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable, Mapping
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
_TRANSFERS = "optimizations.maximum_"

_Argument = tuple[str, Any]
"""The option that an argument sets, "" for none, and the default of the argument."""


def _select(option: str) -> _Argument:
    return option, _UNSET


_CREATION: Mapping[str, _Argument] = {
    "profiling": ("", False),
    "enable_ipu_events": ("", False),
    "use_poplar_text_report": ("", False),
    "use_poplar_cbor_report": ("", False),
    "profile_execution": ("", None),
    "enable_poplar_serialized_graph": ("", False),
    "report_every_nth_execution": ("", 0),
    "max_report_size": ("", 0x10000000),
    "report_directory": ("", ""),
    "scheduler_selection": ("scheduling.algorithm", ""),
    "always_rearrange_copies_on_the_host": (
        "experimental.always_rearrange_copies_on_the_host",
        False,
    ),
    "merge_infeed_io_copies": ("optimizations.merge_infeed_io_copies", False),
    "disable_graph_convolution_caching": ("", False),
    "disable_graph_outlining": ("", False),
    "retain_control_dependencies": ("", False),
    "max_cross_replica_sum_buffer_size": (f"{_TRANSFERS}cross_replica_sum_buffer_size", 0),
    "max_reduce_scatter_buffer_size": (f"{_TRANSFERS}reduce_scatter_buffer_size", 0),
    "max_inter_ipu_copies_buffer_size": (f"{_TRANSFERS}inter_ipu_copies_buffer_size", 0),
    "max_send_recv_cluster_size": (f"{_TRANSFERS}send_recv_cluster_size", 0),
    "minimum_remote_tensor_size": ("optimizations.minimum_remote_tensor_size", 128),
    "max_scheduler_lookahead_depth": ("scheduling.maximum_scheduler_lookahead_depth", 5),
    "max_scheduler_search_space_size": ("scheduling.maximum_scheduler_search_space_size", 64),
    "prefetch_data_streams": ("optimizations.prefetch_data_streams", True),
    "selection_order": ("selection_order", None),
    "enable_experimental_remote_buffer_embedding": (
        "experimental.enable_remote_buffer_embedding",
        False,
    ),
}
"""The arguments of `create_ipu_config`."""

_SETTERS: Mapping[str, Mapping[str, _Argument]] = {
    "auto_select_ipus": {"num_ipus": _select("auto_select_ipus")},
    "select_ipus": {"indices": _select("select_ipus")},
    "set_compilation_options": {"compilation_options": ("compilation_poplar_options", None)},
    "set_convolution_options": {"convolution_options": ("convolutions.poplar_options", None)},
    "set_floating_point_behaviour_options": {
        name: (f"floating_point_behaviour.{name}", True)
        for name in ("inv", "div0", "oflo", "esr", "nanoo")
    },
    "set_gcl_options": {"gcl_options": ("gcl_poplar_options", None)},
    "set_io_tile_options": {
        "num_io_tiles": _select("io_tiles.num_io_tiles"),
        "place_ops_on_io_tiles": ("io_tiles.place_ops_on_io_tiles", None),
        "io_tile_available_memory_proportion": ("io_tiles.available_memory_proportion", None),
    },
    "set_ipu_connection_type": {
        "connection_type": ("device_connection.type", None),
        "ipu_version": ("device_connection.version", None),
        "enable_remote_buffers": ("device_connection.enable_remote_buffers", False),
    },
    "set_ipu_model_options": {
        "compile_ipu_code": ("ipu_model.compile_ipu_code", True),
        "tiles_per_ipu": ("ipu_model.tiles_per_ipu", None),
        "ipu_model_version": ("ipu_model.version", "ipu2"),
    },
    "set_matmul_options": {
        "matmul_options": ("matmuls.poplar_options", None),
        "clear_pass_type": ("matmuls.clear_pass_type", False),
    },
    "set_norm_options": {"use_stable_statistics": ("norms.use_stable_statistics", False)},
    "set_optimization_options": {
        "combine_embedding_lookups": ("optimizations.combine_embedding_lookups", False),
        "combine_matmuls": ("optimizations.combine_matmuls", False),
        "max_cross_replica_sum_buffer_size": (f"{_TRANSFERS}cross_replica_sum_buffer_size", 0),
        "max_reduce_scatter_buffer_size": (f"{_TRANSFERS}reduce_scatter_buffer_size", 0),
        "max_inter_ipu_copies_buffer_size": (f"{_TRANSFERS}inter_ipu_copies_buffer_size", 0),
        "max_send_recv_cluster_size": (f"{_TRANSFERS}send_recv_cluster_size", 0),
        "minimum_remote_tensor_size": ("optimizations.minimum_remote_tensor_size", 128),
        "gather_simplifier": ("optimizations.enable_gather_simplifier", False),
        "enable_fast_math": ("optimizations.math.fast", False),
    },
    "set_pooling_options": {"pooling_options": ("pooling.poplar_options", None)},
    "set_recomputation_options": {
        "allow_recompute": ("allow_recompute", True),
        "allow_stateful_recompute": ("", None),
    },
    "set_report_options": {
        "report_options": ("", None),
        "graph_options": ("", None),
        "execution_options": ("", None),
    },
    "set_serialization_options": {"output_folder": ("serialization_output_folder", "")},
    "set_transfer_options": {"use_verified_transfers": ("", False)},
}
"""The arguments of the functions that set options."""

_CONVERTED: Mapping[str, Callable[[Any], Any]] = {
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
    config: IPUConfig, function: str, arguments: Mapping[str, _Argument], given: Mapping[str, Any]
) -> None:
    """Sets the options of a configuration that the given arguments of a function set."""
    unused = [
        name for name in given if not arguments[name][0] and given[name] != arguments[name][1]
    ]
    if unused:
        _LOG.warning(
            "utils.%s: %s have no effect. `ipu-tf run --report DIR` writes reports.",
            function,
            ", ".join(f"`{name}`" for name in unused),
        )
    for name, value in given.items():
        option = arguments[name][0]
        if not option:
            continue
        convert = _CONVERTED.get(option)
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
        given = {argument: bound.arguments[argument] for argument in arguments}
        _set(config, name, arguments, given)
        return config

    set_options.__name__ = set_options.__qualname__ = name
    set_options.__doc__ = f"Sets options of a configuration, and returns it: {[*arguments]}."
    set_options.__signature__ = signature  # type: ignore[attr-defined]
    return set_options


def create_ipu_config(*args: Any, **kwargs: Any) -> IPUConfig:
    """Returns a configuration with the given options; those of reports have no effect."""
    signature = inspect.Signature(_parameters(_CREATION))
    bound = _bound("create_ipu_config", signature, args, kwargs)
    config = IPUConfig()
    _set(config, "create_ipu_config", _CREATION, bound.arguments)
    return config


__all__ = ["create_ipu_config", *_SETTERS]
globals().update({name: _setter(name) for name in _SETTERS})
