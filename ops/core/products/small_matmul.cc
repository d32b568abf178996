#include "small_matmul.h"

#include <algorithm>
#include <utility>

#include "../scratch.h"
#include "gemm.h"

namespace ipu_tf {
namespace {

// One batch element, by strides alone.
struct Product {
  int64_t rows, columns, depth;
  int64_t a_row_stride, a_k_stride;
  int64_t b_k_stride, b_n_stride;
  int64_t c_row_stride;
};

// A single column would fill one lane of each vector. Turned round it is a single row; its sums stay the same chains.
Product ProductOf(const MatMulShape& s, bool turned) {
  if (!turned) {
    return {s.rows, s.columns, s.depth, s.a_row_stride, s.a_k_stride, s.b_k_stride, s.b_n_stride, s.c_row_stride};
  }
  return {1, s.rows, s.depth, s.b_n_stride, s.b_k_stride, s.a_k_stride, s.a_row_stride, s.rows};
}

// Reads the second operand in place if its columns adjoin, else turns it round panel by panel.
void Run(const Product& product, const float* a, const float* b, float* c, const Kernels& kernels) {
  const int64_t lanes = kernels.lanes;
  const int64_t vectors = CeilDivide(product.columns, lanes);
  const int64_t panels = CeilDivide(vectors, kDenseVectors);
  const int64_t width = CeilDivide(vectors, panels) * lanes;  // Panels of equal width, not full ones and a rest.
  const bool turns = product.b_n_stride != 1;
  const Scratch panel(turns ? product.depth * width : 0);
  const int block_rows = kernels.dense_rows[width / lanes - 1];
  const int64_t blocks = CeilDivide(product.rows, block_rows);
  const int64_t fewest = product.rows / blocks, more = product.rows % blocks;  // Dealt evenly over the blocks.
  DenseBlock block{};
  block.depth = product.depth;
  block.a_row_stride = product.a_row_stride;
  block.a_k_stride = product.a_k_stride;
  block.c_row_stride = product.c_row_stride;
  for (int64_t column = 0; column < product.columns; column += width) {
    block.columns = static_cast<int>(std::min(width, product.columns - column));
    block.b = b + column * product.b_n_stride;
    block.ldb = product.b_k_stride;
    if (turns) {
      kernels.transpose(block.b, product.b_n_stride, product.b_k_stride, block.columns, product.depth, panel.data(),
                        width);
      block.b = panel.data();
      block.ldb = width;
    }
    block.a = a;
    block.c = c + column;
    for (int64_t i = 0; i < blocks; ++i) {
      block.rows = static_cast<int>(fewest + (i < more ? 1 : 0));
      kernels.dense(block);
      block.a += block.rows * product.a_row_stride;
      block.c += block.rows * product.c_row_stride;
    }
  }
}

}  // namespace

bool IsSmall(const MatMulShape& shape) { return shape.rows * shape.columns * shape.depth <= kSerialProducts; }

void SmallMatMul(const MatMulShape& shape, const float* a, const float* b, float* c, const Kernels& kernels,
                 const Parallel& parallel) {
  const bool turned = shape.columns == 1;
  const Product product = ProductOf(shape, turned);
  const auto run = [&](int64_t g) {
    const float *first = a + shape.a_at[g], *second = b + shape.b_at[g];
    if (turned) std::swap(first, second);
    Run(product, first, second, c + shape.c_at[g], kernels);
  };
  const int64_t batch = shape.batch();
  if (batch * shape.rows * shape.columns * shape.depth < kSerialProducts) {
    for (int64_t g = 0; g < batch; ++g) run(g);
  } else {
    parallel(batch, run);
  }
}

}  // namespace ipu_tf
