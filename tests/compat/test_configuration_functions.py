"""Scripts written before there was an `IPUConfig` configure the system by functions."""

import logging

import pytest

from ipu_tf import compat
from ipu_tf.config import (
    DeviceConnectionType,
    IPUConfig,
    SchedulingAlgorithm,
    SelectionOrder,
    StochasticRoundingBehaviour,
    device_configuration,
    reset_ipu_configuration,
)


@pytest.fixture
def utils():
    compat.install(keras=3)
    from tensorflow.python import ipu

    yield ipu.utils
    compat.uninstall()
    reset_ipu_configuration()


def test_a_script_configures_its_ipus(utils):
    options = utils.create_ipu_config()
    options = utils.auto_select_ipus(options, 4)
    utils.configure_ipu_system(options)
    assert device_configuration().num_ipus == (4,)


def test_options_are_set_in_place_too(utils):
    options = utils.create_ipu_config()
    assert utils.auto_select_ipus(options, num_ipus=[2, 1]) is options
    assert options.auto_select_ipus == [2, 1]


def changed(config):
    """The options of a configuration that are not the default."""
    default = IPUConfig().to_dict()
    return {name: value for name, value in config.to_dict().items() if value != default[name]}


@pytest.mark.parametrize(
    ("name", "arguments", "options"),
    [
        ("select_ipus", {"indices": [3, 5]}, {"select_ipus": [3, 5]}),
        (
            "set_compilation_options",
            {"compilation_options": {"target.deterministicWorkers": "true"}},
            {"compilation_poplar_options": {"target.deterministicWorkers": "true"}},
        ),
        (
            "set_convolution_options",
            {"convolution_options": {"partialsType": "half"}},
            {"convolutions.poplar_options": {"partialsType": "half"}},
        ),
        (
            "set_matmul_options",
            {"matmul_options": {"partialsType": "half"}, "clear_pass_type": True},
            {"matmuls.poplar_options": {"partialsType": "half"}, "matmuls.clear_pass_type": True},
        ),
        (
            "set_floating_point_behaviour_options",
            {"div0": False, "nanoo": False},
            {
                "floating_point_behaviour.inv": True,
                "floating_point_behaviour.oflo": True,
                "floating_point_behaviour.esr": StochasticRoundingBehaviour.ON.value,
            },
        ),
        ("set_recomputation_options", {}, {"allow_recompute": True}),
        (
            "set_io_tile_options",
            {"num_io_tiles": 32, "place_ops_on_io_tiles": True},
            {"io_tiles.num_io_tiles": 32, "io_tiles.place_ops_on_io_tiles": True},
        ),
        (
            "set_ipu_connection_type",
            {"connection_type": DeviceConnectionType.ON_DEMAND, "enable_remote_buffers": True},
            {
                "device_connection.type": DeviceConnectionType.ON_DEMAND.value,
                "device_connection.enable_remote_buffers": True,
            },
        ),
        ("set_ipu_model_options", {"tiles_per_ipu": 8}, {"ipu_model.tiles_per_ipu": 8}),
        (
            "set_norm_options",
            {"use_stable_statistics": True},
            {"norms.use_stable_statistics": True},
        ),
        ("set_serialization_options", {"output_folder": "f"}, {"serialization_output_folder": "f"}),
    ],
)
def test_a_function_sets_its_options(utils, name, arguments, options):
    assert changed(getattr(utils, name)(utils.create_ipu_config(), **arguments)) == options


def test_creation_sets_the_given_options_only(utils, caplog):
    assert changed(utils.create_ipu_config()) == {}
    options = utils.create_ipu_config(
        scheduler_selection="CLUSTERING",
        selection_order=SelectionOrder.HOOF,
        max_cross_replica_sum_buffer_size=1024,
    )
    assert changed(options) == {
        "scheduling.algorithm": SchedulingAlgorithm.CLUSTERING.value,
        "selection_order": SelectionOrder.HOOF.value,
        "optimizations.maximum_cross_replica_sum_buffer_size": 1024,
    }
    assert not caplog.records


def test_options_of_reports_have_no_effect_and_say_so(utils, caplog):
    caplog.set_level(logging.WARNING)
    assert changed(utils.create_ipu_config(profiling=True, report_directory="r")) == {}
    assert [record.getMessage() for record in caplog.records] == [
        "utils.create_ipu_config: `profiling`, `report_directory` have no effect. "
        "`ipu-tf run --report DIR` writes reports."
    ]


def test_a_function_refuses_what_is_no_configuration(utils):
    with pytest.raises(TypeError, match=r"`utils.auto_select_ipus` takes the options that"):
        utils.auto_select_ipus(2, 1)
    with pytest.raises(TypeError, match=r"utils.auto_select_ipus: missing .*'num_ipus'"):
        utils.auto_select_ipus(utils.create_ipu_config(), ipus=1)


def test_every_setter_sets_options_that_exist(utils):
    from ipu_tf.compat import configuration_functions

    known = set(IPUConfig().to_dict())
    tables = [configuration_functions._CREATION, *configuration_functions._SETTERS.values()]
    named = {option for table in tables for option, _ in table.values() if option}
    assert named <= known, named - known
