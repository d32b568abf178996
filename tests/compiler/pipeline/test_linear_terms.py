"""Sums as their terms, which are as much as the sums."""

import pytest

from ipu_tf.compiler.hlo import parse, verify
from ipu_tf.compiler.pipeline.linear_terms import expression, fusion, terms

PARAMETERS = "a = f16[8] parameter(0)\nb = f16[8] parameter(1)\nc = f32[8] parameter(2)\n"
SCALE = "s = f32[] constant(0.125)\nf = f32[8] broadcast(s), dimensions={}\n"
BODIES = {
    "scaled": "h = f16[8] add(a, b)\nw = f32[8] convert(h)\nm = f32[8] multiply(w, f)\n",
    "turned": "h = f16[8] add(a, b)\nn = f16[8] negate(h)\nm = f32[8] convert(n)\n",
    "product": "h = f16[8] multiply(a, b)\nm = f32[8] convert(h)\n",
}


def summed(body):
    module = parse(
        "".join(f'parameter {n} input "{name}"\n' for n, name in enumerate("abc"))
        + f"sum {{\n{PARAMETERS}{SCALE}{body}ROOT t = f32[8] add(c, m)\n}}\n"
        + "ENTRY main {\nA = f16[8] parameter(0)\nB = f16[8] parameter(1)\n"
        + "C = f32[8] parameter(2)\n"
        + "ROOT r = f32[8] fusion(A, B, C), calls={sum}\n}\n"
    )
    root = module.entry_computation.by_name()["r"]
    return module, root, terms(expression(root, module.entry_computation.by_name(), module))


@pytest.mark.parametrize(
    ("body", "reads"),
    [("scaled", ["C", "A", "B"]), ("turned", ["C", "A", "B"]), ("product", ["C", "AB"])],
)
def test_linear_operations_are_distributed_over_terms(body, reads):
    _, _, found = summed(BODIES[body])
    assert ["".join(term.reads()) for term in found] == reads


def test_a_term_keeps_what_scales_and_converts_it():
    module, root, (total, first, _) = summed(BODIES["scaled"])
    fused, computation = fusion(root, "part", [total, first])
    assert fused.operands == ("C", "A")
    opcodes = [i.opcode for i in computation if i.opcode not in ("parameter", "constant")]
    assert opcodes == ["convert", "broadcast", "multiply", "add"]
    assert [str(i.type) for i in computation if i.opcode == "convert"] == ["f32[8]"]
    entry = module.entry_computation
    changed = (*(i for i in entry if i is not root), fused)
    verify(
        module.replace(
            computations={
                computation.name: computation,
                entry.name: type(entry)(name=entry.name, instructions=changed, root="part"),
            }
        )
    )
