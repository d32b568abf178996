"""Lowers small programs written as text, instruction by instruction."""

import dataclasses

from ipu_tf.compiler.compiler_options import CompilerOptions
from ipu_tf.compiler.hlo import parse
from ipu_tf.compiler.lowering import lower, spread
from ipu_tf.compiler.lowering.context import LoweringContext, TileBalance
from ipu_tf.compiler.lowering.lowered_instruction import LoweredInstruction
from ipu_tf.compiler.lowering.mapping import arrays
from ipu_tf.machine.target import target

TILES = 8
ADD = "add {\na = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT c = f32[] add(a, b)\n}\n"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Program:
    """The result of lowering a program.

    Attributes:
        lowered: By instruction.
        placements: Where the arrays of each result lie, by instruction.
        context: The context of its entry.
    """

    lowered: dict[str, LoweredInstruction]
    placements: dict[str, tuple]
    context: LoweringContext

    def cycles(self, name):
        return sum(step.total_cycles for step in self.lowered[name].supersteps)

    def exchange_bytes(self, name):
        return sum(step.exchange_bytes for step in self.lowered[name].supersteps)


def context_of(module, *, tiles=TILES, chip="bow", plans=None):
    options = CompilerOptions(target=target(chip, tiles_per_ipu=tiles))
    return LoweringContext(
        options=options,
        plans=plans or {},
        computations=module.computations,
        instructions=module.entry_computation.by_name(),
        balance=TileBalance(tiles),
    )


def run(entry, *, before="", tiles=TILES, chip="bow", plans=None, placed=None):
    """Lowers the instructions of an entry, given as lines; parameters are spread.

    Args:
        entry: The lines of the entry; the last one is the root.
        before: Text of the computations that it calls.
        tiles: Tiles of the chip.
        chip: The chip.
        plans: Plans of tile ops by the name of their op.
        placed: Placements of parameters, by name.
    """
    *lines, root = [line.strip() for line in entry.strip().splitlines()]
    module = parse(before + "ENTRY main {\n" + "\n".join(lines) + f"\nROOT {root}\n}}\n")
    context = context_of(module, tiles=tiles, chip=chip, plans=plans)
    program = Program(lowered={}, placements={}, context=context)
    for instruction in module.entry_computation:
        if instruction.opcode == "parameter":
            own = tuple(spread(array, context) for array in arrays(instruction.type))
            program.placements[instruction.name] = (placed or {}).get(instruction.name, own)
            continue
        operands = [p for name in instruction.operands for p in program.placements[name]]
        made = lower(instruction, operands, context)
        program.lowered[instruction.name] = made
        program.placements[instruction.name] = made.results
        if instruction.opcode != "conditional":
            expected = [array.elements for array in arrays(instruction.type)]
            assert [placement.elements for placement in made.results] == expected
    return program
