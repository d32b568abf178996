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
  constexpr int64_t kBlockFloats = int64_t{1} << 14;
  const int64_t block = std::max<int64_t>(1, kBlockFloats / columns);
  ForFloats(rows * columns, parallel)(CeilDivide(rows, block), [&](int64_t i) {
    for (int64_t r = i * block; r < std::min(rows, (i + 1) * block); ++r) {
      kernels.label_loss({x + r * columns, static_cast<int64_t>(labels[r]), loss + r, dx + r * columns, columns});
    }
  });
}

}  // namespace ipu_tf

#endif  // IPU_TF_OPS_CORE_LABEL_LOSS_H_
