// Products that one core finishes before it could have called another: a block at a time, nothing prepared.
#ifndef IPU_TF_OPS_CORE_SMALL_MATMUL_H_
#define IPU_TF_OPS_CORE_SMALL_MATMUL_H_

#include "../kernels/kernels.h"
#include "../parallel.h"
#include "matmul_shape.h"

namespace ipu_tf {

// Whether the batch elements of a product are so small that cutting them into work items does not pay.
bool IsSmall(const MatMulShape& shape);

// Computes the product of every batch element in float32; each sum is one chain. Gives the bits of `RunGemms`.
void SmallMatMul(const MatMulShape& shape, const float* a, const float* b, float* c, const Kernels& kernels,
                 const Parallel& parallel);

}  // namespace ipu_tf

#endif  // IPU_TF_OPS_CORE_SMALL_MATMUL_H_
