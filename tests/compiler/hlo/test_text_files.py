"""The modules that are kept as text are modules, simplified."""

import pytest

from ipu_tf.compiler.hlo import to_text, verify
from ipu_tf.compiler.passes.simplify import simplify
from tests.compiler import modules


@pytest.mark.parametrize("name", modules.TEXTS)
def test_files(name):
    module = modules.text(name)
    verify(module)
    assert to_text(simplify(module)) == to_text(module)
    opcodes = {i.opcode for computation in module.computations.values() for i in computation}
    assert {"dot", "fusion", "reduce"} <= opcodes
