"""Options that steer numerics act: overflow, exceptions, rounding, partials, memory."""

import logging

import numpy as np
import pytest
import tensorflow as tf

from ipu_tf import IPUConfig, IPUOutOfMemoryError, IPUStrategy, config, ops, scopes, utils
from ipu_tf.config import StochasticRoundingBehaviour
from ipu_tf.planner.plan import PlanDoesNotFit


@pytest.fixture
def configured():
    """Returns a function that configures a 16-tile IPU and gives a strategy on it."""

    def configure(**options):
        cfg = IPUConfig()
        cfg.ipu_model.tiles_per_ipu = 16
        for name, value in options.items():
            category, option = name.split("__")
            setattr(getattr(cfg, category), option, value)
        cfg.configure_ipu_system()
        return IPUStrategy(enable_keras_extensions=False)

    yield configure
    config.reset_ipu_configuration()


def half(values):
    return tf.constant(values, tf.float16)


@tf.function
def product(a, b):
    return tf.matmul(a, b)


@tf.function
def to_half(x):
    return tf.cast(x, tf.float16)


class TestNanOnOverflow:
    big = half([[60000.0, 60000.0]])
    ones = half([[1.0], [1.0]])

    def test_off_saturates(self, configured):
        strategy = configured()
        assert strategy.run(product, args=(self.big, self.ones))[0, 0] == 65504.0
        assert strategy.run(to_half, args=(tf.constant([-1e6]),))[0] == -65504.0

    def test_on_gives_nan(self, configured):
        strategy = configured(floating_point_behaviour__nanoo=True)
        assert np.isnan(strategy.run(product, args=(self.big, self.ones))[0, 0])
        assert np.isnan(strategy.run(to_half, args=(tf.constant([-1e6]),))[0])


class TestExceptions:
    @pytest.mark.parametrize(
        ("option", "fn", "argument", "words"),
        [
            ("inv", lambda x: tf.sqrt(x), -1.0, "invalid operation.*Sqrt"),
            ("div0", lambda x: 1.0 / x, 0.0, "division by zero.*RealDiv"),
            ("oflo", lambda x: tf.exp(x), 1000.0, "overflow.*Exp"),
        ],
    )
    def test_each_fails_the_program(self, configured, option, fn, argument, words):
        step = tf.function(fn)
        value = tf.constant([argument])
        configured().run(step, args=(value,))
        strategy = configured(**{f"floating_point_behaviour__{option}": True})
        with pytest.raises(tf.errors.InvalidArgumentError, match=words):
            strategy.run(step, args=(value,))

    def test_good_values_pass(self, configured):
        strategy = configured(floating_point_behaviour__set_all=True)
        step = tf.function(lambda x: tf.sqrt(tf.exp(x) / x))
        np.testing.assert_allclose(
            strategy.run(step, args=(tf.constant([2.0]),)), np.sqrt(np.exp(2.0) / 2), rtol=1e-6
        )

    def test_inside_of_a_loop(self, configured):
        strategy = configured(floating_point_behaviour__oflo=True)

        @tf.function
        def step(x):
            for _ in tf.range(20):
                x = x * x
            return x

        with pytest.raises(tf.errors.InvalidArgumentError, match="overflow.*Mul"):
            strategy.run(step, args=(tf.constant([10.0]),))


class TestStochasticRounding:
    a = half(np.linspace(0.9, 1.1, 64).reshape(1, 64))
    b = half(np.linspace(0.3, 0.7, 64 * 32).reshape(64, 32))

    def results(self, strategy, seed, runs=3):
        utils.reset_ipu_seed(seed)
        return np.stack([strategy.run(product, args=(self.a, self.b)) for _ in range(runs)])

    def test_a_seed_reproduces_it(self, configured):
        strategy = configured(floating_point_behaviour__esr=StochasticRoundingBehaviour.ON)
        first = self.results(strategy, 7)
        np.testing.assert_array_equal(first, self.results(strategy, 7))
        assert (first != self.results(strategy, 8)).any()

    def test_every_run_draws_anew(self, configured):
        strategy = configured(floating_point_behaviour__esr=StochasticRoundingBehaviour.ON)
        first, second, _ = self.results(strategy, 7)
        assert (first != second).any()

    def test_it_rounds_to_one_of_two_neighbours_and_is_unbiased(self, configured):
        exact = np.matmul(self.a.numpy().astype("f8"), self.b.numpy().astype("f8"))
        strategy = configured(floating_point_behaviour__esr=StochasticRoundingBehaviour.ON)
        drawn = self.results(strategy, 7, runs=200).astype("f8")
        spacing = np.spacing(exact.astype("f2")).astype("f8")
        assert (np.abs(drawn - exact) <= spacing).all()
        assert (np.abs(drawn.mean(axis=0) - exact) < spacing / 4).all()

    def test_the_scope_switches_it_off(self, configured):
        strategy = configured(floating_point_behaviour__esr=StochasticRoundingBehaviour.ON)
        with scopes.stochastic_rounding(False):
            first, second, _ = self.results(strategy, 7)
        np.testing.assert_array_equal(first, second)

    def test_the_scope_switches_it_on(self, configured):
        strategy = configured()
        with scopes.stochastic_rounding(True):
            first, second, _ = self.results(strategy, 7)
        assert (first != second).any()

    def test_a_loop_is_reproducible(self, configured):
        strategy = configured(floating_point_behaviour__esr=StochasticRoundingBehaviour.ON)

        @tf.function
        def step(a, b):
            return tf.map_fn(lambda row: tf.linalg.matvec(b, row), a)

        a, b = tf.tile(self.a, [16, 1]), tf.transpose(self.b)
        runs = []
        for _ in range(5):
            utils.reset_ipu_seed(3)
            runs.append(strategy.run(step, args=(a, b)))
        for run in runs[1:]:
            np.testing.assert_array_equal(run, runs[0])

    def test_casts_round_stochastically(self, configured):
        strategy = configured(floating_point_behaviour__esr=StochasticRoundingBehaviour.ON)
        utils.reset_ipu_seed(1)
        between = 1.0 + 2.0**-12
        drawn = strategy.run(to_half, args=(tf.fill([4000], between),)).numpy().astype("f8")
        assert set(drawn) == {1.0, 1.0 + 2.0**-10}
        assert abs(drawn.mean() - between) < 2.0**-10 / 20


class TestPlannerOptions:
    @pytest.mark.parametrize("category", ["matmuls", "convolutions"])
    def test_partials_type(self, configured, category):
        configured(**{f"{category}__poplar_options": {"partialsType": "half"}})
        matmul = ops.plan_of(
            ops.matmul, tf.zeros([4, 32], tf.float16), tf.zeros([32, 4], tf.float16)
        )
        image, kernel = tf.zeros([1, 4, 4, 16], tf.float16), tf.zeros([1, 1, 16, 4], tf.float16)
        conv = ops.plan_of(ops.conv2d, image, kernel, 1, "SAME")
        expected = {"matmuls": ("float16", "float32"), "convolutions": ("float32", "float16")}
        assert (matmul.partials, conv.partials) == expected[category]

    def test_available_memory_proportion_limits_plans(self, configured):
        configured(matmuls__poplar_options={"availableMemoryProportion": "0.01"})
        with pytest.raises(PlanDoesNotFit, match="0.01"):
            ops.matmul(tf.zeros([64, 64]), tf.zeros([64, 64]), plan=ops.MatMulPlan(grain=8))

    def test_out_of_memory_raises(self, configured):
        strategy = configured()
        big = tf.zeros([2048, 2048])
        with pytest.raises(IPUOutOfMemoryError, match="Program 'product' does not fit on a bow"):
            strategy.run(product, args=(big, big))

    def test_out_of_memory_warns(self, configured, caplog):
        strategy = configured(simulator__out_of_memory="warn")
        big = tf.ones([2048, 2048])
        with caplog.at_level(logging.WARNING, logger="ipu_tf"):
            result = strategy.run(product, args=(big, big))
        assert float(result[0, 0]) == 2048.0
        assert "Program 'product' does not fit on a bow IPU" in caplog.text
