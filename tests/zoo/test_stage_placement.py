"""Blocks run in the stages that a placement gives them."""

import dataclasses

import keras
import pytest

from ipu_tf import IPUStrategy, zoo
from ipu_tf.keras.deployment.model_pipeline import pipeline_of_model
from ipu_tf.keras.layers import RecomputationCheckpoint
from ipu_tf.zoo.stage_placement import chain
from tests.zoo import tiny

TEXT = {**tiny.LANGUAGE, "depth": 2, "sequence_length": 6}
SMALL = {"image_size": 32, "classes": 4, "depth": 3, "width": 8, "heads": 2}


@pytest.fixture
def strategy():
    strategy = IPUStrategy()
    with strategy.scope():
        yield strategy


def test_blocks_begin_stages(strategy):
    model = zoo.vit_b16(placement=zoo.StagePlacement(stages=("1", "head")), **SMALL)
    stages = {one.layer.name: one.pipeline_stage for one in model.get_pipeline_stage_assignment()}
    assert stages["patches_class"] == stages["0_mlp_2"] == 0
    assert stages["1_attention"] == stages["2_mlp_sum"] == 1
    assert stages["head_norm"] == stages["classes"] == 2


def test_the_last_relu_of_a_unit_begins_a_stage(strategy):
    network = zoo.resnet.Residual(name="tiny", units=(2,), stem_channels=4, group_width=4)
    placement = zoo.StagePlacement(stages=("1.1",), checkpoints=("1.2",))
    model = zoo.resnet.residual(network, image_size=32, classes=4, placement=placement)
    stages = {one.layer.name: one.pipeline_stage for one in model.get_pipeline_stage_assignment()}
    assert (stages["1.1_sum"], stages["1.1_relu"]) == (0, 1)
    assert isinstance(model.get_layer("checkpoint_1.2"), RecomputationCheckpoint)


def test_a_head_that_reads_the_embeddings_is_on_their_ipu(strategy):
    model = zoo.pipelined("gpt2", zoo.StagePlacement(stages=("1",)), micro_batches=8, **TEXT)
    stages = {one.layer.name: one.pipeline_stage for one in model.get_pipeline_stage_assignment()}
    assert (stages["0_attention"], stages["1_attention"], stages["head_norm"]) == (0, 1, 2)
    assert pipeline_of_model(model).ipus == (0, 1, 0)


@pytest.mark.usefixtures("strategy")
def test_a_network_that_no_ipu_holds_is_a_pipeline_in_the_scope(monkeypatch):
    def small(*, placement):
        stages = ("1", *placement.stages[-1:])
        return zoo.gpt2(placement=zoo.StagePlacement(stages=stages), **TEXT)

    gpt3 = zoo.network("gpt3_175b")
    monkeypatch.setitem(zoo.NETWORKS, "gpt3_175b", dataclasses.replace(gpt3, make=small))
    model = zoo.compiled("gpt3_175b")
    assert len(gpt3.pipeline.placement.stages) == 63
    assert model.get_pipeline_stage_assignment()[-1].pipeline_stage == 2
    options = model.ipu_training_state.pipelining
    assert (options.steps_per_replica, options.offload_weights) == (390, True)
    assert options.device_mapping == (*range(64), 0)


def test_a_network_without_stages_has_none():
    make, _ = tiny.NETWORKS["vit_b16"]
    assert isinstance(make(), keras.Model)  # Outside of a scope stages would be an error.


@pytest.mark.parametrize(
    ("placement", "message"),
    [
        ({"stages": ("b",)}, r"no block 'b'. Name blocks of a, c. Received: stages=\['b'\]"),
        ({"checkpoints": ("b",)}, r"no block 'b'.*Received: checkpoints=\['b'\]"),
        ({"stages": ("a",)}, r"after its first block 'a'. Received: stages=\['a'\]"),
        ({"stages": ("c", "c")}, "in the order of the network"),
    ],
)
def test_blocks_that_cannot_be_placed(placement, message):
    blocks = [("a", lambda x: x), ("c", lambda x: x)]
    with pytest.raises(ValueError, match=message):
        chain(keras.Input((2,)), blocks, zoo.StagePlacement(**placement))


@pytest.mark.slow
@pytest.mark.usefixtures("strategy")
def test_networks_of_keras_keep_the_results_of_their_blocks():
    options = {"image_size": 32, "classes": 4}
    placement = zoo.StagePlacement(checkpoints=("1", "2"))
    model = zoo.network("mobilenet_v3_small").make(placement=placement, **options)
    kept = model.ipu_training_state.recomputation.checkpoints
    assert kept == ("expanded_conv_1_project_bn", "expanded_conv_2_add")
    with pytest.raises(ValueError, match="no block whose layers begin with 'expanded_conv_99_'"):
        zoo.network("mobilenet_v3_small").make(
            placement=zoo.StagePlacement(checkpoints=("99",)), **options
        )
