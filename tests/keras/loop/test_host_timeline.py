"""The host timeline of Keras' loop, and that nothing is marked unless a strategy is profiled."""

import collections

import keras
import numpy as np
import pytest
import tensorflow as tf

import ipu_tf
from ipu_tf.base import spans
from ipu_tf.keras.loop import host_marks, jitting

# Keras writes weights in a way that NumPy 2 deprecates.
pytestmark = pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")

X = np.linspace(0, 1, 96, dtype=np.float32).reshape(24, 4)
Y = X[:, :2]


class Counted(keras.callbacks.Callback):
    """Counts the ends of training steps."""

    count = 0

    def on_train_batch_end(self, batch, logs=None):
        self.count += 1


def compiled(**options):
    keras.utils.set_random_seed(0)
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(2)], name="small")
    model.compile(keras.optimizers.SGD(0.1), "mse", **options)
    return model


def by_category(timeline):
    found = collections.defaultdict(list)
    for span in timeline.spans:
        found[span.category].append(span)
    return found


@pytest.fixture(scope="module")
def profiled(tmp_path_factory):
    """A profiled fit with validation, its history, and the callback that counted."""
    strategy = ipu_tf.IPUStrategy(profile=True)
    counted = Counted()
    path = tmp_path_factory.mktemp("files") / "m.weights.h5"
    callbacks = [counted, keras.callbacks.ModelCheckpoint(path, save_weights_only=True)]
    with strategy.scope():
        model = compiled(steps_per_execution=2)
        history = model.fit(
            X, Y, batch_size=4, epochs=2, validation_data=(X, Y), callbacks=callbacks, verbose=0
        )
        model.predict(X, batch_size=4, verbose=0)
    return strategy.report().host, history, counted


def test_executions_name_their_program_and_steps(profiled):
    executions = by_category(profiled[0])["execution"]
    programs = collections.Counter((span.program, span.steps) for span in executions)
    assert programs == {
        ("small.train_step", 2): 6,
        ("small.test_step", 2): 6,
        ("small.predict_step", 2): 3,
    }


def test_waits_for_data_are_spans_of_a_track_of_their_own(profiled):
    waits = by_category(profiled[0])["infeed"]
    assert {span.track for span in waits} == {"infeed"}
    assert len(waits) == 2 * 6 + 2 * 6 + 6
    executions = by_category(profiled[0])["execution"]
    for wait in waits:
        around = [e for e in executions if e.begin_ns <= wait.begin_ns <= wait.end_ns <= e.end_ns]
        assert len(around) == 1


def test_results_callbacks_and_checkpoints_are_spans(profiled):
    found = by_category(profiled[0])
    assert len(found["outfeed"]) == 15
    callbacks = collections.Counter(span.name for span in found["callback"])
    assert callbacks["Counted.on_train_batch_end"] == 6
    assert callbacks["ModelCheckpoint.on_epoch_end"] == 2
    assert callbacks["History.on_epoch_end"] == 2
    # Methods that a callback does not define are no spans.
    assert "Counted.on_epoch_end" not in callbacks
    assert [span.name for span in found["checkpoint"]] == ["small.save_weights"] * 2


@pytest.mark.slow
def test_profiling_changes_neither_numbers_nor_callbacks(profiled):
    _, history, counted = profiled
    counted_alone = Counted()
    with ipu_tf.IPUStrategy().scope():
        stock = compiled(steps_per_execution=2).fit(
            X,
            Y,
            batch_size=4,
            epochs=2,
            validation_data=(X, Y),
            callbacks=[counted_alone],
            verbose=0,
        )
    assert history.history == stock.history
    assert counted.count == counted_alone.count == 6


@pytest.mark.slow
def test_callbacks_of_every_step_are_spans_of_their_thread():
    strategy = ipu_tf.IPUStrategy(profile=True)
    counted = Counted()
    with strategy.scope():
        model = compiled(steps_per_execution=2)
        model.set_asynchronous_callbacks(True)
        model.fit(X, Y, batch_size=4, callbacks=[counted], verbose=0)
    calls = [
        span for span in strategy.report().host.spans if span.name == "Counted.on_train_batch_end"
    ]
    assert len(calls) == counted.count == 6
    assert {span.track for span in calls} == {"ipu_tf callbacks_0"}


def test_a_list_of_callbacks_is_given_back_as_it_was():
    callbacks = keras.callbacks.CallbackList([Counted()])
    (own,) = callbacks.callbacks
    with host_marks.marked_callbacks(callbacks):
        assert callbacks.callbacks != [own]
        with host_marks.marked_callbacks(callbacks):
            assert callbacks.callbacks[0]._callback is own
    assert callbacks.callbacks == [own]


@pytest.mark.slow
def test_without_a_profiled_strategy_nothing_is_marked(monkeypatch):
    """The graphs of the loop have no op more, and Keras makes its own list of callbacks."""
    monkeypatch.setattr(spans, "_sinks", ())
    forbidden = [
        (host_marks.WaitsForData, "read"),
        (host_marks, "_MarkedCallback"),
        (spans, "_SpanContext"),
        (tf, "numpy_function"),
    ]
    for owner, name in forbidden:
        monkeypatch.setattr(owner, name, None)
    with ipu_tf.IPUStrategy().scope():
        model = compiled(steps_per_execution=2)
        model.fit(X, Y, batch_size=4, callbacks=[Counted()], verbose=0)


@pytest.mark.slow
def test_loops_that_xla_compiles_have_the_same_spans(monkeypatch):
    monkeypatch.setattr(jitting, "JITTED_STEPS", 0)
    monkeypatch.setattr(jitting, "STEPS_PER_OPERATION", 0)
    strategy = ipu_tf.IPUStrategy(profile=True)
    with strategy.scope():
        model = compiled(steps_per_execution=3)
        model.set_asynchronous_callbacks(True)
        model.fit(X, Y, batch_size=4, verbose=0)
    found = by_category(strategy.report().host)
    executions = [(span.program, span.steps) for span in found["execution"]]
    assert executions == [("small.train_step", 3)] * 2
    waits = [span for span in found["infeed"] if span.name == "wait for data"]
    assert len(waits) == 2
    # The results for the logs, and those of every step for callbacks.
    assert len(found["outfeed"]) == 4
