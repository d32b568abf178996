"""Targets and systems of one's own as the chip of a configuration."""

import copy
import dataclasses
import json
import pickle
import re

import pytest

from ipu_tf import config
from ipu_tf.config import DeviceConnectionType, IPUConfig
from ipu_tf.config.resolve import resolve
from ipu_tf.machine import CHIPS, SYSTEMS
from tests.sample_machines import ALONE, LARGE, PAIR

MACHINES = {"target": LARGE, "system": PAIR, "system without links": SYSTEMS["c600"]}


def on(machine, **options):
    """A configuration with a machine and other options, dots as double underscores."""
    cfg = IPUConfig()
    cfg.simulator.chip = machine
    for name, value in options.items():
        category, leaf = cfg._owner(name.replace("__", "."))
        setattr(category, leaf, value)
    return cfg


class TestDevice:
    def test_a_target_has_the_links_of_the_chip_whose_name_it_has(self):
        device = resolve(on(LARGE, auto_select_ipus=8))
        assert (device.target, device.system, device.chip) == (LARGE, None, "gc200")
        assert device != resolve(on("gc200", auto_select_ipus=8))

    def test_a_system_is_taken_as_it_is(self):
        device = resolve(on(PAIR, auto_select_ipus=2))
        assert (device.target, device.system, device.chip) == (ALONE, PAIR, "own")
        assert hash(device) == hash(resolve(on(PAIR, auto_select_ipus=2)))

    def test_a_target_that_is_a_chip_is_the_chip(self):
        assert resolve(on(CHIPS["gc200"])) == resolve(on("gc200"))

    def test_some_of_its_tiles_may_be_used(self):
        device = resolve(on(PAIR, ipu_model__tiles_per_ipu=20, io_tiles__num_io_tiles=3))
        assert device.target == dataclasses.replace(ALONE, tiles=17)
        with pytest.raises(ValueError, match=r"A own IPU has 37 tiles.*Received: 38"):
            resolve(on(PAIR, ipu_model__tiles_per_ipu=38))

    def test_a_new_name_alone_is_refused(self):
        with pytest.raises(ValueError, match=r"No known system has 'own'.*Give a System in place"):
            resolve(on(ALONE))

    def test_a_system_that_is_too_small(self):
        with pytest.raises(ValueError, match=r"No system has 3 own IPUs.*own pair \(2\)"):
            resolve(on(PAIR, auto_select_ipus=[1, 2]))


class TestGenerations:
    @pytest.mark.parametrize("name", ["ipu_model.version", "device_connection.version"])
    def test_they_say_nothing_about_a_new_name(self, name):
        for generation in ("ipu1", "ipu2"):
            device = resolve(on(PAIR, **{name.replace(".", "__"): generation}))
            assert device.system == PAIR

    def test_they_count_for_the_name_of_a_chip(self):
        assert resolve(on(LARGE, ipu_model__version="ipu2")).target == LARGE
        message = "Received: simulator.chip='gc200', ipu_model.version='ipu1'."
        with pytest.raises(ValueError, match=re.escape(message)):
            resolve(on(LARGE, ipu_model__version="ipu1"))

    def test_offline_connections_need_one_all_the_same(self):
        never = {"device_connection__type": DeviceConnectionType.NEVER}
        with pytest.raises(ValueError, match=r"device_connection\.version must be set"):
            resolve(on(PAIR, **never))
        assert resolve(on(PAIR, device_connection__version="ipu2", **never)).target == ALONE


@pytest.mark.parametrize("machine", MACHINES.values(), ids=MACHINES)
class TestSaving:
    def test_json_round_trip(self, machine):
        saved = on(machine)
        loaded = IPUConfig()
        loaded.from_json(saved.to_json())
        assert loaded.simulator.chip == machine
        assert type(loaded.simulator.chip) is type(machine)
        assert loaded.is_assigned("simulator.chip")
        assert resolve(loaded) == resolve(saved)

    def test_it_is_written_field_by_field(self, machine):
        written = json.loads(on(machine).to_json())["simulator.chip"]
        assert written["type"] == type(machine).__name__
        fields = {entry.name for entry in dataclasses.fields(machine)}
        assert written.keys() == {"type", *fields}

    def test_a_dictionary_may_hold_the_machine_itself(self, machine):
        loaded = IPUConfig()
        loaded.simulator.from_dict({"simulator.chip": machine, "simulator.numerics": "native"})
        assert loaded.simulator.chip == machine

    def test_clones(self, machine):
        cfg = on(machine)
        for clone in (copy.deepcopy(cfg), pickle.loads(pickle.dumps(cfg))):
            assert clone.simulator.chip == machine
            assert clone.to_dict() == cfg.to_dict()
        assert f"simulator.chip={machine!r}" in repr(cfg)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"type": "Chip"}, """expected an object with "type" 'Target' or 'System'. Received"""),
        ({"tiles": None}, "simulator.chip.tiles: expected int. Received: None."),
        ({"tiles": 0}, "simulator.chip: Target.tiles must be positive. Received: 0."),
        ({"clock_hz": float("nan")}, "Target.clock_hz must be positive. Received: nan."),
        ({"colour": "red"}, "simulator.chip: Target has no field colour."),
        ({"exchange": {"nearest_cycles": -1}}, "ExchangeTiming.nearest_cycles must be zero or"),
    ],
)
def test_what_describes_no_machine_is_refused(change, message):
    values = on(LARGE).to_dict()
    values["simulator.chip"] |= change
    loaded = IPUConfig()
    with pytest.raises(ValueError, match=re.escape(message)):
        loaded.from_json(json.dumps(values))
    assert loaded.simulator.chip == "bow"


def test_a_missing_field_is_named():
    values = on(LARGE).to_dict()
    del values["simulator.chip"]["tile_bytes"]
    with pytest.raises(ValueError, match=r"simulator\.chip: Target lacks tile_bytes\."):
        IPUConfig().from_dict(values)


def test_another_target_of_the_same_name_is_another_configuration():
    seen = []
    unregister = config.on_reset(lambda: seen.append(config.device_configuration().target))
    other = dataclasses.replace(LARGE, tile_bytes=LARGE.tile_bytes - 1024)
    try:
        for machine in (LARGE, dataclasses.replace(LARGE), other):
            on(machine).configure_ipu_system()
    finally:
        unregister()
    assert seen == [LARGE, other]
    assert config.get_ipu_config()[0].simulator.chip == other
