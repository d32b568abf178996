"""Pipelines that are chosen: never worse than the even cut, applied, explained."""

import keras
import pytest

import ipu_tf
from ipu_tf import IPUConfig, IPUOutOfMemoryError, IPUStrategy, config
from ipu_tf.keras import auto_pipeline


@pytest.fixture
def strategy():
    cfg = IPUConfig()
    cfg.auto_select_ipus = 4
    cfg.configure_ipu_system()
    yield IPUStrategy()
    config.reset_ipu_configuration()


def compiled(model):
    model.compile(optimizer=keras.optimizers.SGD(0.01), loss="sparse_categorical_crossentropy")
    return model


def mlp():
    """Layers that grow towards the end: an even cut is far from balanced."""
    sizes = (64, 64, 64, 64, 512, 2048, 2048)
    hidden = [keras.layers.Dense(size, activation="relu") for size in sizes]
    return keras.Sequential(
        [keras.Input((64,)), *hidden, keras.layers.Dense(10, activation="softmax")], name="mlp"
    )


def encoder(layers=12, size=768, heads=12, length=128, vocabulary=30522):
    """An encoder of the size of BERT base."""
    tokens = keras.Input((length,), dtype="int32")
    x = keras.layers.Embedding(vocabulary, size)(tokens)
    for _ in range(layers):
        attended = keras.layers.MultiHeadAttention(heads, size // heads)(x, x)
        x = keras.layers.LayerNormalization()(keras.layers.Add()([x, attended]))
        wide = keras.layers.Dense(4 * size, activation="gelu")(x)
        x = keras.layers.Add()([x, keras.layers.Dense(size)(wide)])
        x = keras.layers.LayerNormalization()(x)
    pooled = keras.layers.GlobalAveragePooling1D()(x)
    return keras.Model(tokens, keras.layers.Dense(2, activation="softmax")(pooled), name="encoder")


def check(decision):
    """It fits, and is no slower than the even cut; one that does not fit is worse than any."""
    assert decision.program.fits
    if decision.even.fits:
        assert decision.program.cycles <= decision.even.cycles


class TestMlp:
    def test_the_cut_is_better_than_the_even_one(self, strategy):
        with strategy.scope():
            model = compiled(mlp())
        decision = auto_pipeline(model, 4, batch_size=16, replicas=1)
        check(decision)
        assert decision.program.cycles < decision.even.cycles
        assert decision.stages == tuple(sorted(decision.stages))
        assert set(decision.stages) == {0, 1, 2, 3}

    def test_the_model_has_what_was_chosen_and_its_estimate_is_the_same(self, strategy):
        with strategy.scope():
            model = compiled(mlp())
            decision = auto_pipeline(
                model, 4, batch_size=16, gradient_accumulation_steps=(8, 20), recompute=True
            )
        assigned = model.get_pipeline_stage_assignment()
        assert tuple(each.pipeline_stage for each in assigned) == decision.stages
        assert 8 <= decision.gradient_accumulation_steps <= 20
        assert decision.recompute
        (program,) = ipu_tf.estimate(model, batch_size=16).programs
        assert program.pipeline.cycles == decision.program.cycles
        assert program.pipeline.replicas == decision.replicas

    def test_the_reason_says_how_fast_and_what_limits(self, strategy):
        with strategy.scope():
            model = compiled(mlp())
        decision = auto_pipeline(model, 2, batch_size=16)
        assert "Model 'mlp': 1 x 2 IPUs" in decision.reason
        assert "samples/s" in decision.reason
        assert f"Limited by stage {decision.program.limiting_stage.index}" in str(decision)

    def test_nothing_is_left_in_the_report(self, strategy):
        with strategy.scope():
            model = compiled(mlp())
        auto_pipeline(model, 2, batch_size=16)
        assert model.distribute_strategy.report().programs == ()


@pytest.mark.slow
class TestLargeModels:
    def test_resnet50(self, strategy):
        with strategy.scope():
            model = compiled(keras.applications.ResNet50(weights=None))
        check(auto_pipeline(model, 4, batch_size=4))

    def test_encoder_of_the_size_of_bert_base(self, strategy):
        with strategy.scope():
            model = compiled(encoder())
        check(auto_pipeline(model, 4, batch_size=2))


class TestErrors:
    def test_a_model_from_outside_of_the_scope(self):
        with pytest.raises(TypeError, match="made in the scope of an IPUStrategy"):
            auto_pipeline(mlp(), 4, batch_size=16)

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            ({"num_ipus": 1}, "`num_ipus` must be an int of at least 2. Received: 1"),
            ({"num_ipus": 6}, "`num_ipus` must be a power of two.* Received: 6"),
            ({"replicas": 3}, "`replicas` must be a power of two.* Received: 3"),
            ({"replicas": 4}, "need 8 IPUs.* Received: num_ipus=4, replicas=4"),
            ({"gradient_accumulation_steps": 0}, "must be a positive int, or the least and the"),
            ({"gradient_accumulation_steps": (4, 2)}, r"Received: \(4, 2\)"),
            ({"gradient_accumulation_steps": 1}, "No pipeline of model 'mlp' runs on 4 IPUs"),
            ({"batch_size": 0}, "`batch_size` must be a positive int"),
        ],
    )
    def test_arguments_out_of_range(self, strategy, arguments, message):
        with strategy.scope():
            model = compiled(mlp())
        with pytest.raises(ValueError, match=message):
            auto_pipeline(model, **({"num_ipus": 4, "batch_size": 16} | arguments))

    def test_a_model_that_no_pipeline_holds(self, strategy):
        with strategy.scope():
            model = compiled(mlp())
        small = IPUConfig()
        small.auto_select_ipus = 4
        small.ipu_model.tiles_per_ipu = 2
        with pytest.raises(IPUOutOfMemoryError, match="IPU"):
            auto_pipeline(model, 4, batch_size=16, config=small)
        assert model.get_pipeline_stage_assignment()[0].pipeline_stage is None
