"""The device configuration of an `IPUConfig`, and the checks that refuse one."""

import math
import re

import numpy as np
import pytest
import tensorflow as tf

from ipu_tf.config import (
    DeviceConfiguration,
    DeviceConnectionType,
    IPUConfig,
    PlannerOptions,
    StochasticRoundingBehaviour,
)
from ipu_tf.config.declaration import option_declarations
from ipu_tf.config.resolve import idle_options, resolve
from ipu_tf.machine import CHIPS, target


def configured(**options):
    """A configuration with options set; their dots are written as double underscores."""
    config = IPUConfig()
    for name, value in options.items():
        category, leaf = config._owner(name.replace("__", "."))
        setattr(category, leaf, value)
    return config


def test_the_defaults():
    assert resolve(IPUConfig()) == DeviceConfiguration(
        target=CHIPS["bow"],
        num_ipus=(1,),
        numerics="tiles",
        out_of_memory="raise",
        unsupported="raise",
        inv=False,
        div0=False,
        oflo=False,
        nanoo=False,
        stochastic_rounding="off",
        matmul=PlannerOptions(partials="float32", available_memory_proportion=0.6),
        conv=PlannerOptions(partials="float32", available_memory_proportion=0.6),
        connection="always",
    )


def test_every_option_that_acts_reaches_the_device():
    config = configured(
        auto_select_ipus=(2, 4),
        simulator__chip="gc2",
        simulator__numerics="native",
        simulator__out_of_memory="warn",
        simulator__unsupported="warn",
        simulator__trace_underflow=True,
        simulator__isolate_custom_ops=True,
        ipu_model__tiles_per_ipu=16,
        floating_point_behaviour__inv=True,
        floating_point_behaviour__oflo=True,
        floating_point_behaviour__esr=StochasticRoundingBehaviour.REPLICA_IDENTICAL_ONLY,
        matmuls__poplar_options={"partialsType": "half", "availableMemoryProportion": "0.3"},
        convolutions__poplar_options={"availableMemoryProportion": 1},
        device_connection__type=DeviceConnectionType.ON_DEMAND,
        io_tiles__num_io_tiles=4,
        optimizations__enable_graph_outlining=False,
        optimizations__cholesky_block_size=32,
        optimizations__triangular_solve_expander_block_size=16,
    )
    device = resolve(config)
    assert device == DeviceConfiguration(
        target=target("gc2", 12),
        num_ipus=(2, 4),
        numerics="native",
        out_of_memory="warn",
        unsupported="warn",
        trace_numerics=True,
        trace_underflow=True,
        isolate_custom_ops=True,
        inv=True,
        oflo=True,
        stochastic_rounding="replica_identical_only",
        matmul=PlannerOptions(partials="float16", available_memory_proportion=0.3),
        conv=PlannerOptions(available_memory_proportion=1.0),
        share_code=False,
        cholesky_block=32,
        triangular_solve_block=16,
        connection="on_demand",
        io_tiles=4,
    )
    assert hash(device) == hash(resolve(config))
    assert (device.target.chip, device.target.tiles) == ("gc2", 12)


def test_set_all_turns_everything_on_and_changes_no_option():
    config = configured(floating_point_behaviour__set_all=True)
    device = resolve(config)
    assert (device.inv, device.div0, device.oflo, device.nanoo) == (True, True, True, True)
    assert device.stochastic_rounding == "on"
    assert config.floating_point_behaviour.inv is False
    assert config.floating_point_behaviour.esr is StochasticRoundingBehaviour.OFF


def test_all_tiles_and_the_same_number_are_one_configuration():
    assert resolve(configured(ipu_model__tiles_per_ipu=1472)) == resolve(IPUConfig())


@pytest.mark.parametrize("name", ["auto_select_ipus", "select_ipus"])
def test_a_number_becomes_a_list_in_place(name):
    config = configured(**{name: 3})
    assert resolve(config).num_ipus == ((3,) if name == "auto_select_ipus" else (1,))
    assert getattr(config, name) == [3]


@pytest.mark.parametrize(
    ("ids", "num_ipus"), [([0, 15], (1, 1)), ((16, 23, 24, 27), (2, 2, 4, 4)), ([29, 30], (8, 16))]
)
def test_ids_stand_for_groups_of_ipus(ids, num_ipus):
    assert resolve(configured(select_ipus=ids)).num_ipus == num_ipus


@pytest.mark.parametrize(
    ("options", "chip"),
    [
        ({}, "bow"),
        ({"simulator__chip": "gc200"}, "gc200"),
        ({"simulator__chip": "c600"}, "c600"),
        ({"simulator__chip": "gc2"}, "gc2"),
        ({"ipu_model__version": "ipu1"}, "gc2"),
        ({"ipu_model__version": "ipu2"}, "bow"),
        ({"ipu_model__version": "ipu21"}, "c600"),
        ({"ipu_model__version": ""}, "bow"),
        ({"device_connection__version": "ipu1"}, "gc2"),
        ({"device_connection__version": "ipu2", "ipu_model__version": "ipu2"}, "bow"),
        ({"simulator__chip": "gc200", "ipu_model__version": "ipu2"}, "gc200"),
        ({"simulator__chip": "gc2", "device_connection__version": "ipu1"}, "gc2"),
    ],
)
def test_the_chip_is_the_one_that_was_asked_for(options, chip):
    config = configured(**options)
    assert resolve(config).chip == chip
    loaded = IPUConfig()
    loaded.from_dict(config.to_dict())
    assert resolve(loaded).chip == chip


@pytest.mark.parametrize(
    "options",
    [
        {"simulator__chip": "bow", "ipu_model__version": "ipu1"},
        {"simulator__chip": "gc2", "ipu_model__version": "ipu2"},
        {"simulator__chip": "bow", "device_connection__version": "ipu21"},
        {"ipu_model__version": "ipu2", "device_connection__version": "ipu1"},
    ],
)
def test_chips_that_contradict_each_other(options):
    received = ", ".join(f"{k.replace('__', '.')}={v!r}" for k, v in options.items())
    message = rf"Options ask for different chips.*Received: {re.escape(received)}\."
    with pytest.raises(ValueError, match=message):
        resolve(configured(**options))


HALF = ["half", "float16", np.float16, np.dtype("float16"), tf.float16]
FLOAT = ["float", "float32", np.float32, np.dtype("float32"), tf.float32]


@pytest.mark.parametrize(
    ("value", "partials"), [(v, "float16") for v in HALF] + [(v, "float32") for v in FLOAT]
)
def test_partials_types(value, partials):
    device = resolve(configured(convolutions__poplar_options={"partialsType": value}))
    assert device.conv.partials == partials
    assert device.matmul.partials == "float32"


@pytest.mark.parametrize("value", ["Half", "", "bfloat16", "float64", 16, None, tf.bfloat16, [1]])
@pytest.mark.parametrize("category", ["matmuls", "convolutions"])
def test_bad_partials_types(category, value):
    config = configured(**{f"{category}__poplar_options": {"partialsType": value}})
    message = (
        f"{category}.poplar_options['partialsType'] must be 'half' (float16) or 'float' (float32). "
        f"Received: {value!r}."
    )
    with pytest.raises(ValueError, match=re.escape(message)):
        resolve(config)


@pytest.mark.parametrize(
    "value", ["0", "0.0", "1.01", -0.1, 2, math.nan, "nan", "much", True, None]
)
@pytest.mark.parametrize("category", ["matmuls", "convolutions"])
def test_bad_memory_proportions(category, value):
    config = configured(**{f"{category}__poplar_options": {"availableMemoryProportion": value}})
    message = (
        f"{category}.poplar_options['availableMemoryProportion'] must be a number above 0 and at "
        f"most 1, as a string or a number. Received: {value!r}."
    )
    with pytest.raises(ValueError, match=re.escape(message)):
        resolve(config)


def test_planner_options_have_names():
    message = r"keys of matmuls\.poplar_options are option names\. Received: 1 of type int"
    with pytest.raises(TypeError, match=message):
        resolve(configured(matmuls__poplar_options={1: "half"}))


def test_what_has_no_effect_is_listed_and_not_compared():
    config = configured(
        serialization_output_folder="executables",
        compilation_poplar_options={"debug.instrument": "true", "autoReport.all": "true"},
        simulator__numerics="native",
        matmuls__poplar_options={"partialsType": "half", "fullyConnectedPass": "TRAINING_FWD"},
    )
    device = resolve(config)
    assert device.without_effect == (
        "serialization_output_folder",
        "compilation_poplar_options['debug.instrument']",
        "matmuls.poplar_options['fullyConnectedPass']",
    )
    config.serialization_output_folder = ""
    assert resolve(config) == device
    config.allow_recompute = True
    assert resolve(config) != device
    assert config.matmuls.poplar_options["fullyConnectedPass"] == "TRAINING_FWD"


OTHERS = {
    "auto_select_ipus": 2,
    "select_ipus": [16],
    "compilation_poplar_options": None,  # Only `autoReport` acts, in reports.
    "convolutions.poplar_options": {"partialsType": "half"},
    "matmuls.poplar_options": {"partialsType": "half"},
    "device_connection.type": DeviceConnectionType.ON_DEMAND,
    "device_connection.version": "ipu21",
    "floating_point_behaviour.esr": StochasticRoundingBehaviour.ON,
    "io_tiles.available_memory_proportion": 0.5,
    "ipu_model.version": "ipu1",
    "simulator.chip": "gc200",
    "simulator.numerics": "native",
    "simulator.out_of_memory": "warn",
    "simulator.unsupported": "warn",
    "simulator.engine": "xla",
}
"""Values beside the default, for options whose type does not give one."""


def another_value(name, default):
    if name in OTHERS:
        return OTHERS[name]
    return not default if isinstance(default, bool) else default + 2


def test_every_option_acts_alone_or_needs_another():
    unset = resolve(IPUConfig())
    for name, declared in option_declarations(IPUConfig):
        if not declared.effect or another_value(name, declared.default) is None:
            continue
        config = configured(**{name.replace(".", "__"): another_value(name, declared.default)})
        assert idle_options(config) == ({name: declared.needs} if declared.needs else {})
        assert (resolve(config) != unset) == (not declared.needs), name


def test_a_list_that_was_changed_in_place_is_checked():
    config = configured(auto_select_ipus=[1])
    config.auto_select_ipus.append(True)
    with pytest.raises(TypeError, match=r"Trying to set auto_select_ipus to \[1, True\]"):
        resolve(config)


GROUP = "norms.experimental.distributed_batch_norm_replica_group_size"
DISTRIBUTION = "experimental.multi_replica_distribution"
NEVER, PRE_COMPILE = DeviceConnectionType.NEVER, DeviceConnectionType.PRE_COMPILE


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"auto_select_ipus": [1024, 1]}, "No system has 1025 bow IPUs. Choose at most"),
        ({"auto_select_ipus": [1, 0]}, "needs at least one IPU. Received: [1, 0]."),
        ({"select_ipus": [3, 3]}, "ids in `select_ipus` must be unique. Received: [3, 3]."),
        ({"select_ipus": 31}, "`select_ipus` takes ids from 0 to 30"),
        ({"select_ipus": -1}, "Use `auto_select_ipus` for larger devices. Received: -1."),
        (
            {"simulator.chip": "gc100"},
            "simulator.chip must be 'gc2' or 'gc200' or 'bow' or 'c600'. Received: 'gc100'.",
        ),
        (
            {"simulator.numerics": "fast"},
            "simulator.numerics must be 'tiles' or 'native'. Received: 'fast'.",
        ),
        (
            {"simulator.out_of_memory": "ignore"},
            "simulator.out_of_memory must be 'raise' or 'warn'. Received: 'ignore'.",
        ),
        (
            {"simulator.unsupported": "skip"},
            "simulator.unsupported must be 'raise' or 'warn'. Received: 'skip'.",
        ),
        (
            {"ipu_model.version": "ipu3"},
            "ipu_model.version must be '' or 'ipu1' or 'ipu2' or 'ipu21'. Received: 'ipu3'.",
        ),
        (
            {"device_connection.version": "mk2"},
            "device_connection.version must be '' or 'ipu1' or 'ipu2' or 'ipu21'.",
        ),
        ({"ipu_model.tiles_per_ipu": -1}, "A bow IPU has 1472 tiles"),
        ({"ipu_model.tiles_per_ipu": 1473}, "A bow IPU has 1472 tiles"),
        (
            {"device_connection.type": NEVER},
            "device_connection.version must be set when device_connection.type is NEVER",
        ),
        (
            {"device_connection.type": PRE_COMPILE},
            "device_connection.version must be set when device_connection.type is PRE_COMPILE",
        ),
        (
            {"optimizations.cholesky_block_size": -1},
            "optimizations.cholesky_block_size must be a number of rows, or 0 for the compiler's "
            "choice. Received: -1.",
        ),
        ({"io_tiles.num_io_tiles": -1}, "an IPU has 1472. Received: -1."),
        (
            {"io_tiles.num_io_tiles": 8, "ipu_model.tiles_per_ipu": 8},
            "io_tiles.num_io_tiles must leave tiles for the computation: an IPU has 8. Received: 8",
        ),
        (
            {"io_tiles.place_ops_on_io_tiles": True},
            "io_tiles.place_ops_on_io_tiles needs I/O tiles",
        ),
        ({GROUP: 0}, f"{GROUP} must be at least 1. Received: 0."),
        (
            {GROUP: 2, "io_tiles.num_io_tiles": 32},
            f"{GROUP} above 1 is not supported with I/O tiles. Received: 2",
        ),
        (
            {f"{DISTRIBUTION}.process_count": -1},
            f"{DISTRIBUTION}.process_count must not be negative. Received: -1.",
        ),
        (
            {f"{DISTRIBUTION}.process_count": 2, f"{DISTRIBUTION}.process_index": 2},
            f"{DISTRIBUTION}.process_index must be at least 0 and below process_count=2.",
        ),
        (
            {f"{DISTRIBUTION}.process_count": 2, f"{DISTRIBUTION}.process_index": -1},
            "Received: -1.",
        ),
    ],
)
def test_values_that_are_refused(options, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        resolve(configured(**options))


def test_both_ways_to_select_ipus():
    message = "Only one of `auto_select_ipus` and `select_ipus` can be set"
    with pytest.raises(Exception, match=message):
        resolve(configured(auto_select_ipus=1, select_ipus=[0]))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"select_ipus": 0}, "The IPU Model has no IPU ids"),
        (
            {f"{DISTRIBUTION}.process_count": 1},
            f"{DISTRIBUTION}.process_count must be 0 on the IPU Model",
        ),
        ({"ipu_model.version": ""}, "ipu_model.version must be set on the IPU Model"),
    ],
)
@pytest.mark.usefixtures("ipu_model")
def test_what_the_ipu_model_refuses(options, message, monkeypatch):
    with pytest.raises(Exception, match=re.escape(message)):
        resolve(configured(**options))
    monkeypatch.delenv("TF_POPLAR_FLAGS")
    resolve(configured(**options))


@pytest.mark.parametrize("kind", [NEVER, PRE_COMPILE])
def test_offline_connections_with_a_version(kind):
    config = configured(device_connection__type=kind, device_connection__version="ipu1")
    assert (resolve(config).connection, resolve(config).chip) == (kind.name.lower(), "gc2")
