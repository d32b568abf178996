"""The optimizers for tf_keras compute what those for Keras 3 do, in the classes of Keras 2."""

import logging

import keras
import numpy as np
import pytest
import tensorflow as tf

from ipu_tf.keras import optimizers as ours
from ipu_tf.keras.loop import jitting
from ipu_tf.keras.replication.accumulation import CapturedGradientCounts
from ipu_tf.ops import grad_util_ops
from ipu_tf.profile.figures import program_figures as figures
from tests.keras import tf_keras_training as training
from tests.keras.optimizers.parameters import gradients, trained, variables

tf_keras = pytest.importorskip("tf_keras")
optimizers = pytest.importorskip("ipu_tf.keras.tf_keras.optimizers")
TfKerasOptimizer = pytest.importorskip("ipu_tf.keras.tf_keras.optimizer_adapter").TfKerasOptimizer
legacy = tf_keras.optimizers.legacy

CASES = [
    ("AdamIpuOptimizer", {"amsgrad": True}, legacy.Adam),
    ("AdamIpuOptimizer", {"m_dtype": "float16", "debiasing": False}, legacy.Adam),
    ("LAMBIpuOptimizer", {"weight_decay_rate": 0.1, "v_dtype": tf.float16}, legacy.Optimizer),
    ("SGDIpuOptimizer", {}, legacy.SGD),
    ("SGDIpuOptimizer", {"momentum": 0.9, "nesterov": True}, legacy.SGD),
]


def steps(optimizer, count=5):
    """The values of the variables after each step."""
    weights = [tf.Variable(variable.numpy()) for variable in variables()]
    values = []
    for of_step in gradients(count):
        optimizer.apply_gradients(zip(of_step, weights, strict=True))
        values.append([weight.numpy() for weight in weights])
    return values


@pytest.mark.fast_cells(1)
@pytest.mark.parametrize(("name", "arguments", "base"), CASES)
def test_steps_are_those_of_keras_3(name, arguments, base):
    made = getattr(optimizers, name)(0.1, **arguments)
    assert isinstance(made, base)
    assert isinstance(made, optimizers.IpuOptimizerBase)
    expected = trained(getattr(ours, name)(0.1, **arguments))
    for found, wanted in zip(steps(made), expected, strict=True):
        for one, other in zip(found, wanted, strict=True):
            # Keras 2 keeps the decays as float32.
            np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)
    again = type(made).from_config(made.get_config())
    np.testing.assert_array_equal(steps(again)[-1][0], steps(type(made)(0.1, **arguments))[-1][0])


class Halving(tf_keras.optimizers.schedules.LearningRateSchedule):
    """Halves the rate at each call."""

    def __init__(self):
        super().__init__()
        self.rate = tf.Variable(1.0)

    def __call__(self, step):
        return self.rate.assign(self.rate / 2)

    def get_config(self):
        return {}


@pytest.mark.parametrize("name", dict.fromkeys(name for name, _, _ in CASES))
def test_an_update_reads_a_schedule_once(name):
    schedule = Halving()
    steps(getattr(optimizers, name)(schedule), 2)
    assert float(schedule.rate) == 0.25


def test_slots_have_the_dtypes_that_were_chosen():
    made = optimizers.AdamIpuOptimizer(m_dtype=tf.float16)
    weight = tf.Variable([1.0, 2.0])
    made.apply_gradients([(tf.constant([1.0, 1.0]), weight)])
    assert made.get_slot_names() == ["m", "v"]
    assert made.get_slot(weight, "m").dtype == tf.float16
    assert made.get_slot(weight, "v").dtype == tf.float32
    assert made.add_slot_with_dtype(weight, "more", tf.float16).dtype == tf.float16


def test_rows_of_a_table_are_updated():
    weight = tf.Variable(np.ones((4, 2), "float32"))
    rows = tf.IndexedSlices(tf.ones((2, 2)), tf.constant([1, 3]), tf.constant([4, 2]))
    optimizers.SGDIpuOptimizer(0.5).apply_gradients([(rows, weight)])
    np.testing.assert_array_equal(weight.numpy()[:, 0], [1, 0.5, 1, 0.5])


def test_a_script_s_optimizer_updates_by_the_methods_of_keras_2():
    class Halving(optimizers.IpuOptimizerBase):
        def __init__(self, name="Halving", **kwargs):
            super().__init__(name, **kwargs)
            self._set_hyper("learning_rate", 0.5)

        def _create_slots(self, var_list):
            for var in var_list:
                self.add_slot(var, "count", "zeros")

        def _resource_apply_dense(self, grad, var, apply_state=None):
            rate = apply_state[(var.device, var.dtype.base_dtype)]["lr_t"]
            return tf.group(
                self.get_slot(var, "count").assign_add(tf.ones_like(var)),
                var.assign_sub(rate * grad),
            )

        def get_config(self):
            return super().get_config()

    made, weight = Halving(), tf.Variable([4.0])
    for _ in range(2):
        made.apply_gradients([(tf.constant([2.0]), weight)])
    assert (float(weight[0]), float(made.get_slot(weight, "count")[0])) == (2.0, 2.0)
    assert made.get_config()["optimizer_compute_precisions"] == ["float32"]


def test_a_checkpoint_restores_the_slots(tmp_path):
    weight = tf.Variable([1.0, 2.0])
    made = optimizers.AdamIpuOptimizer(m_dtype=tf.float16)
    made.apply_gradients([(tf.constant([1.0, 1.0]), weight)])
    path = tf.train.Checkpoint(weight=weight, optimizer=made).save(tmp_path / "file")
    other, again = tf.Variable([0.0, 0.0]), optimizers.AdamIpuOptimizer(m_dtype=tf.float16)
    tf.train.Checkpoint(weight=other, optimizer=again).restore(path)
    again.apply_gradients([(tf.constant([0.0, 0.0]), other)])
    made.apply_gradients([(tf.constant([0.0, 0.0]), weight)])
    np.testing.assert_array_equal(weight, other)
    np.testing.assert_array_equal(made.get_slot(weight, "m"), again.get_slot(other, "m"))


def test_the_loss_scale_is_that_of_keras_3():
    settings = {"update_frequency": 2, "initial_loss_scaling_factor": 16, "increase_factor": 4}
    stock = ours.ALSOptimizer(keras.optimizers.SGD(0.5), **settings)
    made = optimizers.ALSOptimizer(opt=legacy.SGD(0.5), **settings)
    weights = keras.Variable(np.zeros(3), dtype="float16"), tf.Variable(np.zeros(3, "float16"))
    for values in ([1.0, 10000.0, 2.0], [1.0, 1.0, 1.0], [1.0, 1.0, 0.0]):
        for optimizer, weight in zip((stock, made), weights, strict=True):
            optimizer.apply_gradients([(tf.constant(values, tf.float16), weight)])
        for name in ("loss_scaling_factor", "histogram", "update_counter"):
            np.testing.assert_array_equal(getattr(made, name), getattr(stock, name), err_msg=name)
        np.testing.assert_array_equal(*[weight.numpy() for weight in weights])
    assert (float(made.lr), int(made.iterations)) == (0.5, 3)
    assert len(made.variables()) == len(made.weights) == 4 + 1
    made.learning_rate = 0.25
    again = optimizers.ALSOptimizer.from_config(made.get_config())
    assert (again.update_frequency, float(again.inner_optimizer.lr)) == (2, 0.25)
    assert isinstance(again, tf_keras.mixed_precision.LossScaleOptimizer)
    with pytest.raises(ValueError, match="cannot be set any more"):
        made.update_frequency = 3


def test_minimize_scales_the_loss_and_applies_it_unscaled():
    made = optimizers.ALSOptimizer(legacy.SGD(0.5), initial_loss_scaling_factor=8)
    weight = tf.Variable([1.0])
    with tf.GradientTape() as tape:
        loss = 3 * weight[0]
    made.minimize(loss, [weight], tape=tape)
    assert float(weight[0]) == 1 - 0.5 * 3
    assert float(made.get_scaled_loss(tf.constant(2.0))) == 16


class Doubling(legacy.SGD):
    """Its gradients are twice those of the loss, which it multiplies by four meanwhile."""

    def _compute_gradients(self, loss, var_list, grad_loss=None, tape=None):
        with tape:
            loss = 4 * loss
        pairs = super()._compute_gradients(loss, var_list, grad_loss, tape)
        return [(gradient / 2, variable) for gradient, variable in reversed(pairs)]


def test_optimizers_of_scripts_compute_their_gradients():
    weights = [tf.Variable(2.0), tf.Variable(5.0)]
    with tf.GradientTape() as tape:
        loss = weights[0] ** 2 + 3 * weights[1]
    found = TfKerasOptimizer(Doubling()).gradients(tape, loss, weights)
    assert [float(one) for one in found] == [8, 6]


class Joining(legacy.SGD):
    """Joins the gradients of replicas itself, and doubles them."""

    def _aggregate_gradients(self, grads_and_vars):
        return [(2 * gradient, variable) for gradient, variable in grads_and_vars]


def joining(grads_and_vars):
    return [(2 * gradient, variable) for gradient, variable in grads_and_vars]


JOINING = {
    "a method": lambda: Joining(0.5),
    "of a wrapped one": lambda: tf_keras.mixed_precision.LossScaleOptimizer(
        Joining(0.5), dynamic=False, initial_scale=1.0
    ),
    "an argument": lambda: legacy.SGD(0.5, gradient_aggregator=joining),
    "none": lambda: legacy.SGD(1.0),
}


@pytest.mark.parametrize("way", JOINING)
def test_optimizers_of_scripts_join_gradients_their_own_way(way):
    weight = tf.Variable(5.0)
    TfKerasOptimizer(JOINING[way]()).apply([(tf.constant(3.0), weight)])
    assert float(weight) == 5 - 3


@pytest.mark.slow
def test_training_takes_the_gradients_that_an_optimizer_computes():
    how = {"batch_size": 8, "epochs": 2, "shuffle": False}
    made = [lambda: Doubling(0.0625), lambda: legacy.SGD(0.125)]
    strategy = training.strategy_of()
    training.check_equal(
        *(training.trained(strategy, training.sequential, one, **how) for one in made)
    )


def of_updates(optimizer, steps, scale=lambda: 1.0):
    """The variables after some steps of gradients, which a factor scales."""
    weights = [tf.Variable(variable.numpy()) for variable in variables()]
    for of_step in steps:
        scaled = [gradient * scale() for gradient in of_step]
        optimizer.apply_gradients(zip(scaled, weights, strict=True))
    return [weight.numpy() for weight in weights]


def of_sums(steps, every):
    """The gradients of the updates of so many steps."""
    return [
        [tf.add_n(parts) for parts in zip(*steps[begin : begin + every], strict=True)]
        for begin in range(0, len(steps), every)
    ]


@pytest.mark.parametrize("kind", ["legacy", "new"])
def test_an_optimizer_accumulates_gradients_of_several_steps(kind):
    inner = legacy.Adam if kind == "legacy" else tf_keras.optimizers.Adam
    made = optimizers.GradientAccumulationOptimizer(inner(0.1), 3)
    found = of_updates(made, gradients(6))
    for one, other in zip(found, of_updates(inner(0.1), of_sums(gradients(6), 3)), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6)
    assert int(made.iterations) == 2
    made.learning_rate = 0.5
    assert float(made.inner_optimizer.learning_rate) == 0.5
    again = type(made).from_config(made.get_config())
    assert (again.num_mini_batches, float(again.learning_rate)) == (3, 0.5)
    assert (
        len(made.variables()) == len(made.weights) == 1 + 2 + len(made.inner_optimizer.variables())
    )


def test_accumulators_have_a_type_of_their_own_and_are_in_checkpoints(tmp_path):
    def make():
        return optimizers.GradientAccumulationOptimizer(
            legacy.SGD(1.0), 2, dtype="float16", reduction_method="mean"
        )

    weight, other = tf.Variable([1.0]), tf.Variable([0.0])
    first, second = make(), make()
    first.apply_gradients([(tf.constant([2.0]), weight), (None, tf.Variable(0.0))])
    assert first.get_slot(weight, "gradient_accumulator").dtype == tf.float16
    path = tf.train.Checkpoint(weight=weight, optimizer=first).save(tmp_path / "file")
    tf.train.Checkpoint(weight=other, optimizer=second).restore(path)
    for optimizer, one in ((first, weight), (second, other)):
        optimizer.apply_gradients([(tf.constant([4.0]), one)])
        assert float(one[0]) == 1 - (2 + 4) / 2


def test_the_accumulation_unscales_for_an_optimizer_that_scales_losses():
    scaling = tf_keras.mixed_precision.LossScaleOptimizer
    inner = scaling(legacy.SGD(0.5), dynamic=False, initial_scale=8.0)
    made, weight = optimizers.GradientAccumulationOptimizer(inner, 2), tf.Variable([1.0])
    for _ in range(2):
        with tf.GradientTape() as tape:
            loss = 3 * weight[0]
        made.minimize(loss, [weight], tape=tape)
    assert float(weight[0]) == 1 - 0.5 * (3 + 3)
    assert float(made.get_scaled_loss(tf.constant(2.0))) == 16


def test_loss_scaling_and_accumulation_in_one():
    als = optimizers.ALSOptimizer(legacy.SGD(0.1), update_frequency=1)
    made = optimizers.ALSGradientAccumulationOptimizer(als, 3, name="both")
    assert isinstance(made, optimizers.GradientAccumulationOptimizer)
    found = of_updates(made, gradients(6), scale=lambda: made.loss_scaling_factor)
    for one, other in zip(
        found, of_updates(legacy.SGD(0.1), of_sums(gradients(6), 3)), strict=True
    ):
        np.testing.assert_allclose(one, other, rtol=1e-6)
    assert float(made.loss_scaling_factor) == float(made.loss_scale) == 2.0**2
    assert float(made.get_scaled_loss(tf.constant(2.0))) == 2.0**3
    assert int(made.iterations) == 2
    again = type(made).from_config(made.get_config())
    assert (again.name, again.num_mini_batches, again.update_frequency) == ("both", 3, 1)
    assert len(made.weights) == 4 + 1 + 2 + 1
    with pytest.raises(ValueError, match="only be used with instances of ALSOptimizer"):
        optimizers.ALSGradientAccumulationOptimizer(ours.ALSOptimizer(keras.optimizers.SGD()), 2)


@pytest.mark.parametrize("kind", ["als", "both"])
def test_compile_adds_no_second_loss_scaling(kind):
    made = optimizers.ALSOptimizer(legacy.SGD(0.1))
    if kind == "both":
        made = optimizers.ALSGradientAccumulationOptimizer(made, 2)
    model = tf_keras.Sequential([tf_keras.layers.Dense(1)])
    before = tf_keras.mixed_precision.global_policy()
    tf_keras.mixed_precision.set_global_policy("mixed_float16")
    try:
        model.compile(made, "mse")
    finally:
        tf_keras.mixed_precision.set_global_policy(before)
    assert model.optimizer is made


NAMED = {
    "ALSOptimizerAdam": (legacy.Adam, (0.1, 0.8, 0.9, 1e-3)),
    "ALSOptimizerSGD": (legacy.SGD, (0.1, 0.5)),
    "ALSOptimizerRMSProp": (legacy.RMSprop, (0.1, 0.8, 0.5, 1e-3, True)),
}


@pytest.mark.parametrize("name", NAMED)
def test_named_optimizers_are_their_optimizers_with_loss_scaling(name):
    inner, arguments = NAMED[name]
    made = getattr(optimizers, name)(*arguments, 4, update_frequency=2)
    assert type(made.inner_optimizer) is inner
    assert (made.initial_loss_scaling_factor, made.update_frequency) == (4, 2)
    wrapped = optimizers.ALSOptimizer(inner(*arguments), 4, 2)
    for one, other in zip(
        of_updates(made, gradients(3)), of_updates(wrapped, gradients(3)), strict=True
    ):
        np.testing.assert_array_equal(one, other)
    again = type(made).from_config(made.get_config())
    assert again.get_config() == made.get_config()
    schedule = tf_keras.optimizers.schedules.ExponentialDecay(0.1, 10, 0.5)
    config = type(made)(schedule).get_config()
    assert type(made).from_config(config).get_config() == config


def test_every_optimizer_has_a_twin():
    assert not set(ours.__all__) - set(optimizers.__all__)


@pytest.mark.slow
def test_optimizers_train_models_of_the_scope_as_in_stock_tf_keras():
    def equal(make, stock_make=None):
        how = {"batch_size": 8, "epochs": 2, "shuffle": False}
        found = training.trained(training.strategy_of(), training.functional, make, steps=6, **how)
        stock = training.trained(None, training.functional, stock_make or make, **how)
        training.check_equal(found, stock)

    equal(lambda: optimizers.AdamIpuOptimizer(0.05, m_dtype=tf.float16))
    equal(
        lambda: optimizers.ALSOptimizer(legacy.SGD(0.1), initial_loss_scaling_factor=64),
        lambda: legacy.SGD(0.1),
    )


def test_optimizers_of_scripts_get_a_list_of_pairs():
    class Backwards(tf_keras.optimizers.SGD):
        def apply_gradients(self, grads_and_vars):
            return super().apply_gradients(reversed(grads_and_vars))

    weight = tf.Variable(1.0)
    TfKerasOptimizer(Backwards(0.5)).apply(zip([tf.constant(1.0)], [weight], strict=True))
    assert weight.numpy() == 0.5


class OwnMinimize(tf_keras.optimizers.SGD):
    """An optimizer of a script that updates otherwise than by its gradients."""

    def minimize(self, loss, var_list, tape=None):
        raise AssertionError


@pytest.mark.slow
def test_a_minimize_of_a_script_is_not_accumulated_below_a_loss_scale():
    scaled = tf_keras.mixed_precision.LossScaleOptimizer(OwnMinimize(0.1))
    with training.strategy_of().scope():
        model = training.functional()
        model.compile(scaled, "mse", steps_per_execution=2)
        model.fit(training.X, training.X[:, :3], batch_size=8, verbose=0)  # Stock scales by itself.
        model.set_gradient_accumulation_options(2)
        with pytest.raises(ValueError, match="must not override.*Received: OwnMinimize"):
            model.fit(training.X, training.X[:, :3], batch_size=8, verbose=0)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["plain", "als"])
def test_an_optimizer_accumulates_gradients_of_models_of_the_scope(kind):
    def make():
        if kind == "plain":
            return optimizers.GradientAccumulationOptimizer(
                legacy.SGD(0.1), 2, reduction_method="mean"
            )
        als = optimizers.ALSOptimizer(legacy.SGD(0.1), initial_loss_scaling_factor=64)
        return optimizers.ALSGradientAccumulationOptimizer(als, 2, reduction_method="mean")

    how = {"epochs": 2, "shuffle": False}
    strategy = training.strategy_of()
    found, _ = training.trained(
        strategy, training.sequential_of_dense, make, steps=6, batch_size=4, **how
    )
    stock, _ = training.trained(
        None, training.sequential_of_dense, lambda: legacy.SGD(0.1), batch_size=8, **how
    )
    training.check_equal_weights(found, stock)
    assert int(found.optimizer.iterations) == 12
    device = strategy.report(insights=False).programs[0].device
    assert "SGD" in {row.layer for row in figures.layers(device)}


def test_optimizers_of_both_kinds_sum_over_replicas_themselves():
    for made in (legacy.SGD(0.1), tf_keras.optimizers.SGD(0.1)):
        assert optimizers.CrossReplicaOptimizer(made) is made
    with pytest.raises(TypeError, match="`opt` must be a Keras optimizer"):
        optimizers.CrossReplicaOptimizer("sgd")


class Reading(legacy.SGD):
    """A script's optimizer that keeps the captured gradients that it gets."""

    supports_captured_grads = True

    def apply_gradients(self, grads_and_vars, captured_grads=None):
        self.seen = captured_grads
        return super().apply_gradients(grads_and_vars)


def test_optimizers_of_scripts_get_captured_gradients(monkeypatch):
    captured = {"dense": tf.constant(3.0)}
    monkeypatch.setattr(grad_util_ops, "take_captured_gradients", lambda: captured)
    weight, made = tf.Variable(1.0), Reading(0.5)
    with tf.GradientTape() as tape:
        loss = 2 * weight
    TfKerasOptimizer(made).update(tape, loss, [weight])
    assert made.seen is captured
    assert weight.numpy() == 0
    with pytest.raises(NotImplementedError, match="Reading takes captured gradients"):
        CapturedGradientCounts(made).add()


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(lambda: legacy.SGD(0.1, momentum=0.9, nesterov=True), id="momentum"),
        pytest.param(lambda: legacy.SGD(0.1), id="plain"),
        pytest.param(lambda: legacy.Adam(0.01), id="adam"),
        pytest.param(lambda: legacy.Adamax(0.01), id="adamax"),
        pytest.param(lambda: legacy.Adagrad(0.1), id="adagrad"),
        pytest.param(lambda: legacy.Adadelta(0.5), id="adadelta"),
        pytest.param(lambda: legacy.RMSprop(0.01), id="rmsprop"),
        pytest.param(lambda: legacy.RMSprop(0.01, centered=True), id="centered"),
        pytest.param(lambda: legacy.Ftrl(0.1), id="ftrl"),
    ],
)
@pytest.mark.fast_cells(1)
@pytest.mark.slow
def test_loops_with_legacy_optimizers_compile_by_xla_and_equal_stock(monkeypatch, caplog, make):
    monkeypatch.setattr(jitting, "JITTED_STEPS", 1)
    monkeypatch.setattr(jitting, "STEPS_PER_OPERATION", 0)
    how = {"shuffle": False, "epochs": 2, "batch_size": 8}
    with caplog.at_level(logging.INFO, jitting.__name__):
        ours = training.trained(
            training.strategy_of(), training.sequential_of_dense, make, steps=6, **how
        )
    assert "is compiled by XLA" in caplog.text
    training.check_equal(ours, training.trained(None, training.sequential_of_dense, make, **how))
