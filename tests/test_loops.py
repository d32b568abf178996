"""`loops.repeat` and `loops.while_loop` against NumPy, and what they refuse."""

import sys
import threading
import time
import traceback
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from ipu_tf import IPUStrategy, loops, optimizers
from ipu_tf.base import trial
from ipu_tf.feeds import trial_readers
from ipu_tf.ipu_infeed_queue import IPUInfeedQueue
from ipu_tf.ipu_outfeed_queue import IPUOutfeedQueue


@pytest.fixture(scope="module")
def strategy():
    return IPUStrategy(enable_keras_extensions=False)


def run(strategy, function, *args):
    return strategy.run(tf.function(function), args)


def test_repeat_applies_the_body_to_its_own_outputs(strategy):
    a, b = run(strategy, lambda: loops.repeat(10, lambda a, b: (b, a + b), [0, 1]))
    assert (a, b) == (55, 89)
    assert run(strategy, lambda x: loops.repeat(3, lambda v: v * 2.0, x), tf.constant(1.5)) == 12.0
    assert run(strategy, lambda n: loops.repeat(n, lambda v: v + 1, (7,)), tf.constant(4)) == 11


def test_a_loop_without_inputs_is_an_operation_that_runs(strategy):
    counter = tf.Variable(0.0)

    @tf.function
    def count():
        operation = loops.repeat(5, lambda: counter.assign_add(1.0).op)
        assert isinstance(operation, tf.Operation)
        loops.repeat(2, lambda: None)

    strategy.run(count)
    assert counter == 5.0


def test_while_loop_ends_by_its_condition_or_its_limit(strategy):
    def double(limit):
        return loops.while_loop(
            lambda v, steps: v < 100.0,
            lambda v, steps: [v * 2.0, steps + 1],
            [1.0, 0],
            maximum_iterations=limit,
        )

    assert [float(x) for x in run(strategy, lambda: double(None))] == [128.0, 7.0]
    assert [float(x) for x in run(strategy, lambda: double(3))] == [8.0, 3.0]


def test_while_loop_reads_an_infeed_once_an_iteration(strategy):
    infeed = IPUInfeedQueue(tf.data.Dataset.from_tensor_slices(([1.0, 2.0, 3.0], [2.0, 2.0, 2.0])))

    def total():
        return loops.while_loop(lambda v: v < 5.0, lambda v, x, y: v + x * y, [0.0], infeed)

    assert run(strategy, total) == 6.0


def test_a_dict_alone_in_a_tuple_gives_arguments_by_name(strategy):
    data = {"right": [1.0, 2.0], "left": [5.0, 6.0]}
    infeed = IPUInfeedQueue(tf.data.Dataset.from_tensor_slices((data,)))

    @tf.function
    def program():
        return loops.repeat(2, lambda total, left, right: total + left - right, [0.0], infeed)

    assert strategy.run(program) == 8.0


def test_training_in_a_loop_equals_numpy(strategy):
    rng = np.random.default_rng(1)
    x, y = rng.normal(size=(6, 8, 3)).astype("f"), rng.normal(size=(6, 8, 1)).astype("f")
    infeed = IPUInfeedQueue(tf.data.Dataset.from_tensor_slices((x, y)))
    w = tf.Variable(np.zeros((3, 1), "f"))

    def step(total, features, target):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((tf.matmul(features, w) - target) ** 2)
        w.assign_sub(0.1 * tape.gradient(loss, w))
        return total + loss

    total = run(strategy, lambda: loops.repeat(6, step, [0.0], infeed))
    expected, losses = np.zeros((3, 1)), 0.0
    for features, target in zip(x, y, strict=True):
        error = features @ expected - target
        losses += np.mean(error**2)
        expected -= 0.1 * 2 * features.T @ error / 8
    np.testing.assert_allclose(total, losses, rtol=1e-6)
    np.testing.assert_allclose(w, expected, rtol=1e-5, atol=1e-6)


def test_a_gradient_passes_through_a_loop_with_an_infeed(strategy):
    infeed = IPUInfeedQueue(tf.data.Dataset.from_tensor_slices([2.0, 3.0, 4.0]))

    def gradient(v):
        with tf.GradientTape() as tape:
            tape.watch(v)
            result = loops.repeat(3, lambda value, x: value * x, [v], infeed)
        return tape.gradient(result, v)

    assert run(strategy, gradient, tf.constant(1.0)) == 24.0


def test_autograph_converts_the_body_of_a_converted_function(strategy):
    def total():
        def body(v):
            for k in tf.range(3):
                if k > 0:
                    v += k
            return v

        return loops.repeat(2, body, [0])

    assert run(strategy, total) == 6


@pytest.mark.fast_cells(3)
@pytest.mark.parametrize(
    ("body", "inputs", "error", "message"),
    [
        (lambda a, b: a, [1.0], TypeError, r"takes 2 arguments, \(a, b\).*passes 1 inputs"),
        (lambda a: (a, a), [1.0], TypeError, "as many tensors as it has inputs, 1. Received: 2"),
        (lambda a: None, [1.0], TypeError, "Received: 0 tensors"),
        (lambda a: tf.cast(a, tf.int32), [1.0], TypeError, "has type int32, input 0 has type flo"),
        (lambda a: [tf.no_op(), a], [1.0], ValueError, "must return tensors first"),
    ],
)
def test_bodies_that_do_not_fit(strategy, body, inputs, error, message):
    with pytest.raises(error, match=message):
        run(strategy, lambda: loops.repeat(2, body, inputs))


def test_arguments_that_do_not_fit(strategy):
    infeed = IPUInfeedQueue(tf.data.Dataset.from_tensors({"x": 1.0, "y": 2.0}))
    with pytest.raises(TypeError, match="1 inputs and 2 components of the infeed named x, y"):
        run(strategy, lambda: loops.repeat(2, lambda v, x: v, [1.0], infeed))
    with pytest.raises(TypeError, match=r"condition of the loop takes 1 arguments, \(a\)"):
        run(strategy, lambda: loops.while_loop(lambda a: a, lambda a, b: (a, b), [1, 2]))
    with pytest.raises(TypeError, match="has to be an IPUInfeedQueue. Received: 7"):
        run(strategy, lambda: loops.repeat(2, lambda v: v, [1.0], 7))


def test_loops_are_short_while_a_script_is_tried_out(strategy, caplog):
    def count():
        nested = loops.repeat(9, lambda v: loops.repeat(2, lambda w: w + 1, v), 0)
        ends = loops.while_loop(lambda v: v < 100, lambda v: v + 1, 0)
        return nested, ends, loops.while_loop(lambda v: v < 100, lambda v: v + 1, 0, None, 2)

    with trial.steps_limited_to(3):
        found = run(strategy, count)
        assert [int(x) for x in found] == [6, 3, 2]
        assert run(strategy, lambda n: loops.repeat(n, lambda v: v + 1, 0), tf.constant(9)) == 3
        assert run(strategy, lambda n: loops.repeat(n, lambda v: v + 1, 0), tf.constant(2)) == 2
    assert "A loop runs at most 3 of 9 iterations (--max-steps 3)." in caplog.text


def working_threads_now():
    """What the threads of this process do: one of an earlier test keeps a reader waiting."""
    ticks = dict(processor_ticks())
    time.sleep(1)
    frames = sys._current_frames()
    names = {thread.native_id: thread for thread in threading.enumerate()}
    found = []
    for number, (name, after) in processor_ticks():
        thread = names.get(number)
        frame = None if thread is None else frames.get(thread.ident)
        used = after - ticks.get(number, (name, after))[1]
        if frame is not None or used:
            at = "" if frame is None else traceback.extract_stack(frame)[-1]
            found.append(f"{name} {thread} used {used} ticks of a second {at}")
    return "\n".join(found)


def processor_ticks():
    """Yields number, name and ticks on a processor of each thread of this process."""
    for task in Path("/proc/self/task").iterdir():
        name, _, rest = (task / "stat").read_text().partition("(")[2].rpartition(")")
        fields = rest.split()
        yield int(task.name), (name, int(fields[11]) + int(fields[12]))


@pytest.mark.slow
def test_a_reader_that_waits_for_elements_of_a_cut_loop_ends(strategy, monkeypatch):
    monkeypatch.setattr(trial_readers, "_PATIENCE_SECONDS", 0.2)
    outfeed, found, errors = IPUOutfeedQueue(), [], []

    def read():
        try:
            while len(found) < 9:
                found.extend(outfeed.dequeue())
                time.sleep(0.01)
        except RuntimeError as error:
            errors.append(str(error))

    def train():
        def body(v):
            return v + 1.0, outfeed.enqueue(v)

        return loops.repeat(9, body, [0.0])

    with trial.steps_limited_to(3):
        run(strategy, train)
        reader = threading.Thread(target=read)
        reader.start()
        reader.join(timeout=30)
        assert not reader.is_alive(), working_threads_now()
    assert [float(one) for one in found] == [0.0, 1.0, 2.0]
    assert "--max-steps 3 cut loops short (A loop runs at most 3 of 9 iterations)" in errors[0]
    assert errors[0].endswith("or run without --max-steps.")


@pytest.mark.slow
def test_plain_loops_over_steps_are_short_while_a_script_is_tried_out(strategy, caplog):
    infeed = IPUInfeedQueue(tf.data.Dataset.from_tensors(1.0).repeat())
    steps = tf.Variable(0)

    def count(length):
        total = 0.0
        for _ in tf.range(length):  # Reads an infeed, in a loop within.
            for _ in tf.range(2):
                total += infeed.dequeue()
        for _ in tf.range(9):  # Updates a variable.
            steps.assign_add(1)
        power = 1.0
        for _ in tf.range(9):  # A part of the model.
            power *= 2.0
        return total, power, tf.map_fn(lambda _: infeed.dequeue(), tf.zeros(9))

    with trial.steps_limited_to(3):
        total, power, mapped = run(strategy, count, tf.constant(9))
    assert (total, power, int(steps), mapped.shape[0]) == (6.0, 512.0, 3, 9)
    assert "A loop runs at most 3 of 9 iterations (--max-steps 3)." in caplog.text
    assert "A loop runs at most 3 of its iterations" in caplog.text


@pytest.mark.slow
def test_loops_over_steps_that_end_by_a_condition_are_short_while_a_script_is_tried_out(
    strategy, caplog
):
    steps = tf.Variable(0)

    def step(number):
        steps.assign_add(1)
        return number + 1

    def count(limit):
        number, value, total = tf.constant(0), 0.0, tf.constant(0)
        while number < 9:  # To a constant.
            number = step(number)
        while value < limit:  # By data.
            step(0)
            value += 1.0
        while total < 100:  # A part of the model.
            total += 1
        bounded = tf.while_loop(lambda i: i < 50, lambda i: [step(i)], [0], maximum_iterations=9)
        short = tf.while_loop(lambda i: i < 2, lambda i: [step(i)], [tf.constant(0)])
        return number, value, total, bounded[0], short[0]

    with trial.steps_limited_to(3):
        found = run(strategy, count, tf.constant(9.0))
    assert [int(x) for x in found] == [3, 3, 100, 3, 2]
    assert int(steps) == 3 + 3 + 3 + 2
    assert caplog.text.count("A loop runs at most 3 of its iterations (--max-steps 3).") == 3


@pytest.mark.slow
def test_a_tried_loop_makes_whole_updates(strategy):
    weight, steps = tf.Variable(0.0), tf.Variable(0)
    optimizer = optimizers.GradientAccumulationOptimizerV2(
        tf.compat.v1.train.GradientDescentOptimizer(1.0), 4
    )

    def train():
        def body():
            steps.assign_add(1)
            return optimizer.minimize(-weight, var_list=[weight])

        loops.repeat(100, body)

    for limit, updates in ((3, 1), (11, 2)):
        with trial.steps_limited_to(limit):
            run(strategy, lambda: train())  # A trace of its own.
        assert (int(steps), float(weight)) == (4 * updates, 4.0 * updates)
        steps.assign(0)
        weight.assign(0.0)
