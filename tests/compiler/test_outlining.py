"""Equal steps share code: what lies elsewhere is copied for a call, if the copies pay."""

import dataclasses

import pytest

from ipu_tf.compiler import assembly
from ipu_tf.compiler.blocks import Buffer, BufferTable, Node
from ipu_tf.compiler.compile import compile_program
from ipu_tf.compiler.compiler_options import CompilerOptions
from ipu_tf.compiler.emit import program_bytes
from ipu_tf.compiler.hlo import Array, Instruction
from ipu_tf.compiler.lowering.lowered_instruction import LoweredInstruction
from ipu_tf.compiler.outlining import COPY_SHARES, outline
from ipu_tf.machine import target, vertices
from ipu_tf.machine.superstep import Superstep
from ipu_tf.tile_program.layouts.footprint import Footprint
from tests.compiler import modules

CHIP = target("bow", 4)
TILE_BYTES = 800
CODE_BYTES = 640


def buffers(*always_live, first_tiles=(0, 0, 0, 0, 0, 0)):
    """Six values on all tiles, or on two from a tile on."""
    table = BufferTable()
    for number, first in enumerate(first_tiles):
        tiles = 4 if not any(first_tiles) else 2
        table.add(
            Buffer(
                name=f"value {number}",
                layer="",
                category="activations",
                footprint=Footprint(first_tile=first, tiles=tiles, tile_bytes=TILE_BYTES),
                bytes=tiles * TILE_BYTES,
                always_live=number in always_live,
            )
        )
    return table


def step(reads, writes, cycles=100_000, opcode="dot"):
    lowered = LoweredInstruction(
        supersteps=(Superstep(name="multiply", compute_cycles=cycles),),
        exchange_code_bytes=CODE_BYTES,
        vertex_state=(Footprint(first_tile=0, tiles=4, tile_bytes=40),),
    )
    instruction = Instruction(name="dot", opcode=opcode, type=Array("f32", ()))
    return Node(instruction=instruction, lowered=lowered, reads=reads, writes=writes)


def outlined(nodes, table, share=COPY_SHARES[0]):
    outline(nodes, table, CHIP, share)
    code = program_bytes(nodes, table, CHIP)["exchange_code"]
    return int(code.max())


def copied(node):
    """Names and cycles of the copies for a call."""
    return [(one.name, one.total_cycles) for one in node.call.supersteps]


COPY = int(vertices.copy(TILE_BYTES, "u8", CHIP).cycles)


class TestCopies:
    def test_values_that_follow_one_another_share_a_place(self):
        first, between = step((0,), (1,)), step((1,), (2,), opcode="tanh")
        second = step((2,), (3,))
        nodes = [first, between, second]
        assert outlined(nodes, buffers()) == 2 * CODE_BYTES
        assert first.call is None
        assert second.call.supersteps == second.call.scratch == ()

    def test_weights_are_copied_to_the_code(self):
        first, second = step((0, 4), (1,)), step((2, 5), (3,))
        assert outlined([first, second], buffers(4, 5)) == CODE_BYTES
        assert copied(second) == [("copy operands", COPY)]
        assert [one.tile_bytes for one in second.call.scratch] == [TILE_BYTES]
        assert second.supersteps == (*second.lowered.supersteps, *second.call.supersteps)

    def test_the_same_weight_needs_no_copy(self):
        first, second = step((0, 4), (1,)), step((2, 4), (3,))
        outlined([first, second], buffers(4))
        assert second.call.supersteps == ()

    def test_results_that_wait_are_copied_from_the_code(self):
        first, second = step((0,), (1,)), step((2,), (3,))
        late = step((1, 3), (), opcode="add")
        outlined([first, second, late], buffers())
        assert copied(second) == [("copy results", COPY)]

    def test_values_on_other_tiles_cross_the_exchange(self):
        table = buffers(4, 5, first_tiles=(0, 0, 0, 0, 0, 2))
        first, second = step((0, 4), (1,)), step((2, 5), (3,))
        outlined([first, second], table)
        (superstep,) = second.call.supersteps
        words = TILE_BYTES // CHIP.exchange_bytes_per_cycle
        assert superstep.exchange_cycles == CHIP.exchange_fixed_cycles + words
        assert superstep.sync_cycles == CHIP.sync_cycles

    @pytest.mark.parametrize(
        ("cycles", "share", "copies_of_code"),
        [(11 * COPY, 0.1, 1), (9 * COPY, 0.1, 2), (9 * COPY, 0.3, 1), (COPY // 2, 1.0, 2)],
    )
    def test_copies_that_take_too_long_leave_code_of_its_own(self, cycles, share, copies_of_code):
        first, second = step((0, 4), (1,), cycles), step((2, 5), (3,), cycles)
        found = outlined([first, second], buffers(4, 5), share)
        assert found == copies_of_code * CODE_BYTES
        assert (second.call is None) == (copies_of_code == 2)


@pytest.mark.fast_cells(1)
@pytest.mark.parametrize(("tile_bytes", "tried"), [(624 * 1024, 1), (1024, len(COPY_SHARES))])
def test_a_program_that_does_not_fit_shares_more(monkeypatch, tile_bytes, tried):
    shares = []

    def recorded(nodes, table, chip, share):
        shares.append(share)
        outline(nodes, table, chip, share)

    monkeypatch.setattr(assembly, "outline", recorded)
    chip = dataclasses.replace(target("bow", 64), tile_bytes=tile_bytes)
    options = CompilerOptions(target=chip, out_of_memory="report")
    program = compile_program(modules.text("cifar10").replace(name=f"shared {tried}"), options)
    assert tuple(shares) == COPY_SHARES[:tried]
    assert program.memory.fits == (tried == 1)
