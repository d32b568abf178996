"""Strict types on assignment, and saving and loading of options."""

import json
import re

import numpy as np
import pytest
import tensorflow as tf

from ipu_tf.config import (
    DeviceConnectionType,
    IPUConfig,
    SelectionOrder,
    StochasticRoundingBehaviour,
)
from ipu_tf.config.resolve import resolve
from ipu_tf.machine import Target
from ipu_tf.machine.link_timing import POD_LINKS


@pytest.mark.parametrize(
    ("name", "value", "kind"),
    [
        ("allow_recompute", 1, "bool"),
        ("scheduling.maximum_scheduler_lookahead_depth", True, "int"),
        ("scheduling.maximum_scheduler_lookahead_depth", 2.0, "int"),
        ("io_tiles.available_memory_proportion", 1, "float"),
        ("simulator.chip", b"bow", "str | Target | System"),
        ("simulator.chip", Target, "str | Target | System"),
        ("simulator.chip", POD_LINKS, "str | Target | System"),
        ("matmuls.poplar_options", [("partialsType", "half")], "dict"),
        ("selection_order", 1, "SelectionOrder"),
        ("auto_select_ipus", True, "int | list[int] | tuple[int, ...]"),
        ("auto_select_ipus", [1, True], "int | list[int] | tuple[int, ...]"),
        ("auto_select_ipus", (1, "2"), "int | list[int] | tuple[int, ...]"),
        ("auto_select_ipus", {1}, "int | list[int] | tuple[int, ...]"),
        ("auto_select_ipus", None, "int | list[int] | tuple[int, ...]"),
    ],
)
def test_a_value_of_another_type_is_refused(name, value, kind):
    config = IPUConfig()
    category, leaf = config._owner(name)
    before = config.to_dict()
    message = f"Trying to set {name} to {value!r}, but it must be of type {kind}."
    with pytest.raises(TypeError, match=re.escape(message)):
        setattr(category, leaf, value)
    assert config.to_dict() == before
    assert not config.is_assigned(name)


def test_stochastic_rounding_from_a_bool_says_how():
    config = IPUConfig()
    with pytest.raises(TypeError, match=r"Use StochasticRoundingBehaviour\.from_bool"):
        config.floating_point_behaviour.esr = True
    config.floating_point_behaviour.esr = StochasticRoundingBehaviour.from_bool(True)
    assert config.floating_point_behaviour.esr is StochasticRoundingBehaviour.ON
    assert StochasticRoundingBehaviour.from_bool(False) is StochasticRoundingBehaviour.OFF


def test_from_bool_takes_only_bools():
    with pytest.raises(TypeError, match=r"takes True or False\. Received: 1 of type int"):
        StochasticRoundingBehaviour.from_bool(1)


@pytest.mark.parametrize("value", [3, [1, 2], (4,), [], ()])
def test_ipus_are_a_number_a_list_or_a_tuple(value):
    config = IPUConfig()
    config.auto_select_ipus = value
    assert config.auto_select_ipus == value


def changed_config():
    config = IPUConfig()
    config.auto_select_ipus = [1, 2]
    config.selection_order = SelectionOrder.HOOF
    config.device_connection.type = DeviceConnectionType.ON_DEMAND
    config.floating_point_behaviour.esr = StochasticRoundingBehaviour.ON
    config.matmuls.poplar_options = {"availableMemoryProportion": "0.3"}
    config.io_tiles.available_memory_proportion = 0.5
    return config


def test_to_dict_writes_enums_as_numbers_and_copies():
    config = changed_config()
    values = config.to_dict()
    assert values["selection_order"] == 3
    assert values["device_connection.type"] == 1
    values["matmuls.poplar_options"]["partialsType"] = "half"
    assert config.matmuls.poplar_options == {"availableMemoryProportion": "0.3"}
    json.dumps(values)


def test_a_category_writes_and_reads_its_own_part():
    config = changed_config()
    values = config.floating_point_behaviour.to_dict()
    assert values["floating_point_behaviour.esr"] == 1
    assert all(name.startswith("floating_point_behaviour.") for name in values)
    other = IPUConfig()
    other.floating_point_behaviour.from_dict(values)
    assert other.floating_point_behaviour.esr is StochasticRoundingBehaviour.ON


def test_dict_and_json_round_trips():
    config = changed_config()
    from_dict, from_json = IPUConfig(), IPUConfig()
    from_dict.from_dict(config.to_dict())
    from_json.from_json(config.to_json())
    assert from_dict.to_dict() == from_json.to_dict() == config.to_dict()
    assert from_json.selection_order is SelectionOrder.HOOF
    # Options at their defaults count as not set.
    assert from_json.is_assigned("selection_order")
    assert not from_json.is_assigned("simulator.chip")


def test_a_missing_key_keeps_its_value_and_warns(caplog):
    config = changed_config()
    values = config.to_dict()
    del values["selection_order"]
    config.from_dict(values)
    assert config.selection_order is SelectionOrder.HOOF
    assert [r.levelname for r in caplog.records] == ["WARNING"]
    assert "selection_order is missing from the given options" in caplog.text


@pytest.mark.parametrize(
    ("name", "value", "error", "message"),
    [
        ("selection_ordr", 1, ValueError, "Did you mean 'selection_order'?"),
        (
            "selection_order",
            9,
            ValueError,
            "selection_order must be one of 0 (AUTO), 1 (ZIGZAG), 2 (SNAKE), 3 (HOOF). Received: 9",
        ),
        ("simulator.chip", 3, TypeError, "Trying to set simulator.chip to 3"),
    ],
)
def test_from_dict_changes_nothing_on_an_error(name, value, error, message):
    config = changed_config()
    before = config.to_dict()
    with pytest.raises(error, match=re.escape(message)):
        config.from_dict({"allow_recompute": True, name: value})
    assert config.to_dict() == before


def test_from_dict_copies_what_it_takes():
    options = {"partialsType": "half"}
    config = IPUConfig()
    config.matmuls.from_dict({"matmuls.poplar_options": options, "matmuls.clear_pass_type": True})
    options["partialsType"] = "float"
    assert config.matmuls.poplar_options == {"partialsType": "half"}


@pytest.mark.parametrize("dtype", [tf.float16, np.float16, np.dtype("float16")])
def test_data_types_in_poplars_options_are_saved_by_their_names(dtype):
    config, loaded = IPUConfig(), IPUConfig()
    config.matmuls.poplar_options["partialsType"] = dtype
    config.convolutions.poplar_options = {"partialsType": tf.float32, "other": "kept"}
    loaded.from_json(config.to_json())
    assert loaded.matmuls.poplar_options == {"partialsType": "float16"}
    assert loaded.convolutions.poplar_options == {"partialsType": "float32", "other": "kept"}
    assert resolve(loaded) == resolve(config)
    assert resolve(loaded).matmul.partials == "float16"
    assert config.matmuls.poplar_options["partialsType"] is dtype


def test_what_json_does_not_have_is_named():
    config = IPUConfig()
    config.slices.poplar_options["planner"] = object()
    message = r"^slices\.poplar_options cannot be written as JSON.*Received: \{'planner': <object"
    with pytest.raises(TypeError, match=message):
        config.to_json()
