"""Mappings of scripts that become structures of Keras."""

from collections import OrderedDict

import keras

from ipu_tf.internals.keras import register_mappings_in


class Outputs(OrderedDict):
    """The outputs of a model, as Hugging Face has them."""


def test_mappings_in_structures_become_structures_once():
    one, other = Outputs(b=1, a=2), Outputs(c=Outputs(d=3))
    assert keras.tree.flatten([one, other]) == [one, other]
    assert register_mappings_in([one, other])
    assert not register_mappings_in([one, other])
    assert keras.tree.flatten([one, other]) == [2, 1, 3]
    doubled = keras.tree.map_structure(lambda leaf: 2 * leaf, one)
    assert type(doubled) is Outputs
    assert list(doubled.items()) == [("b", 2), ("a", 4)]
