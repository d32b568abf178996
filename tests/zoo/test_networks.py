"""The zoo's networks have the published number of weights."""

import keras
import pytest

from ipu_tf import zoo
from ipu_tf.runtime.execution.placeholder_variables import placeholder_variables

WEIGHTS = {
    "bert_base": 110_106_428,  # with both heads of pre-training
    "bert_base_squad": 108_893_186,
    "bert_large": 336_226_108,
    "bert_large_squad": 334_094_338,
    "braggnn": 45_394,  # worked out from the layers of figure 2
    "cookienetae": 343.9e3,  # 343,937; the channels of its convolutions are not published
    "efficientnet_b0": 5.3e6,
    "efficientnet_b0_g16": 5.9e6,  # Masters et al., table 2
    "efficientnet_b4": 19.3e6,
    "efficientnet_b4_g16": 19.3e6,  # the variant keeps the size of B4
    "gpt2": 124_439_808,
    "gpt2_medium": 354_823_168,
    "gpt3_175b": 174.6e9,
    "mobilenet_v2": 3.5e6,
    "mobilenet_v3_large": 5.48e6,
    "mobilenet_v3_small": 2.54e6,
    "mpnn": 86_017,  # worked out from its layers
    "resnet50": 25_557_032,
    "resnext101_32x4d": 44_177_704,
    "schnet": 116_033,  # worked out from its layers
    "swin_t": 28_288_354,
    "tgn": 591_537,  # worked out from its layers
    "tlr_mvm": 2 * 2 * 38 * 256 * 38 * 12,
    "unet_572": 31_030_658,  # worked out from figure 1
    "uno": 19_274_001,
    "vit_b16": 86_567_656 + 768 * 769,  # and the hidden layer of pre-training
    "weather_mlp": 24_116,
}
"""Trained weights; millions where no more digits are published."""


@pytest.mark.slow
@pytest.mark.parametrize("name", zoo.NETWORKS)
def test_networks_have_the_published_number_of_weights(name):
    with placeholder_variables():
        model = zoo.network(name).make()
    weights = sum(weight.value.shape.num_elements() for weight in model.trainable_weights)
    published = WEIGHTS[name]
    assert weights == (
        published if isinstance(published, int) else pytest.approx(published, rel=0.01)
    )


def test_every_network_is_counted_and_documented(pytestconfig):
    page = (pytestconfig.rootpath / "docs" / "zoo.md").read_text()
    assert sorted(WEIGHTS) == list(zoo.NETWORKS)
    assert [name for name in (*zoo.NETWORKS, *zoo.OPTIMIZERS) if f"`{name}`" not in page] == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"name": "alexnet"}, "the zoo has no network of that name.*resnet50.*Received: 'alexnet'"),
        (
            {"name": "resnet50", "heads": 3},
            "network 'resnet50' has no option 'heads'. Its options are image_size, classes",
        ),
        (
            {"name": "resnet50", "optimizer": "magic"},
            "take the optimizers adam, .*sgd_momentum. Received: 'magic'",
        ),
    ],
)
def test_unknown_names(arguments, message):
    with pytest.raises(ValueError, match=message):
        zoo.compiled(**arguments)


def test_compiled_networks_have_their_optimizer_and_loss():
    small = {"image_size": 32, "depth": 1, "width": 8, "heads": 2}
    model = zoo.compiled("vit_b16", **small)
    assert isinstance(model.optimizer, keras.optimizers.Lamb)
    assert model.loss == "sparse_categorical_crossentropy"
    assert isinstance(
        zoo.compiled("vit_b16", optimizer="adam", **small).optimizer, keras.optimizers.Adam
    )


def test_dropout_of_vision_transformers_follows_every_dense_layer_but_the_projections():
    model = zoo.vit_b16(image_size=32, depth=1, width=8, heads=2)
    dropped = {layer.name for layer in model.layers if isinstance(layer, keras.layers.Dropout)}
    of_layer = {"0_attention_dropout", "0_hidden_dropout", "0_mlp_dropout"}
    assert dropped == {"patches_dropout"} | of_layer
