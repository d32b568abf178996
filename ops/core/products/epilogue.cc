#include "epilogue.h"

#include <algorithm>

#include "../scratch.h"

namespace ipu_tf {
namespace {

constexpr int64_t kBlockFloats = int64_t{1} << 16;

// sums = those of blocks of rows, for each of which sum(first row, rows, sums) is called, added up in order.
template <typename Sum>
void SumsOfBlocks(int64_t rows, int64_t columns, float* sums, const Kernels& kernels, const Parallel& parallel,
                  const Sum& sum) {
  const int64_t block = std::max<int64_t>(1, kBlockFloats / columns), blocks = CeilDivide(rows, block);
  Scratch partial(blocks * columns);
  parallel(blocks, [&](int64_t i) { sum(i * block, std::min(block, rows - i * block), partial.data() + i * columns); });
  kernels.column_sums(partial.data(), columns, blocks, columns, false, sums);
}

}  // namespace

void ApplyEpilogue(const Epilogue& epilogue, float* y, int64_t rows, int64_t columns, const Kernels& kernels,
                   const Parallel& parallel) {
  if (epilogue.addend != nullptr || epilogue.relu_output != nullptr) {
    const int64_t floats = rows * columns;
    parallel(CeilDivide(floats, kBlockFloats), [&](int64_t i) {
      const int64_t at = i * kBlockFloats, count = std::min(kBlockFloats, floats - at);
      if (epilogue.addend != nullptr) kernels.add(epilogue.addend + at, y + at, count);
      if (epilogue.relu_output != nullptr) kernels.relu_gradient(epilogue.relu_output + at, y + at, count);
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
  SumsOfBlocks(rows, columns, sums, kernels, parallel, [&](int64_t first, int64_t count, float* of_block) {
    kernels.column_sums(x + first * columns, columns, count, columns, false, of_block);
  });
}

void ColumnSums(const uint16_t* x, int64_t rows, int64_t columns, float* sums, const Kernels& kernels,
                const Parallel& parallel) {
  SumsOfBlocks(rows, columns, sums, kernels, parallel, [&](int64_t first, int64_t count, float* of_block) {
    Scratch values(count * columns);
    kernels.half_to_float(x + first * columns, values.data(), count * columns);
    kernels.column_sums(values.data(), columns, count, columns, false, of_block);
  });
}

}  // namespace ipu_tf
