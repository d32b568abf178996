"""`ipu-tf info`: chips, systems and the build."""

import importlib.metadata
import json

import pytest

import ipu_tf
from ipu_tf import cli
from ipu_tf.machine import CHIPS, SYSTEMS


@pytest.fixture
def found(capsys):
    assert cli.main(["info", "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_it_knows_every_chip_and_system(found):
    assert [chip["chip"] for chip in found["chips"]] == list(CHIPS)
    assert [system["system"] for system in found["systems"]] == list(SYSTEMS)
    assert "bow-pod1024" in SYSTEMS


def test_totals_are_ipus_times_the_figures_of_a_chip(found):
    chips = {chip["chip"]: chip for chip in found["chips"]}
    for system in found["systems"]:
        chip = chips[system["chip"]]
        for total in ("memory_bytes", "float16_flops_per_second", "float32_flops_per_second"):
            assert system[total] == system["ipus"] * chip[total]


def test_the_figures_of_a_bow_are_those_of_its_vendor(found):
    """350 TFLOP/s of float16, 87 of float32 and 0.9 GB on a chip; 1.4 PFLOP/s on a machine."""
    (bow,) = (chip for chip in found["chips"] if chip["chip"] == "bow")
    assert bow["float16_flops_per_second"] == pytest.approx(350e12, rel=0.01)
    assert bow["float32_flops_per_second"] == pytest.approx(87e12, rel=0.01)
    assert bow["memory_bytes"] == 1472 * 624 * 1024
    (machine,) = (system for system in found["systems"] if system["system"] == "bow-2000")
    assert machine["float16_flops_per_second"] == pytest.approx(1.4e15, rel=0.01)
    assert machine["streaming_bytes"] == 256e9


def test_it_knows_the_build(found):
    assert found["build"]["ipu_tf"] == ipu_tf.__version__
    assert found["build"]["tensorflow"] == importlib.metadata.version("tensorflow")
    assert found["build"]["tile_ops"] == "built"


def test_the_text_has_the_same(found, capsys):
    assert cli.main(["info"]) == 0
    text = capsys.readouterr().out
    for name in (*CHIPS, *SYSTEMS, ipu_tf.__version__):
        assert name in text
    assert "356.9 PFLOP/s" in text  # 1,024 times 1,472 tiles at 1.85 GHz, 128 a cycle.
