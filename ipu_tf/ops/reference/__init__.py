"""The definition of the tile ops: a slow interpreter of plans in NumPy.

`docs/numerics.md` describes in words the work of these functions; the C++ kernels are tested
against them, bit for bit wherever float16 is rounded.

Where values are rounded
------------------------
* Products of float16 inputs and their sums are float32, rounded to nearest after every addition.
* With float16 partials, the sum is rounded to float16 after every pass of `grain` reduction
  elements (16 for float16): within a pass it stays float32.
* Partials of several blocks are added in float32, in the plan's order; the total is rounded to the
  output's type once.
* float32 inputs are never rounded to less than float32; the order of their sums within a part is
  not defined.

Evidence
--------
The Tile Vertex ISA (Graphcore, release 1.2.3 for IPU2, March 2022), by section:

* 2.9.9: the accumulators of IPU2 are float32. 2.9.11: an AMP instruction takes a partial result
  in, adds a fixed number of products in the accumulators' format whatever the types of its
  operands, and hands the partial result out. Table 2.43 has the variants: `f16v4hihoamp` with
  float16 partials in and out, `f16v4sisoamp` with float32 both ways.
* 3.7.3.3 (f16v4sihoamp, f16v4sisoamp and their example sequences): a pass adds to the partial
  four dot products of four float16 elements, one a phase, in float32: 16 reduction elements. The
  conversion to float16 comes where the accumulator is read out, after the last phase. Hence
  rounding at the end of a pass and not within it.
* 2.9.5: IPU2 rounds to nearest, ties to even, or stochastically.
* 2.9.4.2 and 2.9.6: a finite overflow of float16 saturates to 65504, or gives NaN under NANOO;
  float16 subnormals are kept.
* 2.13.6: stochastic rounding adds random bits below the last bit that is kept to the magnitude
  and truncates. It applies to the instructions that give float16, the AMP variants with float16
  output and `f32tof16` among them; the bits come from a generator of the worker.

poplibs (release 3.4):

* The portable codelet of the 1x1 AMP vertex (lib/poplin/codelets/ConvPartial1x1Out.cpp) sums an
  input-channel group in float32 and then adds it to a result in the partials' type: one rounding
  for each group, as here.
* Stochastic rounding stays on in AMP vertices unless the internal option
  `disableSRForAMPVertices` is set (include/poplin/MatMul.hpp; the default is false).

Our choices, and unknowns
-------------------------
* The order of additions within a pass. How a dot product of four is rounded is left blank in the
  ISA (4.1.3.18, TFPU_F16DotProduct; 2.9.10 only says that it may differ from the exact one). We
  add the products one by one.
* Which elements a pass holds where a part is not a multiple of 16, and that a pass never crosses
  kernel positions. poplibs pads channels with zeros instead, which gives the same numbers.
* Partials are added in float32, in one stage, also those of serial steps. poplibs may take several
  stages, and adds steps up in the type of partials.
* Passes are those of the AMP units, also where a plan computes by other instructions.
* float32 subnormals are kept here and flushed to zero on the machine (2.9.4.1).
* Infinities saturate like any overflow here; the machine turns them into NaN when it converts to
  float16, under NANOO or not (2.9.4.2, 2.9.6). NaNs have no payload here.
* The generator. The machine has xoroshiro128aox (rotations 55, 14, 36; 2.13), a state in every
  worker, two steps an instruction, up to 24 random bits a value. Ours is xoroshiro128+ with one
  generator a tile and call and 16 bits a value. A normal float16 result drops 13 bits, so both
  round up with the same probability; for subnormals ours is off by less than 2^-16. The sequence
  of bits cannot be the machine's, because its assignment of work to workers is not published.
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
from ipu_tf.ops.reference.rounding import NEAREST, Rounding, round16

__all__ = [
    "NEAREST",
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
