// The loss of a classifier: the cross entropy of rows' softmax with labels.
#ifndef IPU_TF_OPS_CORE_LABEL_LOSS_H_
#define IPU_TF_OPS_CORE_LABEL_LOSS_H_

#include <algorithm>
#include <cstdint>

#include "../kernels/kernels.h"
#include "../parallel.h"

namespace ipu_tf {

// loss[r] = log(sum of exp(x[r])) - x[r][label(r)], and its gradient by row r of `columns`. Labels are in [0, columns).
template <typename Label>
void LabelLoss(const float* x, const Label* labels, int64_t rows, int64_t columns, float* loss, float* dx,
               const Kernels& kernels, const Parallel& parallel) {
  constexpr int64_t kRows = 64;
  ForFloats(rows * columns, parallel)(CeilDivide(rows, kRows), [&](int64_t block) {
    const int64_t first = block * kRows, count = std::min(kRows, rows - first), at = first * columns;
    int64_t wide[kRows];
    std::copy_n(labels + first, count, wide);
    kernels.label_loss({count, columns, x + at, wide, loss + first, dx + at});
  });
}

}  // namespace ipu_tf

#endif  // IPU_TF_OPS_CORE_LABEL_LOSS_H_
