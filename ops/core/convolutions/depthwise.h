// Depthwise convolution of multiplier 1: vectors of channels, no reduction over channels.
#ifndef IPU_TF_OPS_CORE_DEPTHWISE_H_
#define IPU_TF_OPS_CORE_DEPTHWISE_H_

#include <vector>

#include "../plan/plan.h"
#include "../products/gemm.h"
#include "conv_shape.h"
#include "pixel_rows.h"

namespace ipu_tf {

// Lines of so many floats of the output whose runs are made at a time. With their input they stay in the second cache,
// for the columns at the edges and, in the filter gradient, one vector of channels after the other.
int64_t DepthwiseLines(int64_t line_floats);

// One past the last of the input's rows, of all images, that a line reads; lines count over all images, too.
int64_t RowEnd(const PixelRows::Grid& grid, const std::vector<Tap>& taps, int64_t line);

// For each pixel of the grid's images: out[c] = sum over the taps of in[c] * w[tap_at[tap] + c], part by part.
void DepthwiseConv(const PixelRows::Grid& grid, const std::vector<Tap>& taps, int64_t images, const float* w,
                   const std::vector<int64_t>& tap_at, const std::vector<ReductionPart>& parts,
                   const PassRounding& rounding, const Kernels& kernels, const Parallel& parallel);

// dw[tap * C + c] = sum over the pixels of x[c] at the tap * dy[c], the plan's parts in order, partials in float32.
void DepthwiseFilterGradient(const ConvShape& shape, const ConvPlan& plan, const Numerics& numerics, const float* x,
                             const float* dy, float* dw, const Kernels& kernels, const Parallel& parallel);

}  // namespace ipu_tf

#endif  // IPU_TF_OPS_CORE_DEPTHWISE_H_
