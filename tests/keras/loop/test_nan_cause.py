"""`keras.callbacks.TerminateOnNaN` names the operation of the NaN that ends `fit`."""

import re
from dataclasses import replace
from types import SimpleNamespace

import keras
import numpy as np
import pytest

from ipu_tf import IPUConfig, IPUStrategy, config
from ipu_tf.keras.loop.nan_cause import naming_the_cause
from ipu_tf.profile.report import Report
from tests.profile.programs import fault, program

STOCK = "Batch 7: Invalid loss, terminating training\n"


@pytest.fixture
def stop(monkeypatch):
    """Returns a function that stops a model's training by the callback, and gives the model."""

    def stopped(*faults, loss=np.nan, strategy=None, **arguments):
        strategy = strategy or IPUStrategy(enable_keras_extensions=False)
        traced, other = program(), program()
        other.name, other.nonfinite = "other.train_step", [fault("other")]
        traced.nonfinite = list(faults)
        report = Report(programs=(other, traced))
        if isinstance(strategy, IPUStrategy):
            monkeypatch.setattr(strategy, "report", lambda *, insights: report)
        model = SimpleNamespace(name="net", stop_training=False, distribute_strategy=strategy)
        callback = keras.callbacks.TerminateOnNaN(**arguments)
        callback.set_model(model)
        with naming_the_cause():
            callback.on_batch_end(7, {"loss": loss})
        return model

    yield stopped
    config.reset_ipu_configuration()


def trace_numerics():
    cfg = IPUConfig()
    cfg.simulator.trace_numerics = True
    cfg.configure_ipu_system()


def test_the_message_has_the_operation(stop, capsys):
    others = (replace(fault(), handled=True), replace(fault(), fault="underflow"))
    assert stop(*others, fault()).stop_training
    assert capsys.readouterr().out == f"{STOCK}{fault()}\n"


def test_the_error_has_the_operation(stop):
    with pytest.raises(RuntimeError, match=r"(?s)NaN or Inf loss .*op 'net/dense/MatMul'") as error:
        stop(fault(), raise_error=True)
    assert str(error.value).endswith(f"Terminating training immediately. {fault()}")


def test_without_tracing_it_says_how_to_trace(stop, capsys):
    stop()
    printed = capsys.readouterr().out
    assert printed.startswith(f"{STOCK}To see which operation made it, set `simulator.trace_")
    assert "`ipu-tf run --trace-numerics`" in printed


def test_what_tracing_does_not_find(stop, capsys):
    trace_numerics()
    stop()
    assert "found no operation that made it; the log names" in capsys.readouterr().out


def test_a_finite_loss_and_other_strategies_are_left_alone(stop, capsys):
    assert not stop(fault(), loss=1.0).stop_training
    assert stop(strategy=object()).stop_training
    assert capsys.readouterr().out == STOCK


@pytest.mark.slow
def test_fit_says_it(capsys):
    trace_numerics()
    with IPUStrategy().scope():
        layers = [keras.Input((4,)), keras.layers.Dense(3, name="last")]
        model = keras.Sequential(layers, name="net")
        model.compile("sgd", "mse")
        model.layers[0].kernel.assign(np.full((4, 3), 3e38))
        x = np.ones((8, 4), np.float32)
        callback = keras.callbacks.TerminateOnNaN()
        model.fit(x, x[:, :3], batch_size=4, verbose=0, callbacks=[callback])
    first, second = capsys.readouterr().out.splitlines()
    assert first == "Batch 0: Invalid loss, terminating training"
    assert re.search(r"layer 'net/last', op 'net.*/last.*/MatMul' \(MatMul\)", second)
    config.reset_ipu_configuration()
