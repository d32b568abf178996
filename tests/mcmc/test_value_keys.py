"""Keys of functions: equal where a trace is, and unequal or none wherever it might not be."""

import functools
import sys
import types
import warnings
from typing import NamedTuple

import numpy as np
import pytest
import tensorflow as tf

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import tensorflow_probability as tfp

    from ipu_tf import mcmc
    from ipu_tf.mcmc.value_keys import NoKey, key_of

pytestmark = pytest.mark.filterwarnings("ignore")

tfd, tfb, tfm = tfp.distributions, tfp.bijectors, tfp.mcmc


class Draw(NamedTuple):
    state: object


def with_closure(value):
    return lambda state, results: (state, value)


def with_default(value):
    return lambda state, results, scale=value: (state, scale)


def with_keyword_default(value):
    return lambda state, results, *, scale=value: (state, scale)


def with_attribute(value):
    def function(state, results):
        return state, function.scale

    function.scale = value
    return function


def partial(value):
    return functools.partial(with_closure(1), scale=value)


def nested(value):
    inner = with_closure(value)
    return lambda state, results: inner(state, results)


def code(source, **names):
    """A function of source text, with globals of its own."""
    exec(compile(source, "<cell>", "exec"), names)
    return names["function"]


READS_GLOBAL = "def function(state, results): return state * scale"
READS_IN_LAMBDA = "def function(state, results): return (lambda: state * scale)()"
READS_MODULE = "def function(state, results): return state * settings.scale"
READS_FUNCTION = "def helper(): return scale\ndef function(state, results): return state * helper()"
CALLS_ITSELF = "def function(state, results): return scale or function(state, results)"


def module(value):
    found = types.ModuleType("settings")
    found.scale = value
    return found


WAYS = {
    "closure": with_closure,
    "default": with_default,
    "keyword": with_keyword_default,
    "attribute": with_attribute,
    "partial": partial,
    "nested": nested,
    "global": lambda value: code(READS_GLOBAL, scale=value),
    "global in a lambda": lambda value: code(READS_IN_LAMBDA, scale=value),
    "global of a global": lambda value: code(READS_FUNCTION, scale=value),
    "recursion": lambda value: code(CALLS_ITSELF, scale=value),
    "tuple": lambda value: with_closure((1, [value, {"scale": value}])),
    "named tuple": lambda value: with_closure(Draw(value)),
    "log-density": lambda value: tfm.RandomWalkMetropolis(with_closure(value)),
    "kernel in a kernel": lambda value: tfm.SimpleStepSizeAdaptation(
        tfm.HamiltonianMonteCarlo(with_closure(value), 0.1, 3), num_adaptation_steps=2
    ),
}
"""Ways in which a function may depend on a value."""

VALUES = [
    *(0, 1, True, 0.0, -0.0, 1.0, 1j, None, "1", b"1", (), [], {}, float("nan"), float("inf")),
    *(np.float32(1), np.float64(1), np.int32(1), np.ones(1, "f"), np.ones((1, 1), "f")),
    *(np.zeros(1, "f"), tf.ones(1), tf.ones([1, 1]), tf.zeros(1), tf.float32, tf.TensorShape([1])),
    *(tf.reduce_sum, tf.reduce_mean, np.tanh, abs, tf, np, int, float, mcmc.statistics),
    *(tfd.Normal(0.0, 1.0), tfd.Normal(0.0, 2.0), tfb.Exp(), tfb.Softplus()),
]
"""Values each of which makes another function."""


def key(value):
    """Returns the key of a value, None for none."""
    try:
        return key_of(value)
    except NoKey:
        return None


@pytest.mark.parametrize("way", WAYS)
def test_functions_made_alike_have_one_key(way):
    for value in (2, 0.5, "text", None, float("nan")):
        assert hash(key_of(WAYS[way](value))) == hash(key_of(WAYS[way](value)))
        assert key_of(WAYS[way](value)) == key_of(WAYS[way](value))


@pytest.mark.parametrize("way", ["closure", "default", "global", "log-density"])
def test_functions_of_other_values_have_other_keys(way):
    keys = [key(WAYS[way](value)) for value in VALUES]
    assert sum(one is not None for one in keys) > 30
    for index, one in enumerate(keys):
        assert one is None or all(one != other for other in keys[:index])


@pytest.mark.parametrize("way", WAYS)
def test_whatever_way_a_value_comes_it_counts(way):
    for first, second in ((1, 2), (1, 1.0), (1, True), (0.0, -0.0), ("a", b"a"), (0, None)):
        assert key(WAYS[way](first)) != key(WAYS[way](second))


def test_one_function_has_another_key_once_what_it_reads_has_changed():
    numbers, scale = np.ones(3), 1
    settings = module(1)

    def function(state, results):
        return state * numbers * scale

    of_global, of_module = code(READS_GLOBAL, scale=1), code(READS_MODULE, settings=settings)
    functions = {"closure": function, "global": of_global}
    before = {name: key_of(one) for name, one in functions.items()}
    numbers[1] = 2
    of_global.__globals__["scale"] = 2
    after = {name: key_of(one) for name, one in functions.items()}
    assert all(after[name] != before[name] for name in functions)
    scale = 3
    assert key_of(function) not in (before["closure"], after["closure"])
    of_global.__globals__["scale"] = 1
    assert key_of(of_global) == before["global"]

    sys.modules.pop("settings", None)
    first = key_of(of_module)
    settings.scale = 2
    assert key_of(of_module) != first
    settings.__getattr__ = lambda name: 1
    assert key(of_module) is None


def test_variables_are_themselves():
    one, other = tf.Variable(1.0), tf.Variable(1.0)
    assert key_of(with_closure(one)) == key_of(with_closure(one))
    assert key_of(with_closure(one)) != key_of(with_closure(other))
    before = key_of(with_closure(one))
    one.assign(2.0)  # A program reads it when it runs.
    assert key_of(with_closure(one)) == before


def test_equal_code_elsewhere_has_a_key_of_its_own():
    """Python compares code without its file, and methods delegate to their code."""
    assert code(READS_GLOBAL, scale=1).__code__ == code(READS_GLOBAL, scale=2).__code__
    normal, wide = tfd.Normal(0.0, 1.0), tfd.Normal(0.0, 2.0)
    assert normal.log_prob.__code__ == wide.log_prob.__code__
    assert key_of(normal.log_prob) != key_of(wide.log_prob)
    assert key_of(normal.log_prob) == key_of(tfd.Normal(0.0, 1.0).log_prob)


class Model:
    scale = 1

    def log_density(self, z):
        return z * self.scale

    def __call__(self, z):
        return self.log_density(z)


class Chatty(NamedTuple):
    state: object

    def scaled(self):
        return self.state * Model.scale


class Kernel(tfm.TransitionKernel):
    is_calibrated = True
    parameters = {}  # noqa: RUF012

    def one_step(self, current_state, previous_kernel_results, seed=None):
        return current_state * Model.scale, previous_kernel_results

    def bootstrap_results(self, init_state):
        return ()


def holding_itself():
    values = []
    values.append(values)
    return values


def importing():
    def function(state, results):
        import tests.networks

        return tests.networks

    return function


def generator():
    yield 1


@pytest.mark.parametrize(
    "value",
    [
        *(Model(), Model().log_density, Model, Chatty, Chatty(1), Kernel()),
        *(holding_itself(), importing(), generator(), [].append, {1}, object()),
        *(np.array([Model()]), np.ma.masked_array([1.0]), types.SimpleNamespace(scale=1)),
        functools.lru_cache(with_closure(1)),
        tf.random.Generator.from_seed(1),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_may_change_unseen_has_no_key(value):
    for one in (value, with_closure(value), with_default(value), code(READS_GLOBAL, scale=value)):
        with pytest.raises(NoKey):
            key_of(one)


def test_tensors_of_graphs_have_no_key():
    with tf.Graph().as_default(), pytest.raises(NoKey):
        key_of(tf.constant(1.0))


def test_a_cell_without_a_value_is_no_error():
    def function(state, results):
        return later

    before = key_of(function)
    later = 1
    assert key_of(function) != before


@tf.function
def compiled(z):
    return -tf.reduce_sum(z**2)


def log_density(z):
    return -tf.reduce_sum((z - DATA) ** 2)


DATA = np.ones(2, "float32")


def pinned():
    joint = tfd.JointDistributionSequential(
        [tfd.Normal(0.0, 1.0), lambda mean: tfd.Normal(mean, 1.0)]
    )
    density = joint.experimental_pin(None, 2.0).unnormalized_log_prob
    return tfm.HamiltonianMonteCarlo(lambda mean: density(mean), 0.1, 3)


@pytest.mark.fast_cells(3)
@pytest.mark.parametrize(
    "make",
    [
        lambda: tfm.HamiltonianMonteCarlo(log_density, 0.1, 3),
        lambda: tfm.HamiltonianMonteCarlo(compiled, tf.constant(0.1), 3),
        lambda: tfm.NoUTurnSampler(log_density, 0.1),
        lambda: tfm.SliceSampler(log_density, 0.1, 2),
        lambda: tfm.MetropolisAdjustedLangevinAlgorithm(log_density, 0.1),
        lambda: tfm.DualAveragingStepSizeAdaptation(tfm.NoUTurnSampler(log_density, 0.1), 5),
        lambda: tfm.TransformedTransitionKernel(
            tfm.HamiltonianMonteCarlo(log_density, 0.1, 3), [tfb.Exp()]
        ),
        pinned,
    ],
)
def test_kernels_of_the_library_have_keys(make):
    assert key_of(make()) == key_of(make())
