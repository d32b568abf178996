"""`IPUReport`: its files, its charts beside those of Keras, and the line that `fit` prints."""

import sys

import keras
import numpy as np
import pytest
import tensorflow as tf

import ipu_tf
from ipu_tf.keras.callbacks import IPUReport
from ipu_tf.keras.loop.cost_line import cost_line
from ipu_tf.profile.figures import program_figures as figures
from ipu_tf.profile.report import Report
from ipu_tf.programs.calls import call_of
from ipu_tf.programs.program import Program
from tests.profile import programs

X = np.linspace(0, 1, 64, dtype=np.float32).reshape(16, 4)
Y = X[:, :2]


def compiled(name="small"):
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(2)], name=name)
    model.compile(keras.optimizers.SGD(0.1), "mse")
    return model


def fit(strategy, *callbacks, **arguments):
    with strategy.scope():
        model = compiled()
        arguments = {"batch_size": 4, "epochs": 2, "verbose": 0} | arguments
        model.fit(X, Y, callbacks=list(callbacks), **arguments)
    return model


def scalars(folder):
    """The scalars of the event files of a folder: values by tag and step."""
    found = {}
    for path in sorted(folder.glob("events.out.tfevents.*")):
        for record in tf.data.TFRecordDataset(str(path)):
            event = tf.compat.v1.Event.FromString(record.numpy())
            for value in event.summary.value:
                found[value.tag, event.step] = float(tf.make_ndarray(value.tensor))
    return found


def test_it_writes_the_report_of_the_strategy(tmp_path):
    strategy = ipu_tf.IPUStrategy(profile=True)
    callback = IPUReport(tmp_path / "logs", formats=("json", "text", "html", "perfetto"))
    fit(strategy, callback, validation_data=(X, Y))
    written = sorted(path.name for path in (tmp_path / "logs").iterdir())
    assert written == ["report.html", "report.json", "report.pftrace", "report.txt"]
    report = Report.from_json(tmp_path / "logs" / "report.json")
    assert [p.name for p in report.programs] == ["small.train_step", "small.test_step"]
    assert "execution" in {span.category for span in report.host.spans}


@pytest.mark.slow
def test_evaluation_and_prediction_write_it_too(tmp_path):
    strategy = ipu_tf.IPUStrategy()
    with strategy.scope():
        model = compiled()
        model.evaluate(X, Y, batch_size=4, verbose=0, callbacks=[IPUReport(tmp_path, ["json"])])
        (program,) = Report.from_json(tmp_path / "report.json").programs
        assert program.name == "small.test_step"
        model.predict(X, batch_size=4, verbose=0, callbacks=[IPUReport(tmp_path, ["json"])])
    assert len(Report.from_json(tmp_path / "report.json").programs) == 2


def test_charts_have_the_figures_of_the_report_in_every_epoch(tmp_path):
    strategy = ipu_tf.IPUStrategy()
    fit(strategy, IPUReport(tmp_path, formats=["scalars"]))
    found = scalars(tmp_path / "ipu")
    (program,) = strategy.report().programs
    device = program.device
    for epoch in (0, 1):
        values = {
            tag.removeprefix("small.train_step/"): value
            for (tag, step), value in found.items()
            if step == epoch
        }
        assert values["cycles"] == device.cycles
        assert values["fullest_tile_bytes"] == device.memory.peak_tile_bytes.max()
        assert values["samples_per_second"] == pytest.approx(device.samples_per_second)
        assert values["flop_utilisation"] == pytest.approx(
            figures.flop_utilisation(device, program.tile_ops)
        )
        assert sum(
            values[f"{kind}_cycles"] for kind in ("compute", "exchange", "sync", "host")
        ) == (device.cycles)


@pytest.mark.filterwarnings("ignore:__array__ implementation doesn't accept a copy")
@pytest.mark.slow
def test_keras_own_charts_are_beside_them(tmp_path):
    reader = pytest.importorskip(
        "tensorboard.backend.event_processing.plugin_event_multiplexer",
        reason="the extra `tensorboard` is not installed",
    )
    stock = keras.callbacks.TensorBoard(tmp_path, update_freq=1)
    fit(ipu_tf.IPUStrategy(), stock, IPUReport(tmp_path, ["scalars"]), validation_data=(X, Y))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["ipu", "train", "validation"]
    shown = reader.EventMultiplexer().AddRunsFromDirectory(str(tmp_path)).Reload()
    charts = shown.PluginRunToTagToContent("scalars")
    assert {*charts} == {"ipu", "train", "validation"}
    assert "epoch_loss" in charts["train"]
    for program in ("small.train_step", "small.test_step"):
        for name in ("cycles", "flop_utilisation", "fullest_tile_bytes"):
            assert len(shown.Tensors("ipu", f"{program}/{name}")) == 2  # One an epoch.


@pytest.mark.parametrize("formats", ["json", ["json", "pdf"]])
def test_unknown_formats_are_refused(formats, tmp_path):
    message = "`formats` takes a list of 'json', 'text', .*'scalars'. Received: "
    with pytest.raises(ValueError, match=message):
        IPUReport(tmp_path, formats=formats)


def test_a_model_of_another_strategy_is_refused(tmp_path):
    message = "made in the scope of an IPUStrategy; model 'small' was not. .*Received: strategy "
    with pytest.raises(ValueError, match=message):
        compiled().fit(X, Y, callbacks=[IPUReport(tmp_path)], verbose=0)


def test_on_a_terminal_fit_prints_one_line_after_the_first_step(capsys, tmp_path):
    strategy = ipu_tf.IPUStrategy()
    report = IPUReport(tmp_path, formats=["json"])
    sys.stdout.isatty = lambda: True
    model = fit(strategy, report, verbose=2)
    (program,) = strategy.report().programs
    line = cost_line(program, [tmp_path / "report.json"])
    printed = capsys.readouterr().out
    assert printed.splitlines().count(line) == 1
    assert printed.index(line) < printed.index("Epoch 2/2")
    speed = call_of(program.device, 1).samples_per_second
    own = f"{program.device.samples_per_second:,.1f} on the device"
    assert line.startswith(
        f"On one bow IPU, modelled: {speed:,.1f} samples/s ({own}); fullest tile "
    )
    assert line.endswith(f"; report in {tmp_path / 'report.json'}.")
    sys.stdout.isatty = lambda: True
    model.fit(X, Y, batch_size=4, verbose=2, callbacks=[report])
    assert line not in capsys.readouterr().out  # It has not changed.


@pytest.mark.slow
def test_elsewhere_and_in_silence_it_prints_none(capsys):
    fit(ipu_tf.IPUStrategy(), verbose=2)
    assert "modelled" not in capsys.readouterr().out


def test_the_line_of_a_program_that_does_not_fit_or_has_no_samples():
    device = programs.device_program(samples_per_run=0)
    line = cost_line(Program(name="p", device=device))
    assert line.startswith(f"On one gc200 IPU, modelled: {device.cycles:,} cycles a step; fullest")
    with pytest.raises(ValueError, match=r"Program 'p' is not compiled. Received: device=None\."):
        cost_line(Program(name="p"))


def test_a_folder_that_cannot_be_made_fails_before_the_first_step(tmp_path):
    (tmp_path / "file").write_text("")
    with ipu_tf.IPUStrategy().scope():
        model = compiled()
    with pytest.raises(OSError, match="file"):
        IPUReport(tmp_path / "file" / "logs").set_model(model)


@pytest.mark.slow
def test_training_stays_if_its_report_cannot_be_written(tmp_path, caplog):
    callback = IPUReport(tmp_path, formats=["json", "scalars"])
    (tmp_path / "report.json").mkdir()
    (tmp_path / "ipu").write_text("no folder of events")
    model = fit(ipu_tf.IPUStrategy(), callback, epochs=1)
    assert model.optimizer.iterations == 4
    first, second = (record.getMessage() for record in caplog.records)
    assert first.startswith("IPUReport could not write the scalars: ")
    assert second == (
        "IPUReport could not write the report: [Errno 21] Is a directory: "
        f"'{tmp_path}/report.json'. The model keeps what it learned; make room and call "
        "`model.distribute_strategy.report()` for the report."
    )
