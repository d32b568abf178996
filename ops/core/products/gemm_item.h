// A work item of the driver of products: rows of a problem over panels of its weights.
#ifndef IPU_TF_OPS_CORE_GEMM_ITEM_H_
#define IPU_TF_OPS_CORE_GEMM_ITEM_H_

#include <cstdint>

#include "../kernels/kernels.h"
#include "gemm_blocking.h"
#include "gemm_problem.h"

namespace ipu_tf {

// Computes item `index` of a problem; `zeros` are as many as its channels.
void RunItem(const GemmProblem& problem, const Blocking& blocking, const Kernels& kernels, const float* zeros,
             int64_t index);

}  // namespace ipu_tf

#endif  // IPU_TF_OPS_CORE_GEMM_ITEM_H_
