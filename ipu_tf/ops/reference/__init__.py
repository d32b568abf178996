"""The definition of the tile ops: a slow interpreter of plans in NumPy.

`docs/numerics.md` says in words what these functions do in code; the C++ kernels are tested
against them, bit for bit wherever float16 is rounded.

Where values are rounded
------------------------
* Products of float16 inputs and their sums are float32, rounded to nearest after every addition.
* With float16 partials, the sum is rounded to float16 after every pass of `grain` reduction
  elements (16 for float16): within a pass it stays float32.
* Partials of several tiles are added in float32, in the plan's order; the total is rounded to the
  output's type once.
* float32 inputs are never rounded to less than float32; the order of their sums within a part is
  not defined.

On what evidence
----------------
The Tile Vertex ISA (Graphcore, release 1.2.3 for IPU2, March 2022), by section:

* 2.9.9: the accumulators of IPU2 are float32 with subnormals flushed to zero. 2.9.11: an AMP
  instruction takes a partial in, adds a fixed number of products in the accumulator's format
  whatever the types of its operands, and hands the partial out; table 2.43 gives the variants
  (`f16v4hihoamp`: float16 partials in and out, `f16v4sihoamp`: float32 in, float16 out,
  `f16v4sisoamp`: float32 both ways). Hence rounding at the end of a pass, not within it.
* 2.9.5: IPU2 rounds to nearest, ties to even, or stochastically.
* 2.9.4.2 and 2.9.6: an overflow of float16 saturates to 65504, or gives NaN when NANOO is set.
* 2.13.6: stochastic rounding adds random bits below the last bit kept and truncates. It applies
  where an instruction gives float16 (the AMP variants with float16 output, `f32tof16`) and draws
  from a generator of each worker, so the result of a sum depends on which worker does it.

What is our choice, or not known
--------------------------------
* The order of additions within a pass. The hardware forms dot products of four elements and
  rounds them to float32 with an accuracy that is not published (2.9.10); we add one by one.
* The pass of 16 float16 (8 float32) elements is what poplibs' cost estimators charge (four
  phases of four elements); its edges in a part of another length are ours.
* Partials of tiles are added in float32 in one stage. poplibs may reduce in several stages.
* float32 subnormals are kept here and flushed on the machine (2.9.4.1). Infinities saturate like
  any overflow here; the machine turns them into NaN (2.9.4.2, 2.9.6). NaNs keep no payload.
* The generator: the machine uses xoroshiro128aox, one state a worker, two steps an instruction,
  and up to 24 random bits a value (2.13). Ours is xoroshiro128+ with 16 bits a value, one
  generator per tile and call. For normal float16 results 13 bits are discarded, so both round up
  with the same probability; the sequence of bits cannot be the machine's.
"""

from ipu_tf.ops.reference.conv import (
    as_grouped_filter,
    conv2d,
    conv2d_filter_gradient,
    conv2d_input_gradient,
    depthwise_conv2d,
)
from ipu_tf.ops.reference.matmul import batch_matmul, matmul
from ipu_tf.ops.reference.random_bits import Xoroshiro128Plus, mix, splitmix64
from ipu_tf.ops.reference.rounding import Rounding, round16

__all__ = [
    "Rounding",
    "Xoroshiro128Plus",
    "as_grouped_filter",
    "batch_matmul",
    "conv2d",
    "conv2d_filter_gradient",
    "conv2d_input_gradient",
    "depthwise_conv2d",
    "matmul",
    "mix",
    "round16",
    "splitmix64",
]
