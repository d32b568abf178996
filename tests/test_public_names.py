"""Public names of the last version: each is still there, or warns and names the new one.

`public_names.txt` lists them: the names of every `__all__`, those that the documents of that
version use, and the attributes of their classes.
"""

import importlib
import warnings
from pathlib import Path

import pytest

import ipu_tf.compiler.pipeline
from ipu_tf.programs.program import Program
from tests.compiler.pipeline.cifar10_pipeline import compiled

NAMES = (Path(__file__).parent / "public_names.txt").read_text().split()


def found(name):
    """Returns the object of a dotted name, and the warnings of looking it up."""
    parts = name.split(".")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        value = importlib.import_module(parts[0])
        for number, part in enumerate(parts[1:], 2):
            try:
                value = getattr(value, part)
            except AttributeError:
                value = importlib.import_module(".".join(parts[:number]))
    return value, [warning for warning in caught if warning.category is DeprecationWarning]


def test_every_public_name_of_the_last_version_is_found():
    missing = []
    for name in NAMES:
        try:
            found(name)
        except (ImportError, AttributeError):
            missing.append(name)
    assert len(NAMES) > 900
    assert missing == []


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("ipu_tf.calibration.Record", "ipu_tf.calibration.MeasuredPoint"),
        ("ipu_tf.compiler.lowering.UnsupportedOpcode", "ipu_tf.compiler.lowering.LoweringError"),
        ("ipu_tf.compiler.pipeline.Offload", "ipu_tf.compiler.pipeline.deployment.Offload"),
        (
            "ipu_tf.compiler.pipeline.PipelineOptions",
            "ipu_tf.compiler.pipeline.deployment.Deployment",
        ),
        (
            "ipu_tf.compiler.pipeline.PipelineProgram",
            "ipu_tf.tile_program.device_program.DeviceProgram",
        ),
        ("ipu_tf.compiler.plan.ConvPlan", "ipu_tf.planner.plan.ConvPlan"),
        ("ipu_tf.compiler.shapes.ConvShape", "ipu_tf.planner.shapes.ConvShape"),
    ],
)
def test_deprecated_names_warn_and_name_the_new_ones(old, new):
    value, (warning, *_) = found(old)
    assert value is found(new)[0]
    assert str(warning.message) == (
        f"{old} is deprecated, and the next version removes it. Use {new}."
    )
    assert warning.filename == __file__


def test_a_name_that_never_was_is_no_attribute():
    with pytest.raises(AttributeError, match="'ipu_tf.compiler.pipeline' has no attribute 'Of'"):
        ipu_tf.compiler.pipeline.Of  # noqa: B018


def test_the_pipeline_of_a_program_is_its_device_program():
    pipelined = Program(name="step", device=compiled(4, micro_batches=4))
    with pytest.warns(DeprecationWarning, match="Program.pipeline is deprecated.*Program.device"):
        assert pipelined.pipeline is pipelined.device
    with pytest.warns(DeprecationWarning, match="Use Program.device"):
        assert Program(name="step").pipeline is None
