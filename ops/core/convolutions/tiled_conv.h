// Convolutions for the tile interpreter.
#ifndef IPU_TF_OPS_CORE_TILED_CONV_H_
#define IPU_TF_OPS_CORE_TILED_CONV_H_

#include "../parallel.h"
#include "../plan/plan.h"
#include "conv_shape.h"

namespace ipu_tf {

void TiledConvForward(const ConvShape& shape, const ConvPlan& plan, const Numerics& numerics, const float* x,
                      const float* w, float* y, const Parallel& parallel);

void TiledConvInputGradient(const ConvShape& shape, const ConvPlan& plan, const Numerics& numerics, const float* w,
                            const float* dy, float* dx, const Parallel& parallel);

void TiledConvFilterGradient(const ConvShape& shape, const ConvPlan& plan, const Numerics& numerics, const float* x,
                             const float* dy, float* dw, const Parallel& parallel);

}  // namespace ipu_tf

#endif  // IPU_TF_OPS_CORE_TILED_CONV_H_
