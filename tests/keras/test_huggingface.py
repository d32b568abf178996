"""Models of Hugging Face in the scope: the losses of stock tf_keras, whole and in two stages."""

import contextlib

import numpy as np
import pytest
import tensorflow as tf

from ipu_tf.keras import PipelineStage
from tests.keras.tf_keras_training import check_equal_weights, strategy_of

transformers = pytest.importorskip(
    "transformers", reason='needs the extra: pip install "ipu_tf[huggingface]"'
)
tf_keras = pytest.importorskip("tf_keras")

pytestmark = pytest.mark.slow

RANDOM = np.random.default_rng(5)
LENGTH, VOCABULARY, CLASSES, SAMPLES = 6, 20, 3, 16
TOKENS = RANDOM.integers(1, VOCABULARY, (SAMPLES, LENGTH)).astype("int32")
MASK = (np.arange(LENGTH) < RANDOM.integers(3, LENGTH + 1, (SAMPLES, 1))).astype("int32")
LABELS = np.concatenate([TOKENS[:, :-1], np.full((SAMPLES, 1), -100, "int32")], axis=1)
CLASS = RANDOM.integers(0, CLASSES, SAMPLES).astype("int32")
IMAGES = RANDOM.normal(size=(SAMPLES, 1, 8, 8)).astype("float32")


def bert():
    config = transformers.BertConfig(
        vocab_size=VOCABULARY,
        hidden_size=8,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=16,
        max_position_embeddings=LENGTH,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
        num_labels=CLASSES,
    )
    return transformers.TFBertForSequenceClassification(config)


def gpt2():
    config = transformers.GPT2Config(
        vocab_size=VOCABULARY,
        n_positions=LENGTH,
        n_embd=8,
        n_layer=2,
        n_head=2,
        resid_pdrop=0.0,
        embd_pdrop=0.0,
        attn_pdrop=0.0,
    )
    return transformers.TFGPT2LMHeadModel(config)


def vit():
    config = transformers.ViTConfig(
        image_size=8,
        patch_size=4,
        num_channels=1,
        hidden_size=8,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=16,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
        num_labels=CLASSES,
    )
    return transformers.TFViTForImageClassification(config)


def t5():
    config = transformers.T5Config(
        vocab_size=VOCABULARY,
        d_model=8,
        d_kv=4,
        d_ff=16,
        num_layers=1,
        num_heads=2,
        relative_attention_num_buckets=8,
        dropout_rate=0.0,
        decoder_start_token_id=0,
    )
    return transformers.TFT5ForConditionalGeneration(config)


DATA = {
    "bert": ({"input_ids": TOKENS, "attention_mask": MASK}, CLASS),
    "gpt2": ({"input_ids": TOKENS, "labels": LABELS}, None),
    "vit": ({"pixel_values": IMAGES}, CLASS),
    "t5": ({"input_ids": TOKENS, "attention_mask": MASK, "labels": TOKENS[:, ::-1]}, None),
}
MODELS = {"bert": bert, "gpt2": gpt2, "vit": vit, "t5": t5}


def batches(kind, size):
    inputs, labels = DATA[kind]
    data = inputs if labels is None else (inputs, labels)
    return tf.data.Dataset.from_tensor_slices(data).batch(size, drop_remainder=True)


def trained(kind, strategy=None, *, batch=4, steps=2, setup=lambda model: None):
    """A model and the logs of its training; its weights are made by its first step."""
    with strategy.scope() if strategy else contextlib.nullcontext():
        tf_keras.utils.set_random_seed(3)
        model = MODELS[kind]()
        model.compile(tf_keras.optimizers.Adam(0.01), steps_per_execution=steps)
        setup(model)
        history = model.fit(batches(kind, batch), epochs=2, shuffle=False, verbose=0)
    return model, history.history


def check_logs(ours, stock):
    assert list(ours) == list(stock)
    for name, values in stock.items():
        np.testing.assert_allclose(ours[name], values, rtol=1e-5, err_msg=name)


@pytest.mark.parametrize("kind", MODELS)
def test_a_model_trains_evaluates_and_predicts_as_in_stock_tf_keras(kind, tmp_path):
    strategy = strategy_of()
    (ours, logs), (stock, expected) = trained(kind, strategy), trained(kind)
    check_logs(logs, expected)
    check_equal_weights(ours, stock)
    evaluated = [
        one.evaluate(batches(kind, 4), verbose=0, return_dict=True) for one in (ours, stock)
    ]
    check_logs(*evaluated)
    predicted = [one.predict(batches(kind, 4), verbose=0) for one in (ours, stock)]
    assert type(predicted[0]) is type(predicted[1])
    assert list(predicted[0]) == list(predicted[1])
    for one, other in zip(*map(tf.nest.flatten, predicted), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)
    programs = strategy.report(insights=False).programs
    assert [program.name for program in programs] == [
        f"{ours.name}.{step}_step" for step in ("train", "test", "predict")
    ]
    ours.save_weights(tmp_path / "weights.h5")
    stock.set_weights([0 * weight for weight in stock.get_weights()])
    stock.load_weights(tmp_path / "weights.h5")
    check_equal_weights(ours, stock)


@pytest.mark.parametrize("kind", MODELS)
def test_gradients_of_micro_batches_are_those_of_a_batch(kind):
    def setup(model):
        model.set_gradient_accumulation_options(2, gradient_accumulation_reduction_method="mean")

    (ours, logs), (stock, expected) = (
        trained(kind, strategy_of(), setup=setup),
        trained(kind, batch=8),
    )
    check_logs(logs, expected)
    check_equal_weights(ours, stock)


def stages_of_bert(model, stage):
    tokens = tf_keras.Input((LENGTH,), dtype="int32")
    names = "attention_mask head_mask encoder_hidden_states encoder_attention_mask past_key_value"
    nothing = dict.fromkeys(f"{names} output_attentions".split())
    first, second = model.bert.encoder.layer
    with stage(0):
        x = model.bert.embeddings(tokens)
        x = first(x, **nothing)[0]
    with stage(1):
        x = second(x, **nothing)[0]
        return tf_keras.Model(tokens, model.classifier(model.bert.pooler(x)))


def stages_of_gpt2(model, stage):
    parts, tokens = model.transformer, tf_keras.Input((LENGTH,), dtype="int32")
    names = "layer_past attention_mask head_mask encoder_hidden_states encoder_attention_mask "
    nothing = dict.fromkeys(f"{names} use_cache output_attentions".split())
    first, second = parts.h
    with stage(0):
        x = first(parts.wte(tokens), **nothing)[0]
    with stage(1):
        x = parts.ln_f(second(x, **nothing)[0])
        return tf_keras.Model(tokens, tf_keras.layers.Dense(CLASSES)(x[:, -1]))


def stages_of_vit(model, stage):
    parts, images = model.vit, tf_keras.Input((1, 8, 8))
    first, second = parts.encoder.layer
    with stage(0):
        x = first(parts.embeddings(images), head_mask=None, output_attentions=False)[0]
    with stage(1):
        x = second(x, head_mask=None, output_attentions=False)[0]
        return tf_keras.Model(images, model.classifier(parts.layernorm(x)[:, 0]))


def stages_of_t5(model, stage):
    tokens = tf_keras.Input((LENGTH,), dtype="int32")
    with stage(0):
        x = model.encoder(tokens)[0]
    with stage(1):
        x = model.decoder(tokens, encoder_hidden_states=x, use_cache=False)[0]
        return tf_keras.Model(tokens, tf_keras.layers.Dense(CLASSES)(x[:, -1]))


STAGES = {
    "bert": stages_of_bert,
    "gpt2": stages_of_gpt2,
    "vit": stages_of_vit,
    "t5": stages_of_t5,
}


def staged(kind, strategy=None, *, batch, setup=lambda model: None):
    """A trained functional model of the layers of another, in stages if it has a strategy."""
    stage = PipelineStage if strategy else lambda number: contextlib.nullcontext()
    with strategy.scope() if strategy else contextlib.nullcontext():
        tf_keras.utils.set_random_seed(3)
        model = STAGES[kind](MODELS[kind](), stage)
        loss = tf_keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        model.compile(tf_keras.optimizers.SGD(0.1), loss, steps_per_execution=16 // batch)
        setup(model)
        x = IMAGES if kind == "vit" else TOKENS
        history = model.fit(x, CLASS, batch_size=batch, epochs=2, shuffle=False, verbose=0)
    return model, history.history


@pytest.mark.parametrize("kind", STAGES)
def test_the_layers_of_a_model_train_in_two_stages_as_in_stock_tf_keras(kind):
    def setup(model):
        model.set_pipelining_options(
            4, gradient_accumulation_reduction_method="mean", device_mapping=ipus
        )

    ipus = [0, 0] if kind == "t5" else [0, 1]  # The embedding of T5 is in both stages.
    strategy = strategy_of(len(set(ipus)))
    (ours, logs), (stock, expected) = (
        staged(kind, strategy, batch=2, setup=setup),
        staged(kind, batch=8),
    )
    check_logs(logs, expected)
    check_equal_weights(ours, stock)
    (program,) = strategy.report(insights=False).programs
    assert len(program.device.stages) == 2
