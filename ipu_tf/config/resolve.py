"""Resolves an `IPUConfig` to a `DeviceConfiguration`, with the checks that involve values."""

from __future__ import annotations

import os
from collections.abc import Mapping
from enum import Enum
from typing import Any, cast

from ipu_tf.config.category import option_value, option_values
from ipu_tf.config.declaration import attribute_table, option_declarations
from ipu_tf.config.device import DeviceConfiguration
from ipu_tf.config.enums import DeviceConnectionType
from ipu_tf.config.flags import running_on_ipu_model
from ipu_tf.config.option_tree import OptionTree
from ipu_tf.config.poplar_options import keys_without_effect, planner_options
from ipu_tf.machine.system import System, system_of
from ipu_tf.machine.target import CHIPS, Target, target

TRACE_VARIABLE = "IPU_TF_TRACE_NUMERICS"
"""The environment variable that turns `simulator.trace_numerics` on whatever a script configures;
`ipu-tf run --trace-numerics` sets it, so that processes of the script have it, too."""

# The chips of a generation; the first is the one that its name selects.
GENERATIONS = {"ipu1": ("gc2",), "ipu2": ("bow", "gc200"), "ipu21": ("c600",)}

# Ids of `select_ipus`: the IPUs of a 16-IPU system, then its groups of 2, 4, 8 and 16.
_SYSTEM_IPUS = 16


def resolve(config: OptionTree) -> DeviceConfiguration:
    """Returns the device configuration of a configuration.

    A plain number in `auto_select_ipus` or `select_ipus` becomes a list of one, in place.

    Raises:
        Exception: `auto_select_ipus` and `select_ipus` are both set, or an option is set that
            the software model of an IPU does not have.
        TypeError: `config` is no `IPUConfig`, or a list or dictionary was filled with values of the
            wrong type.
        ValueError: An option has an invalid value, options contradict each other, or no system of
            the chip has that many IPUs.
    """
    if not isinstance(config, OptionTree):
        raise TypeError(
            "`config` must be an IPUConfig instance. Make one and set its options, or fill it with "
            f"`from_dict`. Received: {config!r} of type {type(config).__name__}."
        )
    _check_types(config)
    on_model = running_on_ipu_model()
    num_ipus = _num_ipus(config, on_model)
    machine = _machine(config, on_model)
    chip = target(system_of(machine, sum(num_ipus)).target, config.ipu_model.tiles_per_ipu)
    _check_connection(config)
    _check_io_tiles(config, chip.tiles)
    _check_distribution(config, on_model)
    floating_point = config.floating_point_behaviour
    set_all = floating_point.set_all
    return DeviceConfiguration(
        target=target(chip, chip.tiles - config.io_tiles.num_io_tiles),
        system=machine if isinstance(machine, System) else None,
        num_ipus=num_ipus,
        numerics=_choice(config, "simulator.numerics", "tiles", "native"),
        out_of_memory=_choice(config, "simulator.out_of_memory", "raise", "warn"),
        unsupported=_choice(config, "simulator.unsupported", "raise", "warn"),
        engine=_choice(config, "simulator.engine", "auto", "graph", "xla"),
        inv=set_all or floating_point.inv,
        div0=set_all or floating_point.div0,
        oflo=set_all or floating_point.oflo,
        nanoo=set_all or floating_point.nanoo,
        stochastic_rounding="on" if set_all else _word(floating_point.esr),
        matmul=planner_options(config.matmuls.poplar_options, "matmuls.poplar_options"),
        conv=planner_options(config.convolutions.poplar_options, "convolutions.poplar_options"),
        share_code=config.optimizations.enable_graph_outlining,
        cholesky_block=_block(config, "optimizations.cholesky_block_size"),
        triangular_solve_block=_block(config, "optimizations.triangular_solve_expander_block_size"),
        batch_norm_replica_group_size=(
            config.norms.experimental.distributed_batch_norm_replica_group_size
        ),
        connection=_word(config.device_connection.type),
        io_tiles=config.io_tiles.num_io_tiles,
        io_tile_share=_io_tile_share(config),
        allow_recompute=config.allow_recompute,
        trace_numerics=config.simulator.trace_numerics
        or config.simulator.trace_underflow
        or TRACE_VARIABLE in os.environ,
        trace_underflow=config.simulator.trace_underflow,
        isolate_custom_ops=config.simulator.isolate_custom_ops,
        without_effect=_without_effect(config),
    )


def _word(member: Enum) -> Any:
    """Returns the name of an enum member as `DeviceConfiguration` spells it."""
    return member.name.lower()


def _check_types(config: OptionTree) -> None:
    """Checks again, because lists and dictionaries may have been changed in place."""
    for name, value in option_values(config):
        attribute_table(OptionTree)[name].check_type(value)


def _choice(config: OptionTree, name: str, *choices: str) -> Any:
    value = option_value(config, name)
    if value not in choices:
        raise ValueError(f"{name} must be {' or '.join(map(repr, choices))}. Received: {value!r}.")
    return value


def _block(config: OptionTree, name: str) -> int:
    size = cast(int, option_value(config, name))
    if size < 0:
        raise ValueError(
            f"{name} must be a number of rows, or 0 for the compiler's choice. Received: {size}."
        )
    return size


def _num_ipus(config: OptionTree, on_model: bool) -> tuple[int, ...]:
    """Returns the number of IPUs of each device; one device of one IPU when none is selected."""
    if isinstance(config.auto_select_ipus, int):
        config.auto_select_ipus = [config.auto_select_ipus]
    if isinstance(config.select_ipus, int):
        config.select_ipus = [config.select_ipus]
    counts, ids = config.auto_select_ipus, config.select_ipus
    if counts and ids:
        raise Exception(
            "Only one of `auto_select_ipus` and `select_ipus` can be set. "
            f"Received: auto_select_ipus={counts!r}, select_ipus={ids!r}."
        )
    if len(set(ids)) != len(ids):
        raise ValueError(f"The ids in `select_ipus` must be unique. Received: {ids!r}.")
    if ids and on_model:
        raise Exception(
            "The IPU Model has no IPU ids: select its IPUs with `auto_select_ipus`, not with "
            f"`select_ipus`. Received: select_ipus={ids!r}."
        )
    if any(count < 1 for count in counts):
        raise ValueError(
            f"Every device in `auto_select_ipus` needs at least one IPU. Received: {counts!r}."
        )
    return tuple(counts) or tuple(map(_ipus_of_id, ids)) or (1,)


def _ipus_of_id(ipu_id: int) -> int:
    """Returns the number of IPUs that an id of `select_ipus` stands for."""
    first, group = 0, 1
    while group <= _SYSTEM_IPUS:
        if first <= ipu_id < first + _SYSTEM_IPUS // group:
            return group
        first, group = first + _SYSTEM_IPUS // group, 2 * group
    raise ValueError(
        f"`select_ipus` takes ids from 0 to {first - 1}: the simulated system has "
        f"{_SYSTEM_IPUS} IPUs, and groups of 2, 4, 8 and 16. Use `auto_select_ipus` for larger "
        f"devices. Received: {ipu_id!r}."
    )


def _machine(config: OptionTree, on_model: bool) -> str | Target | System:
    """Returns the machine that all set options agree on.

    A generation says nothing about a chip with a name of its own.
    """
    version = config.ipu_model.version
    if on_model and not version:
        raise ValueError("ipu_model.version must be set on the IPU Model. Received: ''.")
    machine = config.simulator.chip
    if isinstance(machine, str):
        chip = _choice(config, "simulator.chip", *CHIPS)
    else:
        chip = machine.target.chip if isinstance(machine, System) else machine.chip
    requests: dict[str, tuple[str, tuple[str, ...]]] = {}
    if config.is_assigned("simulator.chip"):
        requests["simulator.chip"] = (chip, (chip,))
    for name in ("ipu_model.version", "device_connection.version"):
        generation = _choice(config, name, "", *GENERATIONS)
        if generation and config.is_assigned(name) and chip in CHIPS:
            requests[name] = (generation, GENERATIONS[generation])
    agreed = [
        candidate
        for candidate in (chip, *CHIPS)
        if all(candidate in chips for _, chips in requests.values())
    ]
    if not agreed:
        settings = ", ".join(f"{name}={value!r}" for name, (value, _) in requests.items())
        raise ValueError(
            "Options ask for different chips. ipu1 is gc2, ipu2 is bow or gc200, ipu21 is c600: "
            f"make them agree or set only one of them. Received: {settings}."
        )
    return machine if agreed[0] == chip else agreed[0]


def _check_connection(config: OptionTree) -> None:
    kind = config.device_connection.type
    offline = (DeviceConnectionType.NEVER, DeviceConnectionType.PRE_COMPILE)
    if kind in offline and not config.device_connection.version:
        raise ValueError(
            f"device_connection.version must be set when device_connection.type is {kind.name}, "
            'because there is no device to ask: "ipu1", "ipu2" or "ipu21". Received: \'\'.'
        )


def _check_io_tiles(config: OptionTree, tiles: int) -> None:
    io_tiles = config.io_tiles.num_io_tiles
    group = config.norms.experimental.distributed_batch_norm_replica_group_size
    if not 0 <= io_tiles < tiles:
        raise ValueError(
            f"io_tiles.num_io_tiles must leave tiles for the computation: an IPU has {tiles}. "
            f"Received: {io_tiles}."
        )
    if config.io_tiles.place_ops_on_io_tiles and io_tiles == 0:
        raise ValueError(
            "io_tiles.place_ops_on_io_tiles needs I/O tiles: set io_tiles.num_io_tiles above 0. "
            "Received: io_tiles.num_io_tiles=0."
        )
    name = "norms.experimental.distributed_batch_norm_replica_group_size"
    if group < 1:
        raise ValueError(f"{name} must be at least 1. Received: {group}.")
    share = config.io_tiles.available_memory_proportion
    if not 0 <= share <= 1:
        raise ValueError(
            f"io_tiles.available_memory_proportion must be a share from 0 to 1. Received: {share}."
        )
    if group > 1 and io_tiles > 0:
        raise ValueError(
            f"{name} above 1 is not supported with I/O tiles. Received: {group}, with "
            f"io_tiles.num_io_tiles={io_tiles}."
        )


def _io_tile_share(config: OptionTree) -> float:
    """Returns the share of the memory of I/O tiles that may hold data, the default without any."""
    name = "io_tiles.available_memory_proportion"
    without = cast(float, attribute_table(OptionTree)[name].default)
    return config.io_tiles.available_memory_proportion if config.io_tiles.num_io_tiles else without


def _check_distribution(config: OptionTree, on_model: bool) -> None:
    name = "experimental.multi_replica_distribution"
    distribution = config.experimental.multi_replica_distribution
    index, count = distribution.process_index, distribution.process_count
    if count < 0:
        raise ValueError(f"{name}.process_count must not be negative. Received: {count}.")
    if count > 0 and on_model:
        raise Exception(
            f"{name}.process_count must be 0 on the IPU Model: it runs in one process. "
            f"Received: {count}."
        )
    if count > 0 and not 0 <= index < count:
        raise ValueError(
            f"{name}.process_index must be at least 0 and below process_count={count}. "
            f"Received: {index}."
        )


def idle_options(config: OptionTree) -> Mapping[str, str]:
    """Returns the options that differ from their defaults and do nothing alone, with the option
    that each of them needs."""
    table = attribute_table(OptionTree)

    def is_set(name: str) -> bool:
        return bool(option_value(config, name) != table[name].default)

    return {
        name: option.needs
        for name, option in option_declarations(OptionTree)
        if option.needs and is_set(name) and not is_set(option.needs)
    }


def _without_effect(config: OptionTree) -> tuple[str, ...]:
    """Returns the options that differ from their defaults and do nothing here."""
    table = attribute_table(OptionTree)
    idle = {name for name, option in option_declarations(OptionTree) if not option.effect}
    names = [name for name, value in option_values(config) if name in idle]
    non_defaults = [name for name in names if option_value(config, name) != table[name].default]
    keys = [
        entry
        for path in (
            "compilation_poplar_options",
            "matmuls.poplar_options",
            "convolutions.poplar_options",
        )
        for entry in keys_without_effect(
            cast(Mapping[str, object], option_value(config, path)), path
        )
    ]
    return (*non_defaults, *keys)
