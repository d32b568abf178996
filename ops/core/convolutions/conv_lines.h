// Convolutions whose kernel rows are contiguous: image rows are read where they lie, or from a padded copy in
// the cache, and each sum is one chain (forward, input gradient) or a chain for some image rows (filter gradient,
// in float32 alone).
#ifndef IPU_TF_OPS_CORE_CONV_LINES_H_
#define IPU_TF_OPS_CORE_CONV_LINES_H_

#include "../kernels/kernels.h"
#include "../parallel.h"
#include "../plan/plan.h"
#include "../products/epilogue.h"
#include "conv_shape.h"
#include "padded_lines.h"

namespace ipu_tf {

Window ForwardWindow(const ConvShape& shape);

// Whether the function for this pass can run and is the faster way.
bool LinesPay(ConvPass pass, const ConvShape& shape, const ConvPlan& plan, const Numerics& numerics);

void LinesForward(const ConvShape& shape, const float* x, const float* w, float* y, const Kernels& kernels,
                  const Parallel& parallel, const Epilogue& epilogue);

// Each phase of the strides by itself.
void LinesInputGradient(const ConvShape& shape, const float* w, const float* dy, float* dx, const Kernels& kernels,
                        const Parallel& parallel, const Epilogue& epilogue);

// `db` as for ConvFilterGradient.
void LinesFilterGradient(const ConvShape& shape, const float* x, const float* dy, float* dw, const Kernels& kernels,
                         const Parallel& parallel, float* db);

}  // namespace ipu_tf

#endif  // IPU_TF_OPS_CORE_CONV_LINES_H_
