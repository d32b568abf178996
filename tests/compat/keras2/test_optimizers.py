"""Optimizers written for Keras 2 train as they did."""

import abc

import keras
import numpy as np
import pytest
import tensorflow as tf

from ipu_tf import IPUConfig, IPUStrategy
from ipu_tf.ipu_outfeed_queue import IPUOutfeedQueue
from ipu_tf.keras.optimizers import ALSOptimizer, IpuOptimizerBase

X = np.random.default_rng(1).random((8, 4), dtype=np.float32)
Y = X.sum(axis=1, keepdims=True)


def fit(optimizer, *, strategy=None, steps_per_execution=1, accumulation=None):
    """The kernel of a linear model after two epochs of four batches."""
    with (strategy or tf.distribute.get_strategy()).scope():
        model = keras.Sequential(
            [keras.Input((4,)), keras.layers.Dense(1, kernel_initializer="zeros", use_bias=False)]
        )
        optimizer = optimizer() if callable(optimizer) else optimizer
        model.compile(optimizer, "mse", steps_per_execution=steps_per_execution)
        if accumulation:
            model.set_gradient_accumulation_options(gradient_accumulation_steps_per_replica=2)
        model.fit(X, Y, batch_size=2, epochs=2, shuffle=False, verbose=0)
    return model.get_weights()[0]


def ipus(count):
    config = IPUConfig()
    config.auto_select_ipus = count
    config.configure_ipu_system()
    return IPUStrategy()


def momentum_class():
    """SGD with momentum, written against the base class of Keras 2."""
    from keras.optimizer_v2 import optimizer_v2

    class Momentum(optimizer_v2.OptimizerV2):
        def __init__(self, learning_rate=0.01, momentum=0.5, name="Momentum", **kwargs):
            super().__init__(name, **kwargs)
            self._set_hyper("learning_rate", kwargs.get("lr", learning_rate))
            self._set_hyper("decay", self._initial_decay)
            self._set_hyper("momentum", momentum)

        def _create_slots(self, var_list):
            for var in var_list:
                self.add_slot(var, "momentum")

        def _resource_apply_dense(self, grad, var, apply_state=None):
            device, dtype = var.device, var.dtype.base_dtype
            coefficients = (apply_state or {}).get((device, dtype)) or self._fallback_apply_state(
                device, dtype
            )
            momentum = self.get_slot(var, "momentum")
            rate = coefficients["lr_t"]
            momentum.assign(self._get_hyper("momentum", dtype) * momentum - rate * grad)
            return var.assign_add(momentum, use_locking=self._use_locking)

        def get_config(self):
            config = super().get_config()
            rate = self._serialize_hyperparameter("learning_rate")
            return config | {"learning_rate": rate, "momentum": self.momentum}

    return Momentum


def adam_class():
    """Adam, written over the slots and coefficients of Keras 2's Adam."""
    from keras.optimizer_v2.adam import Adam

    class OwnAdam(Adam):
        def _resource_apply_dense(self, grad, var, apply_state=None):
            values = apply_state[var.device, var.dtype.base_dtype]
            m, v = self.get_slot(var, "m"), self.get_slot(var, "v")
            m.assign(m * values["beta_1_t"] + grad * values["one_minus_beta_1_t"])
            v.assign(v * values["beta_2_t"] + grad * grad * values["one_minus_beta_2_t"])
            var.assign_sub(values["lr"] * m / (tf.sqrt(v) + values["epsilon"]))

    return OwnAdam


def test_the_name_of_an_optimizer_has_a_position(keras_2, notices):
    made = [
        keras.optimizers.Adam(0.1, 0.9, 0.999, 1e-7, True, "first"),
        keras.optimizers.SGD(0.1, 0.9, False, "first"),
        keras.optimizers.RMSprop(0.1, 0.9, 0.0, 1e-7, False, "first"),
    ]
    assert {(one.name, one.weight_decay) for one in made} == {("first", None)}
    assert made[0].amsgrad
    notices.once("the name of an optimizer by position")


def test_a_subclass_of_the_base_class_is_sgd_with_momentum(keras_2, notices):
    own = momentum_class()(lr=0.125)
    found = fit(own)
    np.testing.assert_allclose(found, fit(keras.optimizers.SGD(0.125, 0.5)), rtol=1e-6)
    rebuilt = type(own).from_config(own.get_config())
    assert float(rebuilt.learning_rate) == 0.125
    assert rebuilt.momentum == 0.5
    assert own.get_slot_names() == ["momentum"]
    notices.once("`keras.optimizer_v2`", "`optimizer.lr`", "a subclass of an optimizer")


@pytest.mark.slow
def test_decay_of_the_base_class_divides_the_learning_rate(keras_2):
    own = momentum_class()(0.125, momentum=0.0, decay=0.25)
    schedule = keras.optimizers.schedules.InverseTimeDecay(0.125, 1, 0.25)
    np.testing.assert_allclose(fit(own), fit(keras.optimizers.SGD(schedule)), rtol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("replicas", "accumulation"),
    [
        (1, False),
        pytest.param(1, True, marks=pytest.mark.slow),
        pytest.param(2, False, marks=pytest.mark.slow),
    ],
)
def test_a_subclass_of_adam_is_adam_on_the_ipu(keras_2, replicas, accumulation):
    options = {"steps_per_execution": 2, "accumulation": accumulation}
    found = fit(lambda: adam_class()(0.1), strategy=ipus(replicas), **options)
    expected = fit(lambda: keras.optimizers.Adam(0.1), strategy=ipus(replicas), **options)
    np.testing.assert_allclose(found, expected, rtol=1e-5)


@pytest.mark.slow
def test_super_updates_as_keras_3(keras_2):
    class Halved(keras.optimizers.SGD):
        def _resource_apply_dense(self, grad, var, apply_state=None):
            return super()._resource_apply_dense(grad / 2, var, apply_state)

    np.testing.assert_array_equal(fit(Halved(0.25)), fit(keras.optimizers.SGD(0.125)))


@pytest.mark.slow
@pytest.mark.parametrize("on_ipu", [False, True])
def test_a_subclass_computes_its_gradients(keras_2, notices, on_ipu):
    class Scaled(keras.optimizers.SGD):
        def _compute_gradients(self, loss, var_list, grad_loss=None, tape=None):
            with tape:
                loss = loss * 4
            pairs = super()._compute_gradients(loss, var_list, grad_loss, tape)
            return [(grad / 2, var) for grad, var in pairs]

    strategy = ipus(1) if on_ipu else None
    found = fit(lambda: Scaled(0.0625), strategy=strategy)
    np.testing.assert_array_equal(found, fit(keras.optimizers.SGD(0.125)))
    if not on_ipu:
        notices.once("a subclass of an optimizer")


@pytest.mark.slow
def test_get_gradients_of_a_subclass_computes_the_gradients(keras_2):
    class Scaled(keras.optimizers.SGD):
        def get_gradients(self, loss, params):
            return [2 * grad for grad in super().get_gradients(loss, params)]

    np.testing.assert_array_equal(fit(Scaled(0.0625)), fit(keras.optimizers.SGD(0.125)))


def test_the_vendor_s_optimizers_leave_gradients_to_the_loop(keras_2):
    with tf.GradientTape() as tape:
        x = tf.Variable(3.0)
        loss = x * x
    als = ALSOptimizer(keras.optimizers.SGD(0.1))
    assert [float(grad) for grad in als.gradients_on_tape(tape, loss, [x])] == [6.0]


@pytest.mark.slow
def test_a_minimize_of_a_subclass_updates_the_weights(keras_2):
    class Doubled(keras.optimizers.SGD):
        def minimize(self, loss, var_list, grad_loss=None, name=None, tape=None):
            pairs = self._compute_gradients(loss, var_list=var_list, tape=tape)
            self.apply_gradients([(2 * grad, variable) for grad, variable in pairs], name=name)

    np.testing.assert_array_equal(fit(Doubled(0.0625)), fit(keras.optimizers.SGD(0.125)))


def test_minimize_updates_variables(keras_2, notices):
    variable = tf.Variable([2.0, 4.0])
    optimizer = keras.optimizers.SGD(0.25)
    optimizer.minimize(lambda: tf.reduce_sum(variable**2), [variable])
    np.testing.assert_array_equal(variable, [1, 2])
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(variable**2)
    optimizer.minimize(loss, [variable], tape=tape)
    np.testing.assert_array_equal(variable, [0.5, 1])
    optimizer.apply_gradients([(tf.ones(2), variable)], name="a")
    np.testing.assert_array_equal(variable, [0.25, 0.75])
    with pytest.raises(ValueError, match="a `tape` is required when `loss` is a tensor"):
        optimizer.minimize(loss, [variable])
    notices.once("`optimizer.lr`, `minimize`", "`apply_gradients(pairs")


def test_state_has_the_names_of_keras_2(keras_2):
    variable = tf.Variable([2.0, 4.0])
    optimizer = keras.optimizers.Adam(0.25)
    optimizer.apply_gradients([(tf.ones(2), variable)])
    np.testing.assert_allclose(optimizer.get_slot(variable, "m"), [0.1, 0.1], rtol=1e-6)
    assert optimizer.get_slot_names() == ["m", "v"]
    with pytest.raises(KeyError, match="has no slot 'momentum'.*\\['m', 'v'\\]"):
        optimizer.get_slot(variable, "momentum")
    weights = optimizer.get_weights()
    assert [np.shape(weight) for weight in weights] == [(), (2,), (2,)]
    optimizer.set_weights([7, *weights[1:]])
    assert int(optimizer.iterations) == 7
    with pytest.raises(ValueError, match="takes 3 arrays.*Received: 1"):
        optimizer.set_weights(weights[:1])
    optimizer.lr = 0.5
    assert float(optimizer.lr) == float(optimizer._decayed_lr(tf.float32)) == 0.5


@pytest.mark.parametrize("name", ["SGD", "Adam", "Adagrad"])
def test_legacy_optimizers_are_those_of_keras_3(keras_2, notices, name):
    legacy = getattr(tf.keras.optimizers.legacy, name)
    assert legacy is getattr(keras.optimizers, name)
    (notice,) = notices()
    assert "This is not the meaning of Keras 2." in notice
    assert isinstance(legacy(), tf.keras.optimizers.legacy.Optimizer)


@pytest.mark.fast_cells(1)
@pytest.mark.parametrize("is_built", [True, False])
def test_an_optimizer_of_tensorflow_sees_the_names_of_layers(keras_2, is_built):
    names = []

    class Naming(tf.compat.v1.train.GradientDescentOptimizer):
        def apply_gradients(self, grads_and_vars, *args, **kwargs):
            grads_and_vars = list(grads_and_vars)
            names[:] = [var.name for _, var in grads_and_vars]
            return super().apply_gradients(grads_and_vars, *args, **kwargs)

    with ipus(1).scope():
        input_layers = [keras.Input((4,))] if is_built else []
        model = keras.Sequential([*input_layers, keras.layers.Dense(1, name="last")], name="net")
        model.compile(Naming(0.1), "mse")
        model.fit(X, Y, batch_size=8, verbose=0)
    assert names == ["net/last/kernel:0", "net/last/bias:0"] == [w.name for w in model.weights]


@pytest.mark.slow
@pytest.mark.fast_cells(1)
@pytest.mark.parametrize("accumulation", [None, 2])
def test_an_optimizer_of_tensorflow_computes_its_gradients(keras_2, accumulation):
    class Scaled(tf.compat.v1.train.GradientDescentOptimizer):
        def compute_gradients(self, loss, var_list=None, **kwargs):
            pairs = super().compute_gradients(loss, var_list=var_list, **kwargs)
            return [(2 * grad, var) for grad, var in pairs]

    options = {"strategy": ipus(1), "steps_per_execution": 2, "accumulation": accumulation}
    found = fit(Scaled(0.0625), **options)
    np.testing.assert_array_equal(found, fit(keras.optimizers.SGD(0.125), **options))


@pytest.mark.slow
@pytest.mark.fast_cells(1)
@pytest.mark.parametrize("accumulation", [2, None])
def test_functions_transform_accumulated_gradients(keras_2, notices, accumulation):
    def negated(pairs):
        return [(-gradient, variable) for gradient, variable in pairs]

    def doubled(pairs):
        assert pairs[0][1].name.endswith("/kernel:0")
        return [(2.0 * gradient, variable) for gradient, variable in pairs]

    def made():
        return keras.optimizers.SGD(
            0.125, gradient_aggregator=negated, gradient_transformers=[doubled], clipvalue=0.5
        )

    options = {
        "strategy": IPUStrategy(),
        "accumulation": accumulation,
        "steps_per_execution": accumulation or 1,
    }
    found = fit(made, **options)
    expected = fit(lambda: keras.optimizers.SGD(-0.25, clipvalue=0.5), **options)
    np.testing.assert_array_equal(found, expected)
    notices.once("`gradient_aggregator=`")


def test_functions_may_be_added_to_the_list(keras_2, tmp_path):
    w = keras.Variable([1.0, 2.0])
    optimizer = keras.optimizers.SGD(0.25)
    optimizer.gradient_transformers.insert(0, lambda pairs: [(-g, v) for g, v in pairs])
    optimizer.apply_gradients([(tf.constant([4.0, 8.0]), w)])
    np.testing.assert_array_equal(w, [2.0, 4.0])
    tf.train.Checkpoint(optimizer=optimizer).save(tmp_path / "optimizer")  # Without the list.


@pytest.mark.parametrize("argument", ["gradient_aggregator", "gradient_transformers"])
def test_functions_get_gradients_of_lookups_as_tensors(keras_2, argument):
    def halved(pairs):
        return [(gradient / 2, variable) for gradient, variable in pairs]

    table = keras.Variable(np.ones((3, 2), np.float32))
    given = halved if argument == "gradient_aggregator" else [halved]
    optimizer = keras.optimizers.SGD(1.0, **{argument: given})
    rows = tf.IndexedSlices(tf.constant([[2.0, 4.0], [2.0, 0.0]]), tf.constant([1, 1]), (3, 2))
    optimizer.apply_gradients([(rows, table)])
    np.testing.assert_array_equal(table, [[1.0, 1.0], [-1.0, -1.0], [1.0, 1.0]])


@pytest.mark.parametrize("is_function", [False, True])
def test_minimize_scales_the_loss_that_the_optimizer_unscales(keras_2, is_function):
    w = keras.Variable([1.0, 2.0])
    optimizer = keras.mixed_precision.LossScaleOptimizer(
        keras.optimizers.SGD(0.25), dynamic=False, initial_scale=64
    )

    def loss():
        return tf.reduce_sum(w * w)

    with tf.GradientTape() as tape:
        value = loss()
    if is_function:
        optimizer.minimize(loss, [w])
    else:
        optimizer.minimize(value, [w], tape=tape)
    np.testing.assert_array_equal(w, [0.5, 1.0])


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(
            lambda: tf.compat.v1.train.GradientDescentOptimizer(0.125), marks=pytest.mark.slow
        ),
        lambda: tf.compat.v1.train.AdamOptimizer(0.125),
        pytest.param(
            lambda: tf.compat.v1.train.MomentumOptimizer(0.125, 0.5), marks=pytest.mark.slow
        ),
    ],
)
@pytest.mark.parametrize("on_ipu", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_optimizers_of_tensorflow_train_as_a_loop_of_theirs(keras_2, notices, make, on_ipu):
    found = fit(make, strategy=ipus(1) if on_ipu else None)
    optimizer, kernel = make(), tf.Variable(tf.zeros((4, 1)))
    for step in range(8):
        x, y = X[step % 4 * 2 :][:2], Y[step % 4 * 2 :][:2]
        gradient = tf.constant(x.T @ (x @ kernel.numpy() - y))
        optimizer.apply_gradients([(gradient, kernel)])
    np.testing.assert_allclose(found, kernel, rtol=1e-5)
    notices.once("an optimizer of TensorFlow")


@pytest.mark.slow
@pytest.mark.parametrize(
    "make", [lambda: keras.optimizers.Adam(0.125), lambda: tf.compat.v1.train.AdamOptimizer(0.125)]
)
def test_an_optimizer_of_tensorflow_updates_by_another_one_after_ops_of_its_own(keras_2, make):
    queue = IPUOutfeedQueue()

    class Watching(tf.compat.v1.train.Optimizer):
        def __init__(self):
            super().__init__(use_locking=False, name="Watching")
            self.wrapped = make()

        def apply_gradients(self, grads_and_vars, *args, **kwargs):
            pairs = list(grads_and_vars)
            with tf.control_dependencies([queue.enqueue([var for _, var in pairs])]):
                return self.wrapped.apply_gradients(pairs)

        def variables(self):
            variables = self.wrapped.variables
            return variables() if callable(variables) else variables

    options = {"strategy": ipus(1), "steps_per_execution": 2, "accumulation": 2}
    found = fit(Watching, **options)
    np.testing.assert_array_equal(found, fit(make, **options))
    assert len(queue.dequeue()[0])


@pytest.mark.slow
@pytest.mark.parametrize("accumulation", [False, True])
def test_optimizers_of_tensorflow_train_replicas(keras_2, accumulation):
    options = {"steps_per_execution": 2, "accumulation": accumulation}
    make = lambda: tf.compat.v1.train.AdamOptimizer(0.125, epsilon=1e-7)  # noqa: E731
    found = fit(make, strategy=ipus(2), **options)
    expected = fit(lambda: keras.optimizers.Adam(0.125), strategy=ipus(2), **options)
    np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_an_optimizer_of_tensorflow_cannot_be_saved(keras_2, tmp_path):
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])
    model.compile(tf.compat.v1.train.AdamOptimizer(), "mse")
    with pytest.raises(NotImplementedError, match="AdamOptimizer of TensorFlow cannot be saved"):
        model.save(tmp_path / "a.keras")


def test_modules_of_keras_2_are_gone_afterwards():
    import sys

    assert not [name for name in sys.modules if "optimizer_v2" in name and "keras." in name[:6]]
    with pytest.raises(ModuleNotFoundError):
        import keras.optimizer_v2  # noqa: F401
    with pytest.raises(ImportError, match="`keras.optimizers.legacy` is not supported"):
        tf.keras.optimizers.legacy.Adam()


@pytest.mark.slow
def test_an_update_of_a_subclass_asks_its_schedule_once(keras_2):
    """So a schedule may put the rate into an outfeed."""
    queue = IPUOutfeedQueue()

    class Warming(keras.optimizers.schedules.LearningRateSchedule):
        def __call__(self, step):
            rate = 0.125 * (step + 1.0)
            queue.enqueue(rate)
            return rate

    class Halving(keras.optimizers.SGD):
        def _resource_apply_dense(self, grad, var, apply_state):
            return super()._resource_apply_dense(grad / 2.0, var, apply_state)

    found = fit(lambda: Halving(Warming()), strategy=IPUStrategy(), steps_per_execution=4)
    expected = fit(lambda: keras.optimizers.SGD(Halved()), strategy=IPUStrategy())
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    np.testing.assert_array_equal(queue.dequeue(), 0.125 * np.arange(1, 9))


class Halved(keras.optimizers.schedules.LearningRateSchedule):
    """The schedule of `Warming`, halved."""

    def __call__(self, step):
        return 0.0625 * (keras.ops.cast(step, "float32") + 1.0)


@pytest.mark.fast_cells(1)
@pytest.mark.parametrize("base", [IpuOptimizerBase, keras.optimizers.Optimizer])
@pytest.mark.slow
def test_subclasses_set_their_learning_rate_after_their_name(keras_2, notices, base):
    class Descent(base):
        def __init__(self, learning_rate, name="Descent"):
            super().__init__(name)
            self._set_hyper("learning_rate", learning_rate)

        def _resource_apply_dense(self, grad, var, apply_state):
            assert self._use_locking
            rate = apply_state[var.device, var.dtype.base_dtype]["lr_t"]
            return var.assign_sub(rate * grad)

    np.testing.assert_array_equal(fit(lambda: Descent(0.125)), fit(keras.optimizers.SGD(0.125)))
    assert any("`super().__init__(name)`" in notice for notice in notices())


def test_subclasses_may_name_the_metaclass_of_abstract_classes(keras_2):
    class Wrapper(tf.keras.optimizers.legacy.Optimizer, metaclass=abc.ABCMeta):
        @abc.abstractmethod
        def rate(self):
            """Returns the rate."""

    with pytest.raises(TypeError, match="abstract"):
        Wrapper("wrapper")


@pytest.mark.parametrize("arguments", [((0.125, 0), {}), ((0.125,), {"momentum": np.int64(1)})])
def test_a_momentum_is_a_whole_number(keras_2, notices, arguments):
    positional, named = arguments
    momentum = positional[1] if len(positional) > 1 else named["momentum"]
    optimizer = keras.optimizers.SGD(*positional, **named)
    assert (optimizer.momentum, type(optimizer.momentum)) == (float(momentum), float)
    notices.once("`SGD(momentum=0)`")


class Decaying:
    """Subtracts a part of each weight before its update; comes before an optimizer."""

    def __init__(self, weight_decay, **kwargs):
        super().__init__(**kwargs)
        self._set_hyper("weight_decay", weight_decay)
        self.calls = []

    def minimize(self, loss, var_list, grad_loss=None, name=None, tape=None):
        self.calls.append("minimize")
        return super().minimize(loss, var_list=var_list, grad_loss=grad_loss, name=name, tape=tape)

    def apply_gradients(self, grads_and_vars, name=None, **kwargs):
        self.calls.append("apply_gradients")
        return super().apply_gradients(grads_and_vars, name=name, **kwargs)

    def _resource_apply_dense(self, grad, var, apply_state=None):
        assert "weight_decay" in self._hyper
        var.assign_sub(self._get_hyper("weight_decay", var.dtype) * var)
        return super()._resource_apply_dense(grad, var, apply_state=apply_state)


@pytest.mark.slow
@pytest.mark.parametrize("accumulation", [None, 2])
def test_an_optimizer_with_both_ways_to_update_trains(keras_2, accumulation):
    class DecayingDescent(Decaying, keras.optimizers.SGD):
        pass

    strategy = IPUStrategy()
    options = {"strategy": strategy, "steps_per_execution": 4, "accumulation": accumulation}
    optimizers = []

    def made():
        optimizers.append(DecayingDescent(0.125, learning_rate=0.25))
        return optimizers[0]

    found = fit(made, **options)
    # Keras' own decay is that of the rate times the weight, before the update, too.
    expected = fit(lambda: keras.optimizers.SGD(0.25, weight_decay=0.5), **options)
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    ways = {"minimize", "apply_gradients"} if accumulation is None else {"apply_gradients"}
    assert set(optimizers[0].calls) == ways
