"""The step of many equal blocks follows from that of four."""

import re

import pytest

from ipu_tf.compiler import compile as compiler
from ipu_tf.compiler.compile import simplified_step
from ipu_tf.compiler.compiler_options import CompilerOptions
from ipu_tf.compiler.equal_blocks.lengthening import lengthened, lengthened_module
from ipu_tf.compiler.equal_blocks.repetition import BlockNames, NotRepeated, Repetition
from ipu_tf.compiler.equal_blocks.splicing import lengthened_ops
from ipu_tf.compiler.hlo import Array, Instruction, Module, Parameter, TupleType, verify
from ipu_tf.compiler.hlo import Computation as Instructions
from ipu_tf.compiler.passes import dead_code
from ipu_tf.compiler.passes.simplify import simplify
from ipu_tf.compiler.traced_step import TracedStep
from ipu_tf.machine import target
from ipu_tf.programs.program import NativeOp

F4, COUNT = Array("f32", (4,)), 7
BLOCKS = [BlockNames(layers=(f"b{n}",), variables=(f"b{n}_w",)) for n in range(COUNT)]


class Chain:
    """A training step of blocks x -> tanh(w * x), as a trace has it; methods are overridden."""

    gradient_of_loss = "abs"

    def __init__(self, blocks):
        self.blocks = blocks
        self.instructions = []
        self.results = []
        self.names = {}

    def add(self, name, opcode, *operands, op="", layer="", **attributes):
        one = Instruction(
            name=f"{name}.{len(self.instructions)}",
            opcode=opcode,
            type=F4,
            operands=tuple(self.names[operand] for operand in operands),
            op_name=op,
            layer=layer,
            attributes=attributes,
        )
        self.instructions.append(one)
        self.names[name] = one.name
        return name

    def forward(self, n, before):
        """Adds the forward pass of a block."""
        self.add(f"m{n}", "multiply", f"w{n}", before, op=f"net/b{n}_1/Mul", layer=f"b{n}")
        self.add(f"y{n}", "tanh", f"m{n}", op=f"net/b{n}_1/Tanh", layer=f"b{n}")
        return f"y{n}"

    def backward(self, n, before, behind):
        """Adds the backward pass of a block."""
        tape = f"gradient_tape/net/b{n}_1"
        self.add(f"t{n}", "multiply", behind, f"y{n}", op=f"{tape}/TanhGrad", layer=f"b{n}")
        self.add(f"d{n}", "multiply", f"t{n}", before, op=f"{tape}/Mul_1", layer=f"b{n}")
        self.add(f"x{n}", "multiply", f"t{n}", f"w{n}", op=f"{tape}/Mul", layer=f"b{n}")
        return self.add(f"g{n}", "add", f"x{n}", behind, op=f"AddN_{n}")

    def weights(self, n):
        """The weights of a block in the order of the parameters."""
        return "w"

    def update(self, n, weight):
        """Adds the update of a weight of a block."""
        gradient = {"w": f"d{n}", "v": f"e{n}"}[weight]
        one = f"{weight}{n}"
        self.add(f"s{one}", "multiply", gradient, "rate", op=f"sgd/mul_{2 * n}", layer="sgd")
        return self.add(f"u{one}", "subtract", one, f"s{one}", op=f"sgd/sub_{n}", layer="sgd")

    def step(self):
        parameters = [Parameter(name="x", role="input"), Parameter(name="rate", role="state")]
        weights = [(n, weight) for n in self.blocks for weight in self.weights(n)]
        for number, name in enumerate(["x", "rate", *(f"{weight}{n}" for n, weight in weights)]):
            self.add(name, "parameter", parameter_number=number)
        parameters += [
            Parameter(name=f"b{n}/{weight}", role="weight", layer=f"b{n}", updated_by=1 + place)
            for place, (n, weight) in enumerate(weights)
        ]
        values = ["x"]
        for n in self.blocks:
            values.append(self.forward(n, values[-1]))
        self.add("loss", "negate", values[-1], op="loss/Neg", layer="loss")
        gradient = self.add(
            "back", self.gradient_of_loss, values[-1], op="gradient_tape/Abs", layer="loss"
        )
        for n, before in reversed(list(zip(self.blocks, values, strict=False))):
            gradient = self.backward(n, before, gradient)
        results = ["loss", *(self.update(n, weight) for n, weight in weights)]
        self.add("root", "tuple", *results)
        root = self.instructions.pop()
        types = TupleType((F4,) * len(results))
        self.instructions.append(root.replace(type=types))
        main = Instructions(name="main", instructions=tuple(self.instructions), root=root.name)
        module = Module(
            name="step", computations={"main": main}, entry="main", parameters=tuple(parameters)
        )
        verify(module)
        return TracedStep(
            module=module,
            options=CompilerOptions(target=target("gc200")),
            plans={},
            samples_per_run=1,
        )


def lengthened_chain(kind=Chain, ends=(0, 1, COUNT - 2, COUNT - 1)):
    return lengthened(kind(ends).step(), Repetition(BLOCKS))


def read(module):
    """What each instruction is and reads, without the numbers of its names."""
    entry = module.entry_computation
    place = {one.name: number for number, one in enumerate(entry)}
    return [
        (
            one.opcode,
            str(one.type),
            re.sub(r"_\d+$", "", one.op_name),
            one.layer,
            one.attributes.get("parameter_number"),
            [place[operand] for operand in one.operands],
        )
        for one in entry
    ]


class WithParametersInAnyOrder(Chain):
    """Blocks tanh(w * x) + v, one of which has its parameters in another order."""

    def weights(self, n):
        return "vw" if n == 1 else "wv"

    def forward(self, n, before):
        name = super().forward(n, before)
        return self.add(f"z{n}", "add", name, f"v{n}", op=f"net/b{n}_1/AddV2", layer=f"b{n}")

    def backward(self, n, before, behind):
        self.add(f"e{n}", "negate", behind, op=f"gradient_tape/net/b{n}_1/Neg", layer=f"b{n}")
        return super().backward(n, before, behind)


@pytest.mark.parametrize("kind", [Chain, WithParametersInAnyOrder])
def test_the_step_is_that_of_a_trace_of_all_blocks(kind):
    whole = dead_code.run(kind(range(COUNT)).step().module)
    longer = lengthened_chain(kind).module
    verify(longer)
    assert read(longer) == read(whole)
    assert longer.parameters == whole.parameters


def test_passes_on_four_blocks_give_what_they_give_on_all():
    short = Chain((0, 1, COUNT - 2, COUNT - 1)).step().module
    longer = lengthened_module(simplify(short), Repetition(BLOCKS))
    verify(longer)
    simple = simplify(lengthened_chain().module)
    assert "fusion" in {one.opcode for one in simple.entry_computation}
    assert read(longer) == read(simple)
    assert longer.parameters == simple.parameters


def simplified_modules(monkeypatch, step, module):
    """The parameters of modules that passes run on, and the simplified module."""
    passed = []
    monkeypatch.setattr(compiler, "simplify", lambda one: passed.append(one) or simplify(one))
    simple = simplified_step(module, recompute=False, outer=step.outer)
    return [len(one.parameters) for one in passed], simple


def test_passes_run_on_the_trace_of_four_blocks(monkeypatch):
    step = lengthened_chain()
    sizes, simple = simplified_modules(monkeypatch, step, step.module)
    assert sizes == [2 + 4]
    assert len(simple.parameters) == 2 + COUNT


def test_passes_run_on_all_blocks_of_another_module(monkeypatch):
    step = lengthened_chain()
    sizes, _ = simplified_modules(monkeypatch, step, lengthened_chain().module)
    assert sizes == [2 + COUNT]


class WithLossAsGradient(Chain):
    """Its gradients are sums with the loss, so passes compute them anew wherever they are read."""

    gradient_of_loss = "negate"


def test_passes_that_join_blocks_run_on_all(monkeypatch):
    step = lengthened_chain(WithLossAsGradient)
    sizes, simple = simplified_modules(monkeypatch, step, step.module)
    assert sizes == [2 + 4, 2 + COUNT]
    assert len(simple.parameters) == 2 + COUNT


class WithGlobalNorm(Chain):
    """Scales every gradient by what comes of all of them."""

    def update(self, n, weight):
        if n == self.blocks[0]:
            self.names["norm"] = self.names["rate"]
            for other in self.blocks:
                self.add("norm", "add", "norm", f"d{other}", op="sgd/norm", layer="sgd")
            self.names["rate"] = self.names["norm"]
        return super().update(n, weight)


class WithFarReads(Chain):
    """Every block reads the one before the last."""

    def forward(self, n, before):
        place = list(self.blocks).index(n)
        far = f"y{self.blocks[place - 2]}" if place > 1 else "x"
        super().forward(n, before)
        return self.add(f"y{n}", "add", f"y{n}", far, op=f"net/b{n}_1/Add", layer=f"b{n}")


class WithOneOfItsOwn(Chain):
    """A block does more than the others."""

    def forward(self, n, before):
        name = super().forward(n, before)
        return self.add(f"y{n}", "abs", name, op="net/b1/Abs", layer="b1") if n == 1 else name


class WithNumbers(Chain):
    """The blocks have constants of their own."""

    def forward(self, n, before):
        name = super().forward(n, before)
        self.add(f"c{n}", "constant", op=f"net/b{n}/Const", layer=f"b{n}", literal=repr(n))
        return self.add(f"y{n}", "add", name, f"c{n}", op=f"net/b{n}/AddV2", layer=f"b{n}")


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        (WithGlobalNorm, "of a block that is not its neighbour"),
        (WithFarReads, "of a block that is not its neighbour"),
        (WithOneOfItsOwn, "other instructions: .*abs"),
        (WithNumbers, "constant, 'net/b1/Const'.* differ"),
    ],
)
def test_other_blocks_are_refused(kind, message):
    with pytest.raises(NotRepeated, match=message):
        lengthened_chain(kind)


def test_lists_of_ops_have_those_of_all_blocks():
    def ops(blocks):
        names = [*(f"b{n}/MatMul" for n in blocks), *(f"b{n}/MatMul_1" for n in reversed(blocks))]
        return [
            NativeOp(name=name, layer=name.partition("/")[0], op_type="MatMul", reason="")
            for name in names
        ]

    assert lengthened_ops(ops([0, 1, 5, 6]), Repetition(BLOCKS)) == ops(range(COUNT))


def test_variables_of_optimizers_are_named_after_those_of_their_block():
    names = Repetition(BLOCKS)
    assert names.renamed_variable("adam/b5_w_momentum", 0) == "adam/b2_w_momentum"
    assert names.renamed_variable("b5/w", 2) == "b4/w"
    assert names.renamed_variable("adam/iteration", 0) == "adam/iteration"
