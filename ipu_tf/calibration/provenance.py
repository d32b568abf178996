"""The source of every figure of the model, for the fidelity page."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from ipu_tf.calibration.library_reduction import CALL_CYCLES
from ipu_tf.compiler.outlining import COPY_SHARES
from ipu_tf.machine.contractions import pass_columns
from ipu_tf.machine.contractions.amp import CALL_1X1_CYCLES
from ipu_tf.machine.link_timing import C2_LINKS, POD_HOST, POD_LINKS, POD_STREAMING
from ipu_tf.machine.target import CHIPS
from ipu_tf.machine.tile_memory import STREAM_SHARE, SUSTAINED_SHARE
from ipu_tf.planner.plan_cost import STAGED_DEPTHS
from ipu_tf.planner.releases import FIRST

Status: TypeAlias = Literal["stated", "derived", "fitted", "modelled", "bound"]
"""stated: a source gives it. derived: arithmetic on stated figures. fitted: chosen to meet measured
points. modelled: our reading where nothing is published. bound: reality cannot be better."""

_GC2 = CHIPS["gc2"]
_BOW = CHIPS["bow"]
_FIT_POINTS = "both of the file's points"


@dataclass(frozen=True, slots=True, kw_only=True)
class Constant:
    """A constant of the model.

    Attributes:
        name: Its name.
        value: Its value, with its unit.
        status: The kind of its source.
        how: Its source.
    """

    name: str
    value: str
    status: Status
    how: str


@dataclass(frozen=True, slots=True, kw_only=True)
class KindNote:
    """The prediction method of a kind of measurement.

    Attributes:
        status: The weakest status of its inputs, apart from the chips' constants.
        how: Its functions and choices.
    """

    status: Status
    how: str


CONSTANTS = (
    Constant(
        name="sync of a chip's tiles",
        value=f"{_GC2.sync_cycles} cycles",
        status="fitted",
        how="1,216 random messages of a word take 264 cycles; less the farthest way and the "
        "turnaround",
    ),
    Constant(
        name="turnaround: tiles both send and receive",
        value=f"{_GC2.exchange.turnaround_cycles:g} cycles",
        status="fitted",
        how="one random message against 1,216, and the all-to-all",
    ),
    Constant(
        name="head start of a gather",
        value=f"{_GC2.exchange.head_start_cycles:g} cycles",
        status="fitted",
        how="gathers of 76 to 1,216 words: the way that their words hide",
    ),
    Constant(
        name="start of a scatter of blocks, and more for single words",
        value=f"{_GC2.exchange.scatter_start_cycles:g} and "
        f"{_GC2.exchange.single_word_cycles:g} cycles",
        status="fitted",
        how="scatters of 160-byte blocks and of words",
    ),
    Constant(
        name="nearest way, and more an island",
        value=f"{_GC2.exchange.nearest_cycles:g} and {_GC2.exchange.island_cycles:g} cycles",
        status="stated",
        how="CIT 4.1.2",
    ),
    Constant(
        name="more a column",
        value=f"{_GC2.exchange.column_cycles:.2f} cycles",
        status="derived",
        how="CIT 4.1.2: the slowest pair of tiles, 98 ns",
    ),
    Constant(
        name="fan-out of a broadcast, and to the far side",
        value=f"{_GC2.exchange.fan_out_cycles:g} and {_GC2.exchange.far_side_cycles:g} cycles",
        status="stated",
        how="steps of CIT table 4.8",
    ),
    Constant(
        name="share of slots in which a loop of loads loads",
        value=f"{SUSTAINED_SHARE}",
        status="fitted",
        how="CIT table 3.1, 128-bit loads",
    ),
    Constant(
        name="the same of a loop that loads and stores",
        value=f"{STREAM_SHARE}",
        status="stated",
        how="STREAM on a GC200",
    ),
    Constant(
        name="call of the library's reduction",
        value=f"{CALL_CYCLES} cycles",
        status="fitted",
        how=f"{_FIT_POINTS}; not part of compiled programs",
    ),
    Constant(
        name="efficiency of a C2's IPU-Links",
        value=f"{C2_LINKS.efficiency}",
        status="fitted",
        how="55.0 GB/s over two links, 27.72 over one",
    ),
    Constant(
        name="a message on an IPU-Link, however short",
        value=f"{C2_LINKS.message_seconds * 1e9:.2f} ns",
        status="fitted",
        how="1,216 messages of a word between two IPUs of a board",
    ),
    Constant(
        name="latencies of IPU-Links",
        value=f"{C2_LINKS.board_hop_seconds * 1e6:g} us on a board, "
        f"{C2_LINKS.rail_hop_seconds * 1e6:g} us to the next, "
        f"{C2_LINKS.further_hop_seconds * 1e6:g} us for each further",
        status="derived",
        how="CIT table 4.1 and section 2.1, less the way on the chips",
    ),
    Constant(
        name="everything between Mk2 IPUs",
        value="as on the C2, but 16 GB/s a link",
        status="modelled",
        how="latencies of the GC2 kept; rates from vendor presentations",
    ),
    Constant(
        name="collectives of several IPUs",
        value="one ring over all IPUs, up the ladder and down, one way round",
        status="modelled",
        how="the ring of poplibs' collectives of replicas; its methods that use both ways round "
        "are not modelled",
    ),
    Constant(
        name="links of a machine to another rack",
        value=f"{POD_LINKS.gateway_bytes_per_second / 1e9:g} GB/s a direction",
        status="stated",
        how="two gateway links of 100 Gb/s a machine; that packets take as much of them as of "
        "IPU-Links is modelled",
    ),
    Constant(
        name="an IPU's connection to the gateway of its machine",
        value=f"{POD_LINKS.gateway_ipu_bytes_per_second / 1e9:g} GB/s a direction",
        status="stated",
        how="PCIe Gen4 x8, from the block diagram of an IPU-M2000; a ring of replicas of one IPU "
        "takes one of them to the next rack",
    ),
    Constant(
        name="exchange latencies of GC200, Bow and C600",
        value="as on the GC2, in cycles; 23 islands a column",
        status="modelled",
        how="nothing is published",
    ),
    Constant(
        name="host of a Pod",
        value=f"{POD_HOST.group_bytes_per_second / 1e9:g} GB/s a machine",
        status="bound",
        how="100 GbE; replicas on one machine make their transfers at the same time. Feeds wait "
        "in the memory of the machine's gateway, so that a micro-batch takes the longer of this "
        "and of its own work: modelled, after the vendor's patents on gateways (US 11,119,952 and "
        "US 11,886,362)",
    ),
    Constant(
        name="streaming memory",
        value=f"{POD_STREAMING.ipu_bytes_per_second / 1e9:g} GB/s an IPU",
        status="bound",
        how="an IPU's connection to the gateway; the rate of the memory is not published",
    ),
    Constant(
        name="plans of what was measured on the GC2",
        value=f"least memory within {FIRST.cycle_backoff:.0%} of the fewest cycles; even steps "
        "over output channels alone",
        status="stated",
        how="an option and the rules of poplibs' planner of 2019, where current plans take the "
        "fewest cycles",
    ),
    Constant(
        name="serial steps of plans",
        value="over one extent; of a reduction, even ones",
        status="stated",
        how="the rules of poplibs 3.4; steps over what streams past the AMP units, as a batch, "
        "are ours",
    ),
    Constant(
        name="call of a 1x1 AMP vertex",
        value=f"{CALL_1X1_CYCLES} cycles",
        status="fitted",
        how="cycles of single vertices on a Bow, beyond poplibs' estimate with 64-bit loads",
    ),
    Constant(
        name="loading of weights",
        value=f"{_BOW.narrow_load_bytes_per_cycle} bytes a cycle",
        status="stated",
        how="poplibs loads 64 bits at a time unless its option use128BitConvUnitLoad is set",
    ),
    Constant(
        name="width of an AMP pass",
        value=f"{pass_columns('float16', 'float16', _BOW)} columns on Mk2, "
        f"{pass_columns('float16', 'float32', _BOW)} for float32 partials of float16",
        status="derived",
        how="what a position stores within its slots; the ISA's f16v4sisoamp takes two partials, "
        "f16v4hihov4amp four",
    ),
    Constant(
        name="the operand of a matmul that waits in the AMP units",
        value="the left one; 5/4 cycles and an exchange for every element of operands and result "
        "where a plan keeps the right one",
        status="stated",
        how="the rule by which poplibs' planner charges swapped operands",
    ),
    Constant(
        name="change of a tensor's layout",
        value="besides its exchange 0.44 cycles a byte in pieces of a multiple of 8 bytes, 3.1 of "
        "4, 5.1 of 2",
        status="modelled",
        how="poplibs' regression over random transforms of convolutions, without its intercept; "
        "pieces as our layouts have them",
    ),
    Constant(
        name="operands of products that lie in another layout",
        value="fetched word by word from where they lie if at most 7 tiles read each element, "
        "otherwise and in filter gradients copied first",
        status="stated",
        how="a rule of poplibs (Convolution.cpp, inViewMaxBroadcastDests); that exchanges leave "
        "whole words where they belong is modelled",
    ),
    Constant(
        name="splits of tables that are looked up and updated",
        value="over rows, columns and look-ups, as takes the fewest cycles for the look-ups, the "
        "updates, or both, as a program does",
        status="stated",
        how="poplibs' planner of embeddings, and its estimators of their vertices, for indices "
        "spread evenly over the rows; that groups of look-ups add up in at most two stages is "
        "modelled",
    ),
    Constant(
        name="images expanded for filter positions",
        value="for all of them, for those of a row, or not, as is cheapest; pixels that strides "
        "skip are left out",
        status="stated",
        how="poplibs' planner expands spatial dimensions one by one; that neighbouring rows of "
        "outputs share the rows of an image is modelled",
    ),
    Constant(
        name="rows of a filter in an AMP pass",
        value="2 or 4, with 8 or 4 input channels of halves each, where that saves passes; else 1",
        status="stated",
        how="poplibs: the filter heights of its nx1 vertices; that the SDK measured on the GC2 "
        "took one is modelled, since groups of 8 channels ran no faster and fitted no better",
    ),
    Constant(
        name="features of a result",
        value="in groups of 16, or of what divides their number of it, one after the other; plans "
        "cut whole groups, tiles that share a block share them so, and a tile's workers share them "
        "out",
        status="stated",
        how="poplibs: the partial channels of an AMP pass (getOutChansPerGroup), and how popops "
        "splits broadcast vertices (ElementWise.cpp)",
    ),
    Constant(
        name="operands of matmuls that are summed across rows",
        value="transposed on their tiles, 5.1 cycles a byte of halves where 4 rows do not divide "
        "them; weights lie as the forward pass reads them",
        status="modelled",
        how="the vertex of poplibs (Transpose2d), and the change of layout above without it",
    ),
    Constant(
        name="inputs that a strided 1 x 1 convolution skips",
        value="their gradients are multiplied as zeros, or filled in at the end, as is cheaper",
        status="stated",
        how="dilation after the convolution, a transform of poplibs' planner; its copy modelled",
    ),
    Constant(
        name="stages of an addition of partials",
        value=" and ".join(map(str, STAGED_DEPTHS)) + " partials from which there is one more",
        status="stated",
        how="poplibs' plan of reductions",
    ),
    Constant(
        name="Bow's clock",
        value=f"{_BOW.clock_hz / 1e9:g} GHz",
        status="stated",
        how="printed by a Bow machine",
    ),
    Constant(
        name="pointers of vertices",
        value="a word each",
        status="stated",
        how="Poplar's user guide: vectors of vertices on Mk2; the compressed pointers of Mk1 are "
        "not modelled",
    ),
    Constant(
        name="codelets",
        value="eight bytes a bundle",
        status="modelled",
        how="the size of an instruction pair; how many a codelet has is not published",
    ),
    Constant(
        name="norms of predictions",
        value="folded into filters and biases, which are computed when the variables are loaded, "
        "not in every call",
        status="modelled",
        how="PopART folds the norms of a graph for inference when it compiles it",
    ),
    Constant(
        name="first tile of a product's result",
        value="that of the emptiest tiles when its plan first runs; equal plans begin on one tile",
        status="modelled",
        how="poplibs begins every plan on tile 0, or with its option enableConvDithering on a tile "
        "by a hash of the convolution",
    ),
    Constant(
        name="calls of shared code",
        value="copies of operands and results that lie elsewhere, at the rate of on-tile copies; "
        f"taken up to {COPY_SHARES[0]:.0%} of a step's cycles, up to "
        f"{' and '.join(f'{share:.0%}' for share in COPY_SHARES[1:])} while a program does not fit",
        status="modelled",
        how="Poplar's outlining; the rules by which its frameworks weigh steps are not published",
    ),
    Constant(
        name="transfers of I/O tiles",
        value="two buffers; beside the computation, except the exchange with the other tiles",
        status="modelled",
        how="the vendor's description of overlapped I/O; a steady state",
    ),
    Constant(
        name="exchange code",
        value="eight bytes a message sent or received",
        status="stated",
        how="instructions as recovered by ipu-stack, which finds its encoded exchanges within 18%",
    ),
)

KIND_NOTES = {
    "amp_vertex": KindNote(
        status="fitted",
        how="poplibs' estimate of the 1x1 AMP vertex, weights loaded 64 bits at a time, and one "
        "constant for its call, fitted on Bow",
    ),
    "conv_forward": KindNote(
        status="modelled",
        how="the planner's plan, all supersteps; 'same' padding, and all operations of that output "
        "counted",
    ),
    "dense_matmul": KindNote(
        status="modelled",
        how="the planner's plan, no constant fitted; the cycles that the record counts, and chip "
        "and types as published (see below)",
    ),
    "exchange_all_to_all": KindNote(
        status="fitted", how="sync, turnaround, the farthest of so many random ways, words"
    ),
    "exchange_broadcast": KindNote(
        status="fitted", how="sync, way to the farthest receiver, fan-out; pairs from four on"
    ),
    "exchange_gather": KindNote(
        status="fitted", how="sync, nearest way less the head start, words"
    ),
    "exchange_point_to_point": KindNote(
        status="fitted", how="sync, turnaround, the farthest of so many random ways, words"
    ),
    "exchange_scatter": KindNote(status="fitted", how="sync, start, words"),
    "gemm_largest_square": KindNote(
        status="modelled",
        how="the last multiple of 128 before one whose matrices (operands and their copies, "
        "product, sum) and plan do not fit",
    ),
    "gemm_peak": KindNote(
        status="modelled", how="the fastest plan of all multiples of 128 that fit"
    ),
    "host": KindNote(status="stated", how="latency and rate as measured; shared by groups of IPUs"),
    "link": KindNote(status="fitted", how="way on chip, hops, messages or bytes"),
    "model": KindNote(
        status="modelled",
        how="an estimate of the network of the zoo as the record configures it, no constant fitted",
    ),
    "reduce": KindNote(
        status="fitted", how="the reduction vertices, a gather, and the library's call"
    ),
    "tile_memory": KindNote(
        status="fitted", how="bytes a cycle by width of load, and the share of slots that load"
    ),
}
"""How each kind of measurement is predicted."""

KNOWN_WRONG = (
    "Gathers of a few multi-word messages are measured several times slower than modelled. In the "
    "same table the source's transfer to the own tile is far slower than in its other tables, so "
    "part of it belongs to the measurement.",
    "All-to-all of fewer than ten tiles is modelled too slow: its ways are those of random tiles.",
    "Gathers, reductions and random traffic across IPU-Links: links that several routes share are "
    "not modelled.",
    "A library reduction of a single operand is modelled too slow: it is a copy.",
    "First layers of three input channels ran two to three times slower, and groups of four "
    "channels ten times, in the SDK that was measured than the plans that the planner finds. "
    "Changes of layout as poplibs' planner charges them do not explain it, nor does a method of "
    "that release: for groups of four channels, from 1 to 32 images, AMP passes of one row are "
    "modelled seven to four times faster than measured, and horizontal MAC vertices from 1.7 times "
    "faster to two times slower.",
    "Larger square matmuls of mixed precision fit the modelled GC2 than were measured, while those "
    "of float32 are within a tenth: neither a product and a sum in float32, nor copies of both "
    "operands, nor poplibs' rules of 2019 (least memory within a share of the fewest cycles, or "
    "fewest cycles within a share of the memory) let operands of half the size take more room. In "
    "the same report, float16 convolutions of 4 to 16 images did not fit where those of 32 did "
    "(CIT table 5.5: VGG16 Conv5_1, Inception Conv8 and Conv9), so that what fitted hung on the "
    "plan that the SDK chose, not on sizes alone.",
    "Vertices other than products and reductions are charged as poplibs' estimators do; no "
    "measurements of them are published.",
)
"""Deviations that the comparison shows."""
