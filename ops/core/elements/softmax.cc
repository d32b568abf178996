#include "softmax.h"

#include <algorithm>

namespace ipu_tf {
namespace {

// Calls work(first row, rows) for all blocks of rows.
template <typename Work>
void ForRows(int64_t rows, int64_t columns, const Parallel& parallel, const Work& work) {
  constexpr int64_t kRows = 64;
  ForFloats(rows * columns, parallel)(
      CeilDivide(rows, kRows), [&](int64_t block) { work(block * kRows, std::min(kRows, rows - block * kRows)); });
}

}  // namespace

void Softmax(const SoftmaxRows& rows, const Kernels& kernels, const Parallel& parallel) {
  ForRows(rows.rows, rows.columns, parallel, [&](int64_t first, int64_t count) {
    SoftmaxRows block = rows;
    const int64_t at = first * rows.columns;
    block.rows = count;
    block.x += at;
    block.y += at;
    if (block.kept != nullptr) {
      block.kept += at;
      block.dropped += at;
    }
    kernels.softmax(block);
  });
}

void SoftmaxGradient(const SoftmaxGradientRow& first, int64_t rows, const Kernels& kernels, const Parallel& parallel) {
  ForRows(rows, first.columns, parallel, [&](int64_t begin, int64_t count) {
    for (int64_t at = begin * first.columns; at < (begin + count) * first.columns; at += first.columns) {
      SoftmaxGradientRow row = first;
      row.y += at;
      row.dy += at;
      row.dx += at;
      if (row.kept != nullptr) row.kept += at;
      kernels.softmax_gradient(row);
    }
  });
}

}  // namespace ipu_tf
