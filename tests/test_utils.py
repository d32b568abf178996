"""Utilities beside the configuration."""

import re

import numpy as np
import pytest

from ipu_tf import config, utils
from ipu_tf.ops.kernels import library


@pytest.fixture(autouse=True)
def clean_system(monkeypatch):
    monkeypatch.delenv("TF_POPLAR_FLAGS", raising=False)
    config.reset_ipu_configuration()
    yield
    config.reset_ipu_configuration()


@pytest.fixture
def seeds(monkeypatch):
    """The seeds that reach the tile ops."""
    seen = []
    monkeypatch.setattr(library, "reset_seed", lambda *given: seen.append(given))
    return seen


def two_devices():
    options = utils.IPUConfig()
    options.auto_select_ipus = [2, 4]
    options.configure_ipu_system()


def test_the_names_of_the_configuration_are_here_too():
    names = [name for name in utils.__all__ if hasattr(config, name)]
    assert len(names) == 12
    assert all(getattr(utils, name) is getattr(config, name) for name in names)


@pytest.mark.parametrize("name", ["/device:IPU:1", "IPU:1", "/job:localhost/device:IPU:1"])
def test_ipus_of_a_device(name):
    two_devices()
    assert utils.get_num_of_ipus_in_device(name) == 4
    assert utils.get_num_of_ipus_in_device("/device:IPU:0", device="cpu") == 2


@pytest.mark.parametrize("name", ["/device:IPU:2", "/device:CPU:0", "", "IPU:-1", 1])
def test_ipus_of_no_device(name):
    two_devices()
    message = f"are /device:IPU:0 to /device:IPU:1. Received: {name!r}."
    with pytest.raises(ValueError, match=re.escape(message)):
        utils.get_num_of_ipus_in_device(name)


@pytest.mark.parametrize("seed", [0, 7, -1, 2**64 - 1, np.int32(7), np.uint64(9)])
def test_a_seed_reaches_the_tile_ops(seed, seeds):
    utils.reset_ipu_seed(seed, experimental_identical_replicas=True)
    assert seeds == [(int(seed), True)]
    assert type(seeds[0][0]) is int


@pytest.mark.parametrize("seed", [True, 1.0, "1", None])
def test_a_seed_is_a_whole_number(seed, seeds):
    with pytest.raises(TypeError, match="The seed must be a whole number"):
        utils.reset_ipu_seed(seed)
    assert seeds == []


@pytest.mark.parametrize("seed", [2**64, -(2**63) - 1])
def test_a_seed_has_64_bits(seed, seeds):
    with pytest.raises(ValueError, match=f"The seed must fit into 64 bits. Received: {seed}"):
        utils.reset_ipu_seed(seed)
    assert seeds == []


def test_a_seed_is_for_an_existing_device(seeds):
    with pytest.raises(ValueError, match=r"Received: '/device:IPU:1'\."):
        utils.reset_ipu_seed(1, device="/device:IPU:1")
    assert seeds == []


@pytest.mark.parametrize("category", ["infeed", "INFEED", utils.SyntheticDataCategory.INFEED])
def test_synthetic_data(category, monkeypatch):
    assert not utils.use_synthetic_data_for(category)
    monkeypatch.setenv("TF_POPLAR_FLAGS", "--synthetic_data_categories=seed,infeed")
    assert utils.use_synthetic_data_for(category)
    assert not utils.use_synthetic_data_for("outfeed")
    monkeypatch.setenv("TF_POPLAR_FLAGS", "--use_synthetic_data")
    assert utils.use_synthetic_data_for("outfeed")


@pytest.mark.parametrize("category", ["weights", 1, None])
def test_unknown_synthetic_data(category):
    message = "must be one of infeed, outfeed, seed, hostembedding, parameters. Received:"
    with pytest.raises(ValueError, match=message):
        utils.use_synthetic_data_for(category)


def test_variables_are_initialised_on_the_host_anyway():
    assert utils.move_variable_initialization_to_cpu() is None
    assert utils.move_variable_initialization_to_cpu(graph=object()) is None
