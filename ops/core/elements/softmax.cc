#include "softmax.h"

#include <algorithm>

namespace ipu_tf {
namespace {

// Calls work(floats before the row) for every row.
template <typename Work>
void ForRows(int64_t rows, int64_t columns, const Parallel& parallel, const Work& work) {
  constexpr int64_t kRows = 64;
  ForFloats(rows * columns, parallel)(CeilDivide(rows, kRows), [&](int64_t block) {
    for (int64_t row = block * kRows; row < std::min(rows, (block + 1) * kRows); ++row) work(row * columns);
  });
}

}  // namespace

void Softmax(const SoftmaxRow& first, int64_t rows, const Kernels& kernels, const Parallel& parallel) {
  ForRows(rows, first.columns, parallel, [&](int64_t at) {
    SoftmaxRow row = first;
    row.x += at;
    row.y += at;
    if (row.kept != nullptr) {
      row.kept += at;
      row.dropped += at;
    }
    kernels.softmax(row);
  });
}

void SoftmaxGradient(const SoftmaxGradientRow& first, int64_t rows, const Kernels& kernels, const Parallel& parallel) {
  ForRows(rows, first.columns, parallel, [&](int64_t at) {
    SoftmaxGradientRow row = first;
    row.y += at;
    row.dy += at;
    row.dx += at;
    if (row.kept != nullptr) row.kept += at;
    kernels.softmax_gradient(row);
  });
}

}  // namespace ipu_tf
