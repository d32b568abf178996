"""The options of `IPUConfig`: names, defaults, types, and what can be done with the tree."""

import copy
import pickle
import re
import traceback

import pytest

from ipu_tf.config import (
    DeviceConnectionType,
    IPUConfig,
    MergeRemoteBuffersBehaviour,
    SchedulingAlgorithm,
    SelectionOrder,
    StochasticRoundingBehaviour,
    UnknownOptionError,
)
from ipu_tf.config.declaration import option_declarations

# Name: (type, default). Scripts rely on these.
OPTIONS = {
    "allow_recompute": ("bool", False),
    "selection_order": ("SelectionOrder", SelectionOrder.AUTO),
    "serialization_output_folder": ("str", ""),
    "compilation_poplar_options": ("dict", {}),
    "gcl_poplar_options": ("dict", {}),
    "auto_select_ipus": ("int | list[int] | tuple[int, ...]", []),
    "select_ipus": ("int | list[int] | tuple[int, ...]", []),
    "convolutions.poplar_options": ("dict", {}),
    "device_connection.type": ("DeviceConnectionType", DeviceConnectionType.ALWAYS),
    "device_connection.version": ("str", ""),
    "device_connection.enable_remote_buffers": ("bool", False),
    "slices.poplar_options": ("dict", {}),
    "experimental.always_rearrange_copies_on_the_host": ("bool", False),
    "experimental.enable_remote_buffer_embedding": ("bool", False),
    "experimental.enable_prng_stability": ("bool", False),
    "experimental.multi_replica_distribution.process_index": ("int", 0),
    "experimental.multi_replica_distribution.process_count": ("int", 0),
    "floating_point_behaviour.inv": ("bool", False),
    "floating_point_behaviour.div0": ("bool", False),
    "floating_point_behaviour.oflo": ("bool", False),
    "floating_point_behaviour.esr": (
        "StochasticRoundingBehaviour",
        StochasticRoundingBehaviour.OFF,
    ),
    "floating_point_behaviour.nanoo": ("bool", False),
    "floating_point_behaviour.set_all": ("bool", False),
    "io_tiles.num_io_tiles": ("int", 0),
    "io_tiles.place_ops_on_io_tiles": ("bool", False),
    "io_tiles.available_memory_proportion": ("float", 0.9),
    "ipu_model.compile_ipu_code": ("bool", True),
    "ipu_model.tiles_per_ipu": ("int", 0),
    "ipu_model.version": ("str", "ipu2"),
    "matmuls.clear_pass_type": ("bool", False),
    "matmuls.poplar_options": ("dict", {}),
    "norms.use_stable_statistics": ("bool", False),
    "norms.experimental.distributed_batch_norm_replica_group_size": ("int", 1),
    "optimizations.math.fast": ("bool", False),
    "optimizations.math.dot_strength": ("bool", True),
    "optimizations.prefetch_data_streams": ("bool", True),
    "optimizations.combine_embedding_lookups": ("bool", False),
    "optimizations.combine_matmuls": ("bool", False),
    "optimizations.enable_graph_outlining": ("bool", True),
    "optimizations.merge_infeed_io_copies": ("bool", True),
    "optimizations.maximum_cross_replica_sum_buffer_size": ("int", 0),
    "optimizations.maximum_reduce_scatter_buffer_size": ("int", 0),
    "optimizations.maximum_inter_ipu_copies_buffer_size": ("int", 0),
    "optimizations.maximum_send_recv_cluster_size": ("int", 0),
    "optimizations.maximum_reduce_many_buffer_size": ("int", 0),
    "optimizations.maximum_all_gather_buffer_size": ("int", 0),
    "optimizations.minimum_remote_tensor_size": ("int", 128),
    "optimizations.merge_remote_buffers": (
        "MergeRemoteBuffersBehaviour",
        MergeRemoteBuffersBehaviour.IF_BENEFICIAL,
    ),
    "optimizations.enable_gather_simplifier": ("bool", True),
    "optimizations.triangular_solve_expander_block_size": ("int", 0),
    "optimizations.cholesky_block_size": ("int", 0),
    "optimizations.enable_fast_math": ("bool", False),
    "optimizations.enable_dynamic_slice_replacement": ("bool", True),
    "pooling.poplar_options": ("dict", {}),
    "scheduling.algorithm": ("SchedulingAlgorithm", SchedulingAlgorithm.CHOOSE_BEST),
    "scheduling.maximum_scheduler_lookahead_depth": ("int", 5),
    "scheduling.maximum_scheduler_search_space_size": ("int", 64),
    "simulator.chip": ("str | Target | System", "bow"),
    "simulator.engine": ("str", "auto"),
    "simulator.isolate_custom_ops": ("bool", False),
    "simulator.numerics": ("str", "tiles"),
    "simulator.out_of_memory": ("str", "raise"),
    "simulator.trace_numerics": ("bool", False),
    "simulator.trace_underflow": ("bool", False),
    "simulator.unsupported": ("str", "raise"),
}


def test_options_have_their_names_types_and_defaults():
    config = IPUConfig()
    metadata = {name: config.get_attribute_metadata(name) for name in dict(config._option_values())}
    assert {name: (m.type, m.default) for name, m in metadata.items()} == OPTIONS
    assert dict(config._option_values()) == {
        name: default for name, (_, default) in OPTIONS.items()
    }


def test_every_option_is_described():
    assert [name for name, option in option_declarations(IPUConfig) if not option.doc] == []


def test_values_are_those_of_one_instance():
    one, other = IPUConfig(), IPUConfig()
    one.matmuls.poplar_options["partialsType"] = "half"
    one.auto_select_ipus.append(2)
    assert other.matmuls.poplar_options == {}
    assert other.auto_select_ipus == []
    assert one.get_attribute_metadata("auto_select_ipus").default == []


@pytest.mark.parametrize(
    ("wanted", "meant"),
    [
        ("auto_select_ipu", "auto_select_ipus"),
        ("inv", "floating_point_behaviour.inv"),
        ("floating_point_behavior", "floating_point_behaviour"),
        ("num_io_tiles", "io_tiles.num_io_tiles"),
    ],
)
def test_an_unknown_option_suggests_the_closest(wanted, meant):
    config = IPUConfig()
    message = f"'{wanted}' is not a valid attribute of this config. Did you mean '{meant}'?"
    with pytest.raises(ValueError, match=re.escape(message)):
        getattr(config, wanted)
    with pytest.raises(ValueError, match=re.escape(message)):
        setattr(config, wanted, 1)


def test_an_unknown_option_of_a_category_suggests_the_full_name():
    with pytest.raises(ValueError, match=r"Did you mean 'floating_point_behaviour\.nanoo'\?"):
        IPUConfig().floating_point_behaviour.nano = True


def test_a_traceback_suggests_once():
    with pytest.raises(UnknownOptionError) as caught:
        _ = IPUConfig().matmuls.poplar_option
    text = "".join(traceback.format_exception(caught.value))
    assert text.count("Did you mean") == 1


def test_nothing_is_suggested_for_a_name_like_no_other():
    with pytest.raises(ValueError, match=r"'zzz' is not a valid attribute of this config\.$"):
        IPUConfig().zzz = 1


def test_unknown_options_keep_pythons_protocols():
    config = IPUConfig()
    assert not hasattr(config, "profiling")
    assert getattr(config.matmuls, "profiling", 7) == 7
    with pytest.raises(UnknownOptionError):
        _ = config.profiling


@pytest.mark.parametrize("name", ["_private", "_root", "_table", "__dict__"])
def test_state_cannot_be_assigned(name):
    with pytest.raises(ValueError, match=f"'{name}' is not a valid attribute of this config"):
        setattr(IPUConfig(), name, {})


def test_a_category_cannot_be_assigned():
    config = IPUConfig()
    message = "optimizations.math is a category and cannot be assigned to"
    with pytest.raises(Exception, match=message):
        config.optimizations.math = 3
    assert config.optimizations.math.fast is False


def test_an_option_cannot_be_deleted():
    config = IPUConfig()
    with pytest.raises(AttributeError, match=r"matmuls\.poplar_options cannot be deleted"):
        del config.matmuls.poplar_options
    assert config.matmuls.poplar_options == {}


@pytest.mark.parametrize("clone", [copy.deepcopy, lambda c: pickle.loads(pickle.dumps(c))])
def test_a_clone_is_equal_and_apart(clone):
    config = IPUConfig()
    config.auto_select_ipus = [2, 2]
    config.simulator.chip = "gc200"
    config.matmuls.poplar_options = {"partialsType": "half"}
    other = clone(config)
    assert other.to_dict() == config.to_dict()
    assert other.is_assigned("simulator.chip")
    other.matmuls.poplar_options["partialsType"] = "float"
    other.simulator.chip = "bow"
    assert config.matmuls.poplar_options == {"partialsType": "half"}
    assert config.simulator.chip == "gc200"


def test_str_lists_every_option_and_repr_the_changed_ones():
    config = IPUConfig()
    config.auto_select_ipus = 4
    config.optimizations.math.fast = True
    lines = str(config).splitlines()
    assert len(lines) == len(OPTIONS)
    assert "optimizations.math.fast = True" in lines
    assert "ipu_model.version = 'ipu2'" in lines
    assert repr(config) == "IPUConfig(auto_select_ipus=4, optimizations.math.fast=True)"
    assert str(config.optimizations.math).splitlines() == [
        "optimizations.math.fast = True",
        "optimizations.math.dot_strength = True",
    ]
