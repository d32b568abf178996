"""The tests of `tests/keras` that are collected a second time, over tf_keras."""

import importlib
import re

import pytest

from tests import over_keras_2

tf_keras = pytest.importorskip("tf_keras")


def test_a_twin_is_made_of_tf_keras():
    twin = importlib.import_module("over_keras_2.small_models")
    assert twin.keras is tf_keras
    assert issubclass(twin.Net, tf_keras.Model)
    twin = importlib.import_module("over_keras_2.optimizers.parameters")
    assert {type(one).__module__.partition(".")[0] for one in twin.variables()} == {"tensorflow"}


@pytest.mark.parametrize(
    "name", sorted({*over_keras_2.FAST, *(one for of in over_keras_2.APART.values() for one in of)})
)
def test_what_is_listed_exists(name):
    file, _, test = name.partition("::")
    source = (over_keras_2.TESTS / file).read_text()
    function = re.escape(test.rpartition("::")[2].partition("[")[0])
    assert re.search(rf"^ *def {function}\(", source, re.MULTILINE) or not test
