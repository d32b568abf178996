#include "epilogue.h"

#include <algorithm>

#include "../scratch.h"

namespace ipu_tf {
namespace {

constexpr int64_t kBlockFloats = int64_t{1} << 16;

}  // namespace

void ApplyEpilogue(const Epilogue& epilogue, float* y, int64_t rows, int64_t columns, const Kernels& kernels,
                   const Parallel& parallel) {
  if (epilogue.relu_output != nullptr) {
    const int64_t floats = rows * columns;
    parallel(CeilDivide(floats, kBlockFloats), [&](int64_t i) {
      const int64_t at = i * kBlockFloats;
      kernels.relu_gradient(epilogue.relu_output + at, y + at, std::min(kBlockFloats, floats - at));
    });
  }
  if (epilogue.bias == nullptr) return;
  const int64_t block = std::max<int64_t>(1, kBlockFloats / columns);
  parallel(CeilDivide(rows, block), [&](int64_t i) {
    for (int64_t r = i * block; r < std::min(rows, (i + 1) * block); ++r) {
      kernels.add_bias(epilogue.bias, epilogue.relu, y + r * columns, columns);
    }
  });
}

void ColumnSums(const float* x, int64_t rows, int64_t columns, float* sums, const Kernels& kernels,
                const Parallel& parallel) {
  const int64_t block = std::max<int64_t>(1, kBlockFloats / columns), blocks = CeilDivide(rows, block);
  Scratch partial(blocks * columns);
  parallel(blocks, [&](int64_t i) {
    kernels.column_sums(x + i * block * columns, columns, std::min(block, rows - i * block), columns, false,
                        partial.data() + i * columns);
  });
  kernels.column_sums(partial.data(), columns, blocks, columns, false, sums);
}

}  // namespace ipu_tf
