// The shape and the strides of a batched matrix product.
#ifndef IPU_TF_OPS_CORE_MATMUL_SHAPE_H_
#define IPU_TF_OPS_CORE_MATMUL_SHAPE_H_

#include <cstdint>
#include <vector>

namespace ipu_tf {

// c[g, m, n] = sum over k of a[g, m, k] * b[g, k, n]. Strides count elements; one stride of `a` (row or k) and of
// `b` (k or n) must be 1. `a_at`, `b_at`, `c_at` give where each batch element starts.
struct MatMulShape {
  int64_t rows = 0, columns = 0, depth = 0;
  int64_t a_row_stride = 0, a_k_stride = 1;
  int64_t b_k_stride = 0, b_n_stride = 1;
  int64_t c_row_stride = 0;
  std::vector<int64_t> a_at, b_at, c_at;

  int64_t batch() const { return static_cast<int64_t>(a_at.size()); }
};

}  // namespace ipu_tf

#endif  // IPU_TF_OPS_CORE_MATMUL_SHAPE_H_
