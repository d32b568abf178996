"""EffectiveTransformer against NumPy, and its checks."""

import keras
import numpy as np
import pytest

from ipu_tf.keras.layers import EffectiveTransformer

BATCH, FROM, TO, HEADS, SIZE, OUTPUTS = 3, 4, 5, 2, 6, 7
RANDOM = np.random.default_rng(12)
FROM_LENGTHS, TO_LENGTHS = np.array([4, 1, 3], "int32"), np.array([2, 5, 1], "int32")


def inputs(*, mask=None):
    from_sequences = RANDOM.normal(size=(BATCH, FROM)).astype("float32")
    to_sequences = RANDOM.normal(size=(BATCH, TO)).astype("float32")
    four = [from_sequences, FROM_LENGTHS, to_sequences, TO_LENGTHS]
    return four if mask is None else [*four, mask]


def make(**kwargs):
    kwargs = {
        "num_attention_heads": HEADS,
        "attention_head_size": SIZE,
        "embedding_bias_initializer": "random_normal",
    } | kwargs
    return EffectiveTransformer(OUTPUTS, 3, **kwargs)


def numpy_context(layer, x, scale=1.0):
    """The context sample by sample and head by head."""
    weights = {w.path.split("/", 1)[1]: w.numpy().astype("float64") for w in layer.weights}
    context = np.zeros((BATCH, FROM, HEADS, SIZE))

    def embedded(part, sequence, length):
        kernel, bias = weights[f"{part}_layer/kernel"], weights[f"{part}_layer/bias"]
        rows = sequence[:, None] * kernel + bias
        rows[length:] = 0.0
        return rows.reshape(-1, HEADS, SIZE)

    for sample, (f, f_len, t, t_len) in enumerate(zip(*x[:4], strict=True)):
        query = embedded("query", f, f_len)
        key, value = embedded("key", t, t_len), embedded("value", t, t_len)
        for head in range(HEADS):
            scores = np.exp(query[:, head] @ key[:, head].T * scale)
            shares = scores / scores.sum(axis=1, keepdims=True)
            context[sample, :, head] = shares @ value[:, head]
    return context, weights


@pytest.mark.fast_cells(1)
@pytest.mark.parametrize("lengths_rank", [1, 2])
def test_context_and_outputs(lengths_rank):
    layer, x = make(layer_norm_output=False, output_activation="tanh"), inputs()
    if lengths_rank == 2:
        x[1], x[3] = x[1][:, None], x[3][:, None]
    outputs, context = layer(x)
    flat = [x[0], x[1].reshape(-1), x[2], x[3].reshape(-1)]
    expected, weights = numpy_context(layer, flat)
    np.testing.assert_allclose(context, expected, rtol=1e-5, atol=1e-6)
    dense = expected.reshape(BATCH, -1) @ weights["output_layer/kernel"]
    np.testing.assert_allclose(outputs, np.tanh(dense), rtol=1e-4, atol=1e-5)


def test_layer_norm():
    normed, plain, x = make(), make(layer_norm_output=False), inputs()
    normed(x), plain(x)
    plain.set_weights(normed.get_weights()[: len(plain.weights)])
    expected = keras.layers.LayerNormalization()(plain(x)[0])
    np.testing.assert_allclose(normed(x)[0], expected, rtol=1e-5, atol=1e-6)


def test_scale():
    layer, x = make(use_scale=True), inputs()
    layer(x)
    scale = next(weight for weight in layer.weights if weight.name == "scale")
    np.testing.assert_array_equal(scale, [1.0])
    scale.assign([3.0])
    expected, _ = numpy_context(layer, x, scale=3.0)
    np.testing.assert_allclose(layer(x)[1], expected, rtol=1e-5, atol=1e-6)


def test_masked_heads_are_zero():
    mask = np.array([[True, False], [False, True], [True, True]])
    layer, x = make(), inputs(mask=mask)
    _, masked = layer(x)
    _, whole = layer(x[:4])
    np.testing.assert_array_equal(masked, whole * mask[:, None, :, None])


def test_what_lies_beyond_the_lengths_makes_no_difference():
    layer, x = make(), inputs()
    _, before = layer(x)
    for sequences, lengths in ((x[0], x[1]), (x[2], x[3])):
        for sequence, length in zip(sequences, lengths, strict=True):
            sequence[length:] = 100.0
    np.testing.assert_array_equal(layer(x)[1], before)


@pytest.mark.fast_cells(1)
@pytest.mark.parametrize("argument", ["attention_dropout_prob", "output_dropout_prob"])
def test_dropout_is_for_training(argument):
    layer, x = make(layer_norm_output=False, **{argument: 0.5}), inputs()
    dropped = layer(x, training=True)
    plain = layer(x, training=False)
    np.testing.assert_array_equal(plain[0], layer(x, training=False)[0])
    which = 1 if argument.startswith("attention") else 0
    assert np.any((dropped[which].numpy() == 0) & (plain[which].numpy() != 0))


def test_queries_keys_and_values_start_different():
    layer = make()
    layer(inputs())
    query, key = (
        w.numpy()
        for w in layer.weights
        if w.path.endswith(("query_layer/kernel", "key_layer/kernel"))
    )
    assert np.any(query != key)


def test_mixed_precision():
    outputs, context = make(dtype="mixed_float16")(inputs())
    assert (outputs.dtype, context.dtype) == ("float16", "float16")


@pytest.mark.slow
def test_in_the_scope(strategy):
    x = inputs()
    with strategy.scope():
        symbolic = [keras.Input(batch_shape=part.shape, dtype=part.dtype.name) for part in x]
        outputs, context = make()(symbolic)
        model = keras.Model(symbolic, outputs)
        model.compile(optimizer=keras.optimizers.Adam(0.01), loss="mse")
    assert (outputs.shape, context.shape) == ((BATCH, OUTPUTS), (BATCH, FROM, HEADS, SIZE))
    targets = RANDOM.normal(size=(BATCH, OUTPUTS)).astype("float32")
    losses = [float(model.train_on_batch(x, targets)) for _ in range(20)]
    assert losses[-1] < losses[0]


def test_packs_hold_what_they_are_to_hold():
    message = "max_batch_size must be at least sequences_per_iter. Received: max_batch_size=2, .*=3"
    with pytest.raises(ValueError, match=message):
        EffectiveTransformer(4, 2, sequences_per_iter=3)


@pytest.mark.fast_cells(1)
@pytest.mark.parametrize("count", [3, 6])
def test_the_number_of_inputs_is_checked(count):
    with pytest.raises(ValueError, match=f"either four or five input shapes. Received: {count}"):
        make().build([(BATCH, FROM)] * count)
    layer = make()
    layer(inputs())
    with pytest.raises(ValueError, match=f"either four or five inputs. Received: {count} inputs"):
        layer.call([np.ones((BATCH, FROM))] * count)


@pytest.mark.fast_cells(3)
@pytest.mark.parametrize(
    ("position", "value", "message"),
    [
        (2, np.ones((BATCH, TO, 1), "float32"), "must be equal rank"),
        (2, np.ones((BATCH + 1, TO), "float32"), "must contain an equal number of sequences"),
        (1, np.ones(BATCH + 1, "int32"), "must have lengths equal to the number of sequences"),
        (3, np.ones((BATCH, 1), "int32"), "must have lengths equal to the number of sequences"),
        (2, np.ones((BATCH, TO), "int32"), "must be equal types"),
        (4, np.ones((BATCH, HEADS + 1), bool), r"shape \[num_sequences, num_attention_heads\]"),
    ],
)
def test_inputs_that_do_not_fit_together(position, value, message):
    layer = make(name="attention")
    x = inputs(mask=np.ones((BATCH, HEADS), bool))
    layer(x)
    x[position] = value
    with pytest.raises(ValueError, match=rf"layer 'attention': .*{message}.* Received: \(3, 4\)"):
        layer(x)
