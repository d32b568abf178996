"""Updates of equal weights are traced once in estimates, and cost what they cost apart."""

import contextlib

import keras
import pytest

import ipu_tf
from ipu_tf.internals.keras_optimizers import slots_in
from ipu_tf.keras.keras3 import equal_updates
from ipu_tf.profile.figures import program_figures as figures
from ipu_tf.runtime.programs import device_programs
from ipu_tf.runtime.tracing.tracer import Tracer

WIDTH, LAYERS = 8, 3


def made(optimizer):
    dense = [keras.layers.Dense(WIDTH, name=f"dense{number}") for number in range(LAYERS)]
    model = keras.Sequential([keras.Input((WIDTH,)), *dense])
    model.compile(optimizer, "mse")
    return model


def estimated(optimizer, monkeypatch):
    """What the estimate of a step says of the program, and how many ops it traced."""
    keras.backend.clear_session()  # Layers and optimizers are named anew.
    count, create_op = [], Tracer.create_op
    with monkeypatch.context() as patch:
        patch.setattr(Tracer, "create_op", lambda *a, **k: count.append(1) or create_op(*a, **k))
        report = ipu_tf.estimate(lambda: made(optimizer()), batch_size=4, insights=False)
    device = report.programs[0].device
    steps = [(s.opcode, s.layer, s.phase, s.flops, s.supersteps) for s in device.steps]
    tensors = sorted((t.layer, t.category, t.bytes) for t in device.tensors)
    return (steps, tensors, int(figures.tile_bytes(device.memory).max())), len(count)


def adam():
    optimizer = keras.optimizers.AdamW(1e-3)
    optimizer.exclude_from_weight_decay(var_names=["bias"])
    return optimizer


def momentum():
    return keras.optimizers.SGD(keras.optimizers.schedules.ExponentialDecay(0.1, 9, 0.5), 0.9)


@pytest.mark.slow
@pytest.mark.parametrize(
    "optimizer",
    [
        adam,
        pytest.param(momentum, marks=pytest.mark.slow),
        pytest.param(keras.optimizers.Lamb, marks=pytest.mark.slow),
        pytest.param(keras.optimizers.Nadam, marks=pytest.mark.slow),
    ],
)
def test_equal_updates_cost_what_they_cost_apart(optimizer, monkeypatch):
    together, ops_together = estimated(optimizer, monkeypatch)
    monkeypatch.setattr(equal_updates, "STOCK_OPTIMIZERS", frozenset())
    apart, ops_apart = estimated(optimizer, monkeypatch)
    assert together == apart
    assert ops_together < ops_apart


class OwnUpdate(keras.optimizers.SGD):
    """An optimizer of a script."""


def test_other_optimizers_and_steps_that_run_trace_every_update():
    def is_shared(optimizer):
        context = equal_updates.tracing_equal_updates_once(optimizer)
        return not isinstance(context, contextlib.nullcontext)

    assert not is_shared(keras.optimizers.SGD())
    with device_programs.for_figures():
        assert is_shared(keras.optimizers.SGD())
        assert not is_shared(OwnUpdate())


def test_slots_are_those_of_one_weight():
    weights = [keras.Variable([[1.0]], name="a"), keras.Variable([[2.0]], name="b")]
    plain, two = keras.optimizers.SGD(), keras.optimizers.Adam(name="adam")
    for optimizer in (plain, two):
        optimizer.build(weights)
    assert slots_in(plain, weights[1]) == []  # It has two variables of its own, too.
    assert [slot.path for slot in slots_in(two, weights[1])] == [
        "adam/b_momentum",
        "adam/b_velocity",
    ]
