"""Installing a configuration, replacing it and dropping it."""

import dataclasses
import logging
import sys
import threading

import pytest
import tensorflow as tf

from ipu_tf import config
from ipu_tf.config import IPUConfig
from ipu_tf.machine import target


@pytest.fixture
def resets():
    """The device configurations that were in place whenever a reset was announced."""
    seen = []
    unregister = config.on_reset(lambda: seen.append(config.device_configuration()))
    yield seen
    unregister()


def on_chip(chip):
    options = IPUConfig()
    options.simulator.chip = chip
    return options


def test_without_a_configuration_there_is_one_bow():
    device = config.device_configuration()
    assert (device.chip, device.num_ipus) == ("bow", (1,))
    with pytest.raises(RuntimeError, match=r"No IPU devices configured\. Call"):
        config.get_ipu_config()


def test_installing(resets):
    options = on_chip("gc200")
    options.auto_select_ipus = [1, 2]
    options.configure_ipu_system()
    assert config.device_configuration().chip == "gc200"
    assert [device.chip for device in resets] == ["gc200"]
    installed = config.get_ipu_config()
    assert [c.simulator.chip for c in installed] == ["gc200", "gc200"]


def test_an_installed_configuration_is_a_copy():
    options = on_chip("gc200")
    config.configure_ipu_system(options, device="/device:CPU:0")
    options.simulator.chip = "gc2"
    config.get_ipu_config()[0].simulator.chip = "c600"
    assert config.device_configuration().chip == "gc200"
    assert config.get_ipu_config()[0].simulator.chip == "gc200"


def test_installing_an_equal_configuration_changes_nothing(resets, caplog):
    on_chip("gc200").configure_ipu_system()
    before = config.device_configuration()
    caplog.clear()
    on_chip("gc200").configure_ipu_system()
    assert config.device_configuration() is before
    assert len(resets) == 1
    assert caplog.records == []


@pytest.mark.parametrize("name", ["simulator.chip", "allow_recompute"])
def test_replacing_a_configuration_warns_and_announces_it(resets, caplog, name):
    on_chip("gc200").configure_ipu_system()
    other = on_chip("gc200")
    if name == "simulator.chip":
        other.simulator.chip = "gc2"
    else:
        other.allow_recompute = True
    other.configure_ipu_system()
    warnings = [r.getMessage() for r in caplog.records if r.levelno == logging.WARNING]
    assert len(warnings) == 1
    assert warnings[0].startswith("Resetting existing IPU configuration")
    assert len(resets) == 2
    assert resets[1].chip == other.simulator.chip


def test_replacing_can_be_forbidden(resets):
    on_chip("gc200").configure_ipu_system()
    config.configure_ipu_system(on_chip("gc200"), reset_configuration=False)
    with pytest.raises(RuntimeError, match="another configuration is already configured"):
        config.configure_ipu_system(on_chip("gc2"), reset_configuration=False)
    with pytest.raises(tf.errors.FailedPreconditionError, match="reset_configuration at True"):
        config.configure_ipu_system(on_chip("gc2"), reset_configuration=False)
    assert config.device_configuration().chip == "gc200"
    assert len(resets) == 1


def test_replacing_is_forbidden_without_tensorflow(resets, monkeypatch):
    monkeypatch.delitem(sys.modules, "tensorflow")
    on_chip("gc200").configure_ipu_system()
    with pytest.raises(RuntimeError, match="already configured") as error:
        config.configure_ipu_system(on_chip("gc2"), reset_configuration=False)
    assert type(error.value) is RuntimeError


def test_a_borrowed_device_is_there_in_its_context_alone(resets):
    on_chip("gc200").configure_ipu_system()
    borrowed = dataclasses.replace(config.device_configuration(), target=target("gc2", 4))
    elsewhere = []
    with config.borrowed_device(borrowed):
        assert config.device_configuration() is borrowed
        assert config.get_ipu_config()[0].simulator.chip == "gc200"
        thread = threading.Thread(target=lambda: elsewhere.append(config.device_configuration()))
        thread.start()
        thread.join()
    assert elsewhere[0].chip == config.device_configuration().chip == "gc200"
    assert len(resets) == 1


def test_an_invalid_configuration_leaves_the_old_one(resets):
    on_chip("gc200").configure_ipu_system()
    with pytest.raises(ValueError, match=r"simulator\.chip must be"):
        on_chip("gc9").configure_ipu_system()
    assert config.device_configuration().chip == "gc200"
    assert len(resets) == 1


def test_resetting_goes_back_to_the_default(resets):
    config.reset_ipu_configuration()
    assert resets == []
    on_chip("gc200").configure_ipu_system()
    config.reset_ipu_configuration()
    assert [device.chip for device in resets] == ["gc200", "bow"]
    with pytest.raises(RuntimeError, match=r"No IPU devices configured\."):
        config.get_ipu_config()


def test_callbacks_can_be_taken_back():
    calls = []
    unregister = config.on_reset(lambda: calls.append(1))
    on_chip("gc200").configure_ipu_system()
    unregister()
    unregister()
    config.reset_ipu_configuration()
    assert calls == [1]


@pytest.mark.parametrize("wrong", [None, {}, "config", IPUConfig])
def test_only_configurations_are_installed(wrong):
    with pytest.raises(TypeError, match="`config` must be an IPUConfig instance"):
        config.configure_ipu_system(wrong)


def test_sessions_are_refused():
    with pytest.raises(AssertionError, match="takes no session in eager execution"):
        config.get_ipu_config(session="session")


def test_options_without_effect_are_logged(caplog):
    caplog.set_level(logging.INFO, logger="ipu_tf")
    options = IPUConfig()
    options.serialization_output_folder = "executables"
    options.convolutions.poplar_options = {"use128BitConvUnitLoad": "true"}
    options.configure_ipu_system()
    assert "without effect on the simulated IPU: serialization_output_folder, " in caplog.text
    assert "convolutions.poplar_options['use128BitConvUnitLoad']" in caplog.text


def test_an_option_that_does_nothing_alone_is_logged(caplog):
    options = IPUConfig()
    options.io_tiles.available_memory_proportion = 0.5
    options.configure_ipu_system()
    assert caplog.messages == [
        "io_tiles.available_memory_proportion does nothing without io_tiles.num_io_tiles: set "
        "both, or neither."
    ]
    caplog.clear()
    options.io_tiles.num_io_tiles = 32
    options.configure_ipu_system()
    assert "does nothing" not in caplog.text


def test_unknown_flags_are_logged(caplog, monkeypatch):
    monkeypatch.setenv("TF_POPLAR_FLAGS", "--use_ipu_model --dump_everything=1")
    IPUConfig().configure_ipu_system()
    assert "Unknown flags in TF_POPLAR_FLAGS are ignored: --dump_everything=1." in caplog.text


def test_a_bad_flag_stops_the_installation(monkeypatch):
    monkeypatch.setenv("TF_POPLAR_FLAGS", "--log_cycle_count=many")
    with pytest.raises(ValueError, match="The flag --log_cycle_count of TF_POPLAR_FLAGS takes"):
        IPUConfig().configure_ipu_system()


def test_threads_see_whole_configurations():
    small, large = on_chip("gc2"), on_chip("gc200")
    small.ipu_model.tiles_per_ipu = 4
    large.ipu_model.tiles_per_ipu = 8
    small.configure_ipu_system()
    seen = set()
    done = threading.Event()

    def watch():
        while not done.is_set():
            device = config.device_configuration()
            seen.add((device.chip, device.tiles_per_ipu))

    thread = threading.Thread(target=watch)
    thread.start()
    for _ in range(20):
        large.configure_ipu_system()
        small.configure_ipu_system()
    done.set()
    thread.join()
    assert seen <= {("gc2", 4), ("gc200", 8)}
