"""Reports that POPLAR_ENGINE_OPTIONS asks for."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import tensorflow as tf

from ipu_tf import IPUConfig, IPUStrategy
from ipu_tf.config import reset_ipu_configuration
from ipu_tf.profile import automatic_reports
from ipu_tf.profile.engine_options import report_folder
from ipu_tf.profile.report import Report

TRAINS = """
import numpy as np, keras, ipu_tf
with ipu_tf.IPUStrategy().scope():
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(2)], name="scripted")
    model.compile("sgd", "mse")
    model.fit(np.ones((8, 4), "float32"), np.ones((8, 2), "float32"), batch_size=4, verbose=0)
"""


@pytest.mark.parametrize(
    ("options", "folder"),
    [
        ({}, None),
        ({"autoReport.directory": "out"}, None),
        ({"autoReport.all": "false", "autoReport.directory": "out"}, None),
        ({"autoReport.all": "true"}, Path()),
        ({"autoReport.all": True, "autoReport.directory": "out"}, Path("out")),
        ({"autoReport.outputExecutionProfile": "true"}, Path()),
        ({"autoReport.outputGraphProfile": "1", "autoReport.directory": "a/b"}, Path("a/b")),
    ],
)
def test_the_folder_of_reports(options, folder, monkeypatch):
    monkeypatch.setenv("POPLAR_ENGINE_OPTIONS", json.dumps(options))
    assert report_folder() == folder
    monkeypatch.delenv("POPLAR_ENGINE_OPTIONS")
    assert report_folder() is None


def test_options_of_the_environment_win(monkeypatch):
    configured = {"autoReport.all": "true", "autoReport.directory": "configured"}
    monkeypatch.delenv("POPLAR_ENGINE_OPTIONS", raising=False)
    assert report_folder(configured) == Path("configured")
    monkeypatch.setenv("POPLAR_ENGINE_OPTIONS", '{"autoReport.directory": "out"}')
    assert report_folder(configured) == Path("out")


@pytest.fixture
def unconfigured():
    """Lets go of the configuration and of the strategies that are kept for their reports."""
    yield
    reset_ipu_configuration()
    automatic_reports.write_now()


@pytest.mark.usefixtures("unconfigured")
def test_a_configuration_asks_for_the_report_of_a_strategy_made_before(tmp_path, monkeypatch):
    monkeypatch.delenv("POPLAR_ENGINE_OPTIONS", raising=False)
    monkeypatch.setenv("IPU_TF_INSIGHTS", "0")
    strategy = IPUStrategy()
    options = IPUConfig()
    options.compilation_poplar_options = {
        "autoReport.all": "true",
        "autoReport.directory": str(tmp_path),
    }
    options.configure_ipu_system()
    for size in (2, 3):
        strategy.run(tf.function(lambda x: x @ x), args=(tf.ones([size, size]),))
    automatic_reports.write_now()
    assert len(Report.from_json(tmp_path / "report.json").programs) == 2


def test_options_without_effect_are_logged(monkeypatch, caplog):
    options = {"autoReport.all": "true", "autoReport.streamAtEachRun": "false", "debug.x": "1"}
    monkeypatch.setenv("POPLAR_ENGINE_OPTIONS", json.dumps(options))
    with caplog.at_level("INFO"):
        assert report_folder() == Path()
    assert "without effect here: autoReport.streamAtEachRun, debug.x." in caplog.text


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "POPLAR_ENGINE_OPTIONS must be a JSON object: .*Received: '{'"),
        ("[]", "must be a JSON object, such as .*Received: '\\[\\]'"),
        ('{"autoReport.all": "maybe"}', "autoReport.all of POPLAR_ENGINE_OPTIONS or"),
    ],
)
def test_bad_options_are_refused(text, message, monkeypatch):
    monkeypatch.setenv("POPLAR_ENGINE_OPTIONS", text)
    with pytest.raises(ValueError, match=message):
        report_folder()


@pytest.mark.slow
def test_a_process_writes_its_report_when_it_ends(tmp_path, monkeypatch):
    monkeypatch.setenv("POPLAR_ENGINE_OPTIONS", '{"autoReport.all": "true"}')
    monkeypatch.delenv("IPU_TF_INSIGHTS", raising=False)
    done = subprocess.run(
        [sys.executable, "-c", TRAINS], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert done.stderr.count("report.html") == 1
    (program,) = Report.from_json(tmp_path / "report.json").programs
    assert program.name == "scripted.train_step"
