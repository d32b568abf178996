"""Methods of models keep their signatures while a script runs: the loop binds arguments by them."""

import inspect

import keras
import pytest

from ipu_tf.compat.script import vendor_script

METHODS = ("fit", "evaluate", "predict")


@pytest.mark.parametrize("max_steps", [None, 2])
def test_replaced_methods_have_the_signatures_of_stock(max_steps):
    before = [inspect.signature(getattr(keras.Model, name)) for name in METHODS]
    with vendor_script(offline=False, max_steps=max_steps, tf1=False):
        found = [inspect.signature(getattr(keras.Model, name)) for name in METHODS]
    assert found == before
