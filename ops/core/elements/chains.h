// Chains of element-wise operations in one pass: what optimizers and Gaussian error linear units do.
#ifndef IPU_TF_OPS_CORE_CHAINS_H_
#define IPU_TF_OPS_CORE_CHAINS_H_

#include <cstdint>

#include "../kernels/kernels.h"
#include "../parallel.h"

namespace ipu_tf {

// `y` may be an operand of these.

// y = (a - b) * factor, or (a * a - b) * factor if `square`; then b + y if `add`.
void ScaledDifference(const float* a, const float* b, float factor, bool square, bool add, float* y, int64_t count,
                      const Parallel& parallel);

// y = mean * rate / (sqrt(square) + epsilon).
void AdamStep(const float* mean, const float* square, float rate, float epsilon, float* y, int64_t count,
              const Parallel& parallel);

// y = weights - mean * rate / (sqrt(square) + epsilon).
void AdamUpdate(const float* weights, const float* mean, const float* square, float rate, float epsilon, float* y,
                int64_t count, const Parallel& parallel);

// y = weights - gradient * rate.
void ScaledUpdate(const float* weights, const float* gradient, float rate, float* y, int64_t count,
                  const Parallel& parallel);

// dx = dy where 0 < x < 6, else dy * 0.
void Relu6Gradient(const float* dy, const float* x, float* dx, int64_t count, const Parallel& parallel);

// y = x * P(N < x) of a normal variable N; with `approximate`, the share is one of a tanh.
void Gelu(const float* x, bool approximate, float* y, int64_t count, const Kernels& kernels, const Parallel& parallel);

// dx = dy times the slope of that.
void GeluGradient(const float* x, const float* dy, bool approximate, float* dx, int64_t count, const Kernels& kernels,
                  const Parallel& parallel);

}  // namespace ipu_tf

#endif  // IPU_TF_OPS_CORE_CHAINS_H_
