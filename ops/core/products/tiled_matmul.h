// Matmul for the tile interpreter.
#ifndef IPU_TF_OPS_CORE_TILED_MATMUL_H_
#define IPU_TF_OPS_CORE_TILED_MATMUL_H_

#include "../parallel.h"
#include "../plan/plan.h"
#include "matmul_shape.h"

namespace ipu_tf {

void TiledMatMul(const MatMulShape& shape, const MatMulPlan& plan, const Numerics& numerics, const float* a,
                 const float* b, float* c, const Parallel& parallel);

}  // namespace ipu_tf

#endif  // IPU_TF_OPS_CORE_TILED_MATMUL_H_
