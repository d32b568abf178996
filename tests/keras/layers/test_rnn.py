"""LSTM and GRU: equal to Keras' with equal weights; options, states, errors."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from ipu_tf.keras import layers
from ipu_tf.keras.layers import GRU, LSTM

UNITS = 6
X = np.random.default_rng(9).normal(size=(4, 5, 3)).astype("float32")
PAIRS = {
    "lstm": (LSTM, keras.layers.LSTM),
    "gru": (GRU, keras.layers.GRU),
    "gru before": (
        lambda *args, **kwargs: GRU(*args, reset_after=False, **kwargs),
        lambda *args, **kwargs: keras.layers.GRU(*args, reset_after=False, **kwargs),
    ),
}


@pytest.fixture(params=PAIRS.values(), ids=PAIRS.keys())
def kinds(request):
    return request.param


@pytest.fixture(params=[LSTM, GRU])
def kind(request):
    return request.param


def equal_pair(kinds, **kwargs):
    """Our layer and Keras', with the same weights, none of them zero."""
    made = [
        kind(UNITS, bias_initializer=keras.initializers.RandomNormal(seed=1), **kwargs)
        for kind in kinds
    ]
    for layer in made:
        layer.build(X.shape)
    made[1].set_weights(made[0].get_weights())
    return made


def flat(outputs):
    return [np.asarray(tensor) for tensor in tf.nest.flatten(outputs)]


@pytest.mark.fast_cells(1)
@pytest.mark.parametrize("return_sequences", [False, True])
@pytest.mark.parametrize("return_state", [False, True])
def test_outputs_equal_those_of_keras(kinds, return_sequences, return_state):
    ours, stock = equal_pair(kinds, return_sequences=return_sequences, return_state=return_state)
    for one, other in zip(flat(ours(X)), flat(stock(X)), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6, atol=1e-6)


@pytest.mark.fast_cells(1)
@pytest.mark.parametrize("activation", ["relu", "softmax", "sigmoid", "hard_sigmoid"])
def test_activations(kinds, activation):
    recurrent = "sigmoid" if activation == "relu" else activation
    ours, stock = equal_pair(kinds, activation=activation, recurrent_activation=recurrent)
    np.testing.assert_allclose(ours(X), stock(X), rtol=1e-5, atol=1e-6)


@pytest.mark.fast_cells(1)
def test_gradients_equal_those_of_keras(kinds):
    results = []
    for layer in equal_pair(kinds):
        x = tf.constant(X)
        with tf.GradientTape() as tape:
            tape.watch(x)
            loss = tf.reduce_sum(layer(x) ** 2)
        results.append(tape.gradient(loss, [x, *layer.weights]))
    for one, other in zip(*results, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)


def test_the_names_of_the_weights(kind):
    layer = kind(UNITS)
    layer.build(X.shape)
    for name, weight in zip(("kernel", "recurrent_kernel", "biases"), layer.weights, strict=True):
        assert getattr(layer, name) is weight


@pytest.mark.fast_cells(1)
@pytest.mark.parametrize("return_sequences", [False, True])
@pytest.mark.parametrize("return_state", [False, True])
def test_time_major(kind, return_sequences, return_state):
    kwargs = {"return_sequences": return_sequences, "return_state": return_state}
    by_batch, by_time = kind(UNITS, **kwargs), kind(UNITS, time_major=True, **kwargs)
    x = X.transpose(1, 0, 2)
    by_batch(X), by_time(x)
    by_time.set_weights(by_batch.get_weights())
    expected, actual = flat(by_batch(X)), flat(by_time(x))
    if return_sequences:
        expected[0] = expected[0].transpose(1, 0, 2)
    for one, other in zip(actual, expected, strict=True):
        np.testing.assert_array_equal(one, other)
    symbolic = tf.nest.flatten(by_time(keras.Input(batch_shape=x.shape)))
    assert [tensor.shape for tensor in symbolic] == [tensor.shape for tensor in actual]


@pytest.mark.fast_cells(1)
def test_initial_states(kinds):
    ours, stock = equal_pair(kinds)
    count = 2 if isinstance(ours, LSTM) else 1
    states = [np.full((4, UNITS), 0.5, "float32")] * count
    for given in (states, tuple(states)) if count == 2 else (states, states[0]):
        np.testing.assert_allclose(
            ours(X, initial_state=given), stock(X, initial_state=states), rtol=1e-6, atol=1e-6
        )


@pytest.mark.fast_cells(1)
def test_stateful_layers_go_on(kind):
    whole, parts = kind(UNITS), kind(UNITS, stateful=True)
    whole(X), parts(X[:, :2])
    parts.set_weights([*whole.get_weights(), *parts.get_weights()[3:]])
    parts.reset_state()
    parts(X[:, :2])
    np.testing.assert_allclose(parts(X[:, 2:]), whole(X), rtol=1e-6, atol=1e-7)


def test_state_shape():
    assert LSTM(UNITS).state_shape(4) == ([4, UNITS], [4, UNITS])
    assert GRU(UNITS).state_shape(4) == [4, UNITS]


@pytest.mark.fast_cells(1)
def test_dropout_drops_the_same_inputs_at_every_step(kind):
    """The inputs of all steps are equal, so are those that stay."""
    keras.utils.set_random_seed(3)
    layer = kind(UNITS, dropout=0.5, return_sequences=True)
    x = np.ones((200, 1, 1), "float32").repeat(4, axis=1)
    kept, dropped = (np.full_like(x, value) for value in (2.0, 0.0))
    outputs = layer(x, training=True).numpy()
    all_kept, none_kept = (layer(value).numpy()[0] for value in (kept, dropped))
    is_kept = [np.allclose(sample, all_kept, atol=1e-6) for sample in outputs]
    is_dropped = [np.allclose(sample, none_kept, atol=1e-6) for sample in outputs]
    assert all(np.logical_xor(is_kept, is_dropped))
    assert 0.35 < np.mean(is_kept) < 0.65
    assert layer.dropout == 0.5


@pytest.mark.fast_cells(1)
def test_a_dropout_seed_fixes_the_mask(kind):
    layer = kind(UNITS, dropout=0.5, dropout_seed=(1, 2))
    first = layer(X, training=True)
    np.testing.assert_array_equal(layer(X, training=True), first)
    unseeded = kind(UNITS, dropout=0.5)
    assert np.any(unseeded(X, training=True) != unseeded(X, training=True))


def test_a_seed_fixes_the_initial_weights(kind):
    made = [kind(UNITS, kernel_initializer=None, seed=seed) for seed in (1, 1, 2)]
    for layer in made:
        layer.build(X.shape)
    for same, other, index in zip(made[0].weights, made[1].weights, range(3), strict=True):
        np.testing.assert_array_equal(same, other)
        if index < 2:
            assert np.any(same != made[2].weights[index])
    assert kind(UNITS, kernel_initializer=keras.initializers.Ones(), seed=1)


def test_what_the_compiler_reads(kind):
    layer = kind(
        UNITS,
        partials_dtype=tf.float16,
        available_memory_proportion_fwd=0.5,
        options={"numShards": 2},
        options_bwd={"numShards": 3},
    )
    options = layer.popnn_options
    assert options.partials_dtype == "float16"
    assert options.available_memory_proportion_fwd == 0.5
    assert options.available_memory_proportion_bwd is None
    assert options.options == {"numShards": 2}
    assert options.options_bwd == {"numShards": 3}


@pytest.mark.parametrize("partials", ["float16", "float32"])
@pytest.mark.slow
def test_the_products_have_the_partials_asked_for(strategy, kind, partials):
    with strategy.scope():
        layer = kind(UNITS, partials_dtype=partials, dtype="float16")
        layer.build(X.shape)

    @tf.function
    def step(x):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(layer(x))
        return tape.gradient(loss, layer.weights)

    strategy.run(step, args=(tf.constant(X, tf.float16),))
    (program,) = strategy.report().programs
    assert len(program.tile_ops) > 4  # Two forward, the others backward.
    assert {op.plan.partials for op in program.tile_ops} == {partials}


def test_both_spellings():
    assert layers.LSTM is layers.PopnnLSTM
    assert layers.GRU is layers.PopnnGRU


@pytest.mark.parametrize(
    ("argument", "value"),
    [
        ("use_bias", False),
        ("kernel_regularizer", "l2"),
        ("recurrent_regularizer", "l2"),
        ("bias_regularizer", "l2"),
        ("activity_regularizer", "l2"),
        ("kernel_constraint", "non_neg"),
        ("recurrent_constraint", "non_neg"),
        ("bias_constraint", "non_neg"),
        ("recurrent_dropout", 0.5),
        ("implementation", 3),
        ("go_backwards", True),
        ("unroll", True),
        ("zero_output_for_mask", True),
    ],
)
def test_arguments_without_support(kind, argument, value):
    message = (
        f"ipu_tensorflow_addons.keras.layers.{kind.__name__} does not support __init__ argument "
        rf"{argument}.* Received: {argument}={value!r}\."
    )
    with pytest.raises(NotImplementedError, match=message):
        kind(UNITS, **{argument: value})


def test_implementations_that_keras_has(kind):
    for implementation in (1, 2):
        kind(UNITS, implementation=implementation)


def test_masks_are_not_supported(kind):
    message = f"layers.{kind.__name__} does not support call argument mask"
    with pytest.raises(NotImplementedError, match=message):
        kind(UNITS)(X, mask=np.ones((4, 5), bool))


@pytest.mark.parametrize(
    ("argument", "value"), [("activation", "gelu"), ("recurrent_activation", "relu")]
)
def test_activations_without_support(kind, argument, value):
    for given in (value, keras.activations.get(value)):
        with pytest.raises(ValueError, match=f"do not support .* as `{argument}`.*Acceptable val"):
            kind(UNITS, **{argument: given})
    with pytest.raises(ValueError, match=f"Received: {argument}=None"):
        kind(UNITS, **{argument: None})


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        ({"partials_dtype": "int32"}, "partials_dtype must be tf.float16 or tf.float32.*'int32'"),
        ({"dropout_seed": 3}, r"must be a pair of whole numbers, of shape \[2\]. Received: 3"),
        ({"dropout": 1.0}, "dropout must be from 0 up to but not including 1. Received: dropout=1"),
        ({"dtype": "float64"}, "only float16 and float32 are supported. Received: dtype='float64'"),
    ],
)
def test_other_errors(kind, kwargs, message):
    with pytest.raises(ValueError, match=message):
        kind(UNITS, **kwargs)


@pytest.mark.parametrize("shape", [(4, 3), (4, 5, 3, 2), (4, 5, None)])
def test_the_shape_of_the_inputs_is_checked(kind, shape):
    with pytest.raises(ValueError, match=r"'rnn': the inputs must be 3D.*Received: inputs of shap"):
        kind(UNITS, name="rnn").build(shape)


@pytest.mark.slow
def test_a_layer_computes_with_the_tensors_that_take_the_place_of_its_weights(kinds):
    ours, stock = equal_pair(kinds)
    names = ("kernel", "recurrent_kernel", "bias")
    factors = [tf.Variable(tf.ones(weight.shape)) for weight in stock.trainable_weights]
    with tf.GradientTape() as tape:
        for name, factor, weight in zip(names, factors, stock.trainable_weights, strict=True):
            setattr(ours, "biases" if name == "bias" else name, factor * weight)
        outputs = ours(X)
    gradients = tape.gradient(outputs, factors)
    with tf.GradientTape() as tape:
        expected = stock(X)
    np.testing.assert_allclose(outputs, expected, rtol=1e-5, atol=1e-6)
    of_stock = tape.gradient(expected, stock.trainable_weights)
    for gradient, weight, one in zip(gradients, stock.trainable_weights, of_stock, strict=True):
        np.testing.assert_allclose(gradient, one * weight, rtol=1e-4, atol=1e-6)
    assert len(ours.trainable_weights) == 3
