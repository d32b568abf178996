"""Scripts find names of Python's library where they were."""

import collections
import collections.abc

from ipu_tf.compat.script import vendor_script


def test_collections_have_their_abstract_classes_while_a_script_runs():
    with vendor_script():
        assert collections.Mapping is collections.abc.Mapping
        assert isinstance([], collections.Iterable)
    assert not hasattr(collections, "Mapping")
