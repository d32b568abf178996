"""The zoo's networks have the published number of weights."""

import keras
import pytest

from ipu_tf import zoo
from ipu_tf.runtime.untouched import untouched_variables

WEIGHTS = {
    "efficientnet_b0_g16": 5.9e6,  # Masters et al., table 2: 5.9 million
    "efficientnet_b4_g16": 19.3e6,  # the 19 million of B4, which the variant keeps
    "resnet50": 25_557_032,
    "resnext101_32x4d": 44_177_704,
    "vit_b16": 86_567_656 + 768 * 769,  # and the hidden layer of pre-training
}
"""Trained weights; millions where no more digits are published."""


@pytest.mark.slow
@pytest.mark.parametrize("name", zoo.NETWORKS)
def test_networks_have_the_published_number_of_weights(name):
    with untouched_variables():
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
