// Softmax of rows and its gradient, each with the dropout that may follow it; and which column of a row is largest.
#ifndef IPU_TF_OPS_CORE_SOFTMAX_H_
#define IPU_TF_OPS_CORE_SOFTMAX_H_

#include <algorithm>
#include <cstdint>

#include "../kernels/kernels.h"
#include "../parallel.h"

namespace ipu_tf {

void Softmax(const SoftmaxRows& rows, const Kernels& kernels, const Parallel& parallel);

// The gradient of `rows` rows, of which `first` is the first one; the others follow it.
void SoftmaxGradient(const SoftmaxGradientRow& first, int64_t rows, const Kernels& kernels, const Parallel& parallel);

// at[r] = the first column where row r of x is largest (Kernels::arg_max).
template <typename Index>
void ArgMax(const float* x, int64_t rows, int64_t columns, bool signed_zeros, Index* at, const Kernels& kernels,
            const Parallel& parallel) {
  constexpr int64_t kRows = 256;
  ForFloats(rows * columns, parallel)(CeilDivide(rows, kRows), [&](int64_t block) {
    int32_t best[kRows];
    const int64_t first = block * kRows, count = std::min(kRows, rows - first);
    kernels.arg_max(x + first * columns, count, columns, signed_zeros, best);
    std::copy_n(best, count, at + first);
  });
}

}  // namespace ipu_tf

#endif  // IPU_TF_OPS_CORE_SOFTMAX_H_
