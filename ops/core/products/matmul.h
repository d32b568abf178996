// Batched matrix products over strided operands.
#ifndef IPU_TF_OPS_CORE_MATMUL_H_
#define IPU_TF_OPS_CORE_MATMUL_H_

#include <string>

#include "../kernels/kernels.h"
#include "../parallel.h"
#include "../plan/plan.h"
#include "gemm.h"
#include "matmul_shape.h"

namespace ipu_tf {

std::string CheckPlan(const MatMulPlan& plan, const MatMulShape& shape);

// float32 operands (float16 ones converted before), rounded as `numerics` says; `c` is not yet rounded to float16.
// `update` is for products of one batch element that are not rounded stochastically, `epilogue` for those whose output
// rows adjoin.
void MatMul(const MatMulShape& shape, const MatMulPlan& plan, const Numerics& numerics, const float* a, const float* b,
            float* c, const Kernels& kernels, const Parallel& parallel, const WeightUpdate& update = {},
            const Epilogue& epilogue = {});

}  // namespace ipu_tf

#endif  // IPU_TF_OPS_CORE_MATMUL_H_
