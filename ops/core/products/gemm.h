// The blocked driver behind matmul, forward convolution and input gradient.
#ifndef IPU_TF_OPS_CORE_GEMM_H_
#define IPU_TF_OPS_CORE_GEMM_H_

#include <cstdint>
#include <vector>

#include "../kernels/kernels.h"
#include "../parallel.h"
#include "gemm_problem.h"

namespace ipu_tf {

// Fewer products than these are not worth waking other threads. Modelled: at 100 GFLOP/s they take a core 10 us, about
// what waking a thread takes.
inline constexpr int64_t kSerialProducts = int64_t{1} << 19;

// Computes problems side by side; weights are read in place or packed into panels.
void RunGemms(const std::vector<GemmProblem>& problems, const Kernels& kernels, const Parallel& parallel);

}  // namespace ipu_tf

#endif  // IPU_TF_OPS_CORE_GEMM_H_
