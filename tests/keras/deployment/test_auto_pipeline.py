"""Pipelines that are chosen: never worse than the even cut, applied, explained."""

import re

import keras
import pytest

import ipu_tf
from ipu_tf import IPUConfig, IPUOutOfMemoryError, IPUStrategy, config
from ipu_tf.keras import auto_pipeline
from ipu_tf.keras.deployment.model_pipeline import (
    accumulation_of_model,
    pipeline_of_model,
    replicas_on_device,
)
from ipu_tf.profile.text.rendering import Rendering, rendering


def four_ipus():
    cfg = IPUConfig()
    cfg.auto_select_ipus = 4
    cfg.configure_ipu_system()
    return IPUStrategy()


@pytest.fixture
def strategy():
    yield four_ipus()
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


@pytest.fixture(scope="class")
def refusing():
    """A model for arguments that are out of range."""
    with four_ipus().scope():
        model = compiled(mlp())
    yield model
    config.reset_ipu_configuration()


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
    """The chosen candidate fits, and no candidate that fits trains more samples a second."""
    chosen = decision.chosen
    assert chosen.fits
    assert decision.program.fits
    for candidate in decision.candidates:
        if candidate.fits:
            assert chosen.samples_per_second >= candidate.samples_per_second
    assert any(candidate.split == "even" for candidate in decision.candidates)


def within(strategy, num_ipus=4, **bounds):
    """The decision for the MLP, and the model that it was applied to."""
    with strategy.scope():
        model = compiled(mlp())
        return auto_pipeline(model, num_ipus, batch_size=16, **bounds), model


@pytest.fixture(scope="module")
def unbound():
    """The decision without bounds, which tests only read."""
    decision, model = within(four_ipus())
    config.reset_ipu_configuration()
    return decision, model


@pytest.fixture(scope="module")
def pipelined():
    """The decision for one replica, which tests only read."""
    decision, _ = within(four_ipus(), replicas=1)
    config.reset_ipu_configuration()
    return decision


def estimated(model):
    (program,) = ipu_tf.estimate(model, batch_size=16).programs
    return program.device


class TestPipelines:
    @pytest.mark.slow
    def test_the_cut_is_better_than_the_even_one(self, pipelined):
        decision = pipelined
        check(decision)
        assert decision.program.cycles < decision.even.cycles
        assert decision.stages == tuple(sorted(decision.stages))
        assert set(decision.stages) == {0, 1, 2, 3}

    @pytest.mark.slow
    def test_the_model_has_what_was_chosen_and_its_estimate_is_the_same(self, strategy):
        bounds = {"gradient_accumulation_steps": (8, 20), "recompute": True, "replicas": 2}
        decision, model = within(strategy, **bounds)
        assigned = model.get_pipeline_stage_assignment()
        assert tuple(each.pipeline_stage for each in assigned) == decision.stages
        assert 8 <= decision.gradient_accumulation_steps <= 20
        assert decision.recompute
        program = estimated(model)
        assert program.cycles == decision.program.cycles
        assert program.replicas == decision.replicas
        assert program.recompute

    @pytest.mark.slow
    def test_only_what_the_bounds_allow_is_tried(self, strategy):
        decision, _ = within(strategy, replicas=2, recompute=False, schedules=["interleaved"])
        for candidate in decision.candidates:
            options = candidate.options
            assert (options.replicas, options.stages) == (2, 2)
            assert (options.schedule, options.recompute) == ("interleaved", False)

    @pytest.mark.slow
    def test_micro_batches_fill_the_schedule(self, strategy):
        decision, _ = within(strategy, gradient_accumulation_steps=(1, 7))
        depths = {("grouped", 2): 4, ("interleaved", 2): 2, ("interleaved", 4): 4}
        pipelines = [c.options for c in decision.candidates if c.options.stages > 1]
        assert {(o.schedule, o.stages) for o in pipelines} == set(depths)  # Grouped: 8 in 4 stages.
        for options in pipelines:
            depth = depths[options.schedule, options.stages]
            assert options.micro_batches == 7 // depth * depth

    @pytest.mark.slow
    def test_layers_that_share_weights_stay_together(self, strategy):
        with strategy.scope():
            shared = keras.layers.Dense(64, name="shared")
            x = inputs = keras.Input((64,))
            for layer in (shared, keras.layers.Dense(64), shared, keras.layers.Dense(10)):
                x = layer(x)
            model = compiled(keras.Model(inputs, x, name="tied"))
            decision = auto_pipeline(model, 2, batch_size=16, replicas=1)
        # Calls: shared, dense, shared, dense.
        assert decision.stages[-4:] == (0, 0, 0, 1)
        assert {candidate.split for candidate in decision.candidates} == {"balanced"}

    @pytest.mark.slow
    def test_what_the_configuration_recomputes_is_recomputed(self, strategy):
        cfg = IPUConfig()
        cfg.auto_select_ipus = 4
        cfg.allow_recompute = True
        cfg.configure_ipu_system()
        decision, model = within(strategy, replicas=1)
        assert all(candidate.options.recompute for candidate in decision.candidates)
        with pytest.raises(ValueError, match="`allow_recompute` of the configuration makes"):
            auto_pipeline(model, 4, batch_size=16, recompute=False)


class TestDataParallelism:
    @pytest.mark.slow
    def test_a_model_that_fits_on_one_ipu_is_replicated(self, strategy):
        decision, model = within(strategy, gradient_accumulation_steps=(2, 64))
        check(decision)
        assert decision.chosen.split == "whole"
        assert decision.replicas == 4
        assert decision.program.all_reduce_cycles > 0
        assert decision.gradient_accumulation_steps == 64
        assert pipeline_of_model(model) is None
        assert accumulation_of_model(model).steps_per_replica == 64
        assert replicas_on_device(model) == 4
        assert estimated(model).cycles == decision.program.cycles

    @pytest.mark.slow
    def test_a_single_micro_batch_needs_no_accumulators(self, strategy):
        decision, _ = within(strategy, replicas=4)
        few, many = sorted(decision.candidates, key=lambda c: c.options.micro_batches)
        assert few.options.micro_batches == 1
        assert many.options.micro_batches == 64
        assert max(few.ipu_bytes) < max(many.ipu_bytes)

    @pytest.mark.slow
    def test_one_ipu_is_enough_for_one_candidate(self, strategy):
        decision, _ = within(strategy, 1, gradient_accumulation_steps=4)
        (candidate,) = decision.candidates
        assert (candidate.options.replicas, candidate.options.stages) == (1, 1)
        assert decision.program.all_reduce_cycles == 0

    @pytest.mark.slow
    def test_what_was_set_before_stays(self, strategy):
        with strategy.scope():
            model = compiled(mlp())
            model.set_pipelining_options(
                gradient_accumulation_reduction_method="mean", gradient_accumulation_dtype="float32"
            )
            auto_pipeline(model, 4, batch_size=16, replicas=4)
            assert accumulation_of_model(model).reduction_method.name == "MEAN"
            assert accumulation_of_model(model).dtype == "float32"
            auto_pipeline(model, 4, batch_size=16, replicas=2)
            assert accumulation_of_model(model).reduction_method.name == "MEAN"

    @pytest.mark.slow
    def test_what_was_set_for_accumulation_holds_in_a_pipeline(self, strategy):
        with strategy.scope():
            model = compiled(mlp())
            model.set_gradient_accumulation_options(
                gradient_accumulation_reduction_method="running_mean"
            )
            auto_pipeline(model, 4, batch_size=16, replicas=2)
        assert accumulation_of_model(model).reduction_method.name == "RUNNING_MEAN"


class TestReasons:
    @pytest.mark.slow
    def test_the_reason_names_what_was_chosen_and_what_comes_next(self, unbound):
        decision, _ = unbound
        assert decision.reason.startswith(
            "Model 'mlp': 4 x 1 IPUs, the whole model on each, 64 micro-batches an update: "
        )
        assert f"of {len(decision.candidates)} that were compiled" in decision.reason
        assert "Next is 2 x 2 IPUs, balanced split, " in decision.reason
        assert "more cycles a sample." in decision.reason

    @pytest.mark.slow
    def test_a_pipeline_says_where_stages_begin_and_what_limits(self, pipelined):
        decision = pipelined
        limit = decision.program.limiting_stage.index
        assert f"Stage {limit} limits it; bubble" in decision.reason
        assert re.search(r"Stages begin at mlp/dense\w*, mlp/dense_\w+, ", decision.reason)
        assert "The best even split is 1 x 4 IPUs, even split" in decision.reason

    def test_every_candidate_has_a_row(self, unbound):
        decision, _ = unbound
        with rendering(Rendering(width=300)):
            _, _, table = str(decision).partition("\n\n")
        header, *rows = table.split("\n")
        assert header.split()[-1] == "verdict"
        assert len(rows) == len(decision.candidates)
        assert rows[0].endswith("chosen")
        for row, candidate in zip(rows, decision.candidates, strict=True):
            assert f"{candidate.cycles:,}" in row
            assert f"{candidate.samples_per_second:,.1f}" in row

    @pytest.mark.slow
    def test_what_does_not_fit_says_by_how_much(self, strategy):
        small = IPUConfig()
        small.auto_select_ipus = 4
        small.ipu_model.tiles_per_ipu = 128
        decision, _ = within(strategy, config=small)
        assert decision.chosen.fits
        over = [candidate for candidate in decision.candidates if not candidate.fits]
        assert over
        assert str(decision).count("OUT OF MEMORY by") == len(over)

    @pytest.mark.slow
    def test_a_device_of_another_size_is_noted(self, strategy):
        decision, _ = within(strategy, 2)
        assert "Note: the device has 4 IPUs: set `auto_select_ipus` to 2" in decision.reason

    def test_nothing_is_left_in_the_report(self, unbound):
        _, model = unbound
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
            ({"num_ipus": 0}, "`num_ipus` must be a positive int. Received: 0"),
            ({"replicas": 0}, "`replicas` must be a positive int. Received: 0"),
            ({"num_ipus": 6}, "`num_ipus` must be a power of two.* Received: 6"),
            ({"replicas": 3}, "`replicas` must be a power of two.* Received: 3"),
            ({"replicas": 8}, "takes at least one IPU.* Received: num_ipus=4, replicas=8"),
            ({"schedules": ["fast"]}, r"`schedules` must list some of .* Received: \['fast'\]"),
            ({"schedules": ()}, r"`schedules` must list some of .* Received: \(\)"),
            ({"gradient_accumulation_steps": 0}, "must be a positive int, or a pair of the least"),
            ({"gradient_accumulation_steps": (4, 2)}, r"Received: \(4, 2\)"),
            (
                {"gradient_accumulation_steps": 1, "replicas": 1},
                "Model 'mlp' cannot train on 4 IPUs within the bounds.* Received: replicas=1",
            ),
            ({"batch_size": 0}, "`batch_size` must be a positive int"),
        ],
    )
    def test_arguments_out_of_range(self, refusing, arguments, message):
        with pytest.raises(ValueError, match=message):
            auto_pipeline(refusing, **({"num_ipus": 4, "batch_size": 16} | arguments))

    @pytest.mark.slow
    def test_a_model_that_no_pipeline_holds(self, strategy):
        with strategy.scope():
            model = compiled(mlp())
        small = IPUConfig()
        small.auto_select_ipus = 4
        small.ipu_model.tiles_per_ipu = 2
        with pytest.raises(IPUOutOfMemoryError, match="IPU"):
            auto_pipeline(model, 4, batch_size=16, config=small)
        assert model.get_pipeline_stage_assignment()[0].pipeline_stage is None
