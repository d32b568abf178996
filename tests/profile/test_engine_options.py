"""Reports that POPLAR_ENGINE_OPTIONS asks for."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

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
        ('{"autoReport.all": "maybe"}', "autoReport.all of POPLAR_ENGINE_OPTIONS takes true or f"),
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
    assert "report.html" in done.stderr
    (program,) = Report.from_json(tmp_path / "report.json").programs
    assert program.name == "scripted.train_step"
