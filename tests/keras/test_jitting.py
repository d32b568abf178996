"""The choice between XLA and the graph executor."""

from ipu_tf._private import op_def_registry
from ipu_tf.keras import jitting
from ipu_tf.ops import library


def test_every_op_that_is_listed_exists():
    library.load()
    unknown = [name for name in jitting.JITTED_OPS if op_def_registry.get(name) is None]
    assert unknown == []
