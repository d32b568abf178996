"""Methods of TensorFlow and Keras are replaced while something needs it, and put back after."""

import gc
import inspect
import threading

import keras
import pytest
import tensorflow as tf

from ipu_tf import IPUStrategy
from ipu_tf.compat.document import replaced_methods
from ipu_tf.compat.spellings.table import SPELLINGS
from ipu_tf.compat.tf_keras.habits import SPELLINGS as HABITS
from ipu_tf.internals import patches, tf_keras
from ipu_tf.keras import PipelineStage

TRACING = (
    patches.OP_CREATION,
    patches.NAME_SCOPES,
    patches.CONCRETE_CALLS,
    patches.TRACE_KEYS,
    patches.SIGNATURES,
    patches.JITTED_CONTEXTS,
    patches.OPTIONALS,
    patches.BRANCH_CAPTURES,
    patches.GRADIENT_LOOKUP,
    patches.SCALED_LOSSES,
    patches.FINITE_GRADIENTS,
)
SCOPE = (
    patches.DATASET_ITERATION,
    patches.GRAPH_RESETS,
    patches.MODEL_CREATION,
    patches.REMATERIALIZATION,
    *patches.ADAPTATIONS,
)
PROFILED = (patches.FUNCTION_CALLS, *patches.CHECKPOINT_FILES)
METHOD = (patches.NAN_STOPS,)
TABLE = (*patches.patches_of(patches), *replaced_methods())
STAGE = (patches.LAYER_CREATION, patches.LAYER_CALLS)
IN_TF_KERAS = tf_keras.LAYER_CREATION.owner, tf_keras.LAYER_CREATION.name
STAGE_OF_TF_KERAS = [patch for patch in TABLE if (patch.owner, patch.name) == IN_TF_KERAS]
TRACE = (*TRACING, *SCOPE)  # `run` is in the scope of its strategy.


def present(patch):
    return inspect.getattr_static(patch.owner, patch.name, None)


@pytest.fixture(scope="module")
def no_strategies_of_others():
    gc.collect()  # Profiled strategies, say.


@pytest.fixture
def stock(no_strategies_of_others):
    return {patch: present(patch) for patch in TABLE}


def replaced(stock):
    return {patch for patch in TABLE if present(patch) is not stock[patch]}


def test_the_room_has_the_methods_that_runs_replace_alone():
    listed = [*patches.patches_of(patches)]
    assert {*TRACE, *STAGE, *PROFILED, *METHOD} == {*listed}
    assert len({str(patch) for patch in listed}) == len(listed)


def test_every_method_that_a_spelling_replaces_is_listed_once():
    listed = replaced_methods()
    of_limit = {patch for patch in listed if patch.reason == "loops of the host are tried out, too"}
    methods = [(patch.owner, patch.name) for patch in listed if patch not in of_limit]
    assert len({*methods}) == len(methods)
    named = {patch for one in (*SPELLINGS, *HABITS) for patch in (*one.rewrites, *one.wraps)}
    ours = {patch for patch in named if patch not in listed}
    assert all(patch.owner.__module__.startswith("ipu_tf") for patch in ours)
    of_tensorflow_1 = {"Session.__init__", "InteractiveSession.__init__", "Dimension.__init__"}
    assert {str(one) for one in {*listed} - named - of_limit} == {
        *of_tensorflow_1,
        "Options.experimental_stats",
    }


def test_methods_are_replaced_while_they_are_needed_and_put_back(stock):
    seen = {}

    @tf.function
    def product(x):
        seen["trace"] = replaced(stock)
        return x @ x

    with IPUStrategy().scope():
        seen["scope"] = replaced(stock)
        with PipelineStage(0):
            seen["stage"] = replaced(stock)
        keras.Sequential([keras.layers.Dense(2)])
    strategy = IPUStrategy()
    strategy.run(product, args=(tf.ones([4, 4]),))
    assert seen == {
        "scope": {*SCOPE},
        "stage": {*SCOPE, *STAGE, *STAGE_OF_TF_KERAS},
        "trace": {*TRACE},
    }
    assert replaced(stock) == set()
    assert [tile_op.op_type for tile_op in strategy.report().programs[0].tile_ops] == ["MatMul"]


def test_methods_are_replaced_while_a_strategy_is_profiled(stock):
    strategy = IPUStrategy(profile=True)
    assert replaced(stock) == {*PROFILED}
    del strategy
    gc.collect()
    assert replaced(stock) == set()


def test_what_is_stock_is_not_ours_after_a_run(stock):
    """Another test may have left behind the methods that the fixture saw."""

    def module(method):
        if isinstance(method, dict):
            return (type(method).__module__,)
        method = method.fget if isinstance(method, property) else method
        function = getattr(method, "__func__", method)
        return inspect.unwrap(function).__module__, function.__code__.co_filename

    ours = [
        patch
        for patch in TABLE
        if stock[patch] is not None and "ipu_tf" in "".join(module(stock[patch]))
    ]
    assert ours == []


def test_an_error_puts_methods_back(stock):
    @tf.function
    def fails(x):
        raise RuntimeError("in the trace")

    strategy = IPUStrategy()
    with pytest.raises(RuntimeError, match="in the trace"), strategy.scope():
        strategy.run(fails, args=(tf.ones([4, 4]),))
    assert replaced(stock) == set()


def test_a_patch_that_fails_to_open_leaves_none(stock):
    missing = patches.Patch(keras.Model, "no_such_method", "nothing")
    wrap = {patches.LAYER_CALLS: lambda method: print, missing: lambda method: None}
    with pytest.raises(AttributeError, match="no_such_method"), patches.installed(wrap):
        pass
    assert replaced(stock) == set()


class Threads:
    """Runs traces on threads that wait for one another."""

    def __init__(self):
        self.inside, self.go_on = threading.Event(), threading.Event()

    def trace(self):
        @tf.function(autograph=False)
        def product(x):
            self.inside.set()
            assert self.go_on.wait(60)
            return x @ x

        self.strategy = IPUStrategy()
        self.strategy.run(product, args=(tf.ones([4, 4]),))


def op_types(function, *arguments):
    graph = function.get_concrete_function(*arguments).graph
    return {op.type for op in graph.get_operations()}


def test_traces_of_two_threads_overlap(stock):
    first, second = Threads(), Threads()
    threads = [threading.Thread(target=one.trace) for one in (first, second)]
    for one, thread in zip((first, second), threads, strict=True):
        thread.start()
        assert one.inside.wait(60)
    first.go_on.set()
    threads[0].join(60)
    assert replaced(stock) == {*TRACE}  # The second still traces.
    second.go_on.set()
    threads[1].join(60)
    assert replaced(stock) == set()
    for one in (first, second):
        assert len(one.strategy.report().programs[0].tile_ops) == 1


def test_a_thread_that_does_not_trace_gets_stock_ops(stock):
    other = Threads()
    thread = threading.Thread(target=other.trace)
    thread.start()
    assert other.inside.wait(60)
    try:
        assert replaced(stock) == {*TRACE}
        assert "MatMul" in op_types(tf.function(lambda x: x @ x), tf.ones([4, 4]))
    finally:
        other.go_on.set()
        thread.join(60)
