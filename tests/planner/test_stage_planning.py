"""The planner options of a stage lie over those of the device, pass by pass."""

import pytest

from ipu_tf.config.device import PlannerOptions
from ipu_tf.config.poplar_options import PlannerOverrides
from ipu_tf.planner.stage_planning import StagePlanning, planning_at

HALF = PlannerOverrides.of({"partialsType": "half"}, "stage")
QUARTER = PlannerOverrides.of({"availableMemoryProportion": "0.25"}, "stage")
DEVICE = PlannerOptions(partials="float32", available_memory_proportion=0.6)
STAGE = StagePlanning(forward={"matmul": HALF}, backward={"matmul": QUARTER, "conv": HALF})


@pytest.mark.parametrize(
    ("family", "backward", "partials", "proportion"),
    [
        ("matmul", False, "float16", 0.6),
        ("matmul", True, "float32", 0.25),
        ("conv", False, "float32", 0.6),
        ("conv", True, "float16", 0.6),
    ],
)
def test_each_pass_and_family_has_options(family, backward, partials, proportion):
    found = STAGE.options(family, DEVICE, backward=backward)
    assert found == PlannerOptions(partials=partials, available_memory_proportion=proportion)


@pytest.mark.parametrize(
    ("path", "found"),
    [("model/block/dense", "block"), ("model/dense", "model"), ("dense", "all"), ("", "all")],
)
def test_the_innermost_layer_with_a_stage_decides(path, found):
    stages = {"model/block": "block", "model": "model", "": "all"}
    assert planning_at(path, stages) == found


def test_layers_of_no_stage_have_the_options_of_the_device():
    assert planning_at("loss", {"model": STAGE}) is None


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"partialsType": "double"}, r"stage\['partialsType'\] must be 'half'"),
        ({"availableMemoryProportion": "2"}, r"stage\['availableMemoryProportion'\]"),
    ],
)
def test_wrong_values_are_named(options, message):
    with pytest.raises(ValueError, match=message):
        PlannerOverrides.of(options, "stage")
