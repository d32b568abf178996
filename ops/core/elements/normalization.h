// What batch normalization does with rows of channels: sums over the rows, and passes over the elements; and layer
// normalization, whose sums are those of the channels of each row.
#ifndef IPU_TF_OPS_CORE_NORMALIZATION_H_
#define IPU_TF_OPS_CORE_NORMALIZATION_H_

#include <cstdint>

#include "../kernels/kernels.h"
#include "../parallel.h"

namespace ipu_tf {

struct ChannelRows {
  int64_t rows = 0;
  int64_t channels = 0;
};

// mean[c] and variance[c] over the rows of x. Sums do not depend on the number of threads.
void ChannelMoments(const ChannelRows& shape, const float* x, float* mean, float* variance, const Kernels& kernels,
                    const Parallel& parallel);

// sum[c] of the rows of dy, and dot[c] of those of x * dy.
void ChannelDots(const ChannelRows& shape, const float* x, const float* dy, float* sum, float* dot,
                 const Kernels& kernels, const Parallel& parallel);

// y = x * scale[c] + shift[c], plus `addend` if it is not null, then the activation.
void ScaleShift(const ChannelRows& shape, const float* x, const float* scale, const float* shift, const float* addend,
                Activation activation, float* y, const Kernels& kernels, const Parallel& parallel);

// The vectors of a gradient of normalized rows, one value a channel.
struct NormGradientVectors {
  const float* scale;
  const float* mean;
  const float* of_variance;  // The gradient of the variance.
  const float* of_mean;      // The gradient of the mean.
};

// dx = dy * scale + 2 * of_variance / rows * (x - mean) + of_mean / rows.
void NormGradient(const ChannelRows& shape, const NormGradientVectors& vectors, const float* dy, const float* x,
                  float* dx, const Kernels& kernels, const Parallel& parallel);

// y = (x - mean) / sqrt(variance + epsilon) * gamma[c] + beta[c], with the moments of each row. `rows` has all
// pointers.
void LayerNorm(const LayerNormRows& rows, const Kernels& kernels, const Parallel& parallel);

// The gradients of it, with all `added` tensors added to dx.
void LayerNormGradient(const LayerNormGradientRows& rows, const Kernels& kernels, const Parallel& parallel);

}  // namespace ipu_tf

#endif  // IPU_TF_OPS_CORE_NORMALIZATION_H_
