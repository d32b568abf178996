// The filter gradient of float32 convolutions with contiguous kernel rows: few copies, chains within the L1 cache.
#ifndef IPU_TF_OPS_CORE_CONV_FILTER_LINES_H_
#define IPU_TF_OPS_CORE_CONV_FILTER_LINES_H_

#include "conv.h"

namespace ipu_tf {

// Whether `LinesFilterGradient` can run and is the faster way.
bool LinesFilterGradientPays(const ConvShape& shape, const Numerics& numerics);

// dw, with a whole kernel row (kernel columns x input channels, contiguous in a padded image row) as the rows of the
// product. Sums chains of some image rows each and adds them up in the order of images and rows.
void LinesFilterGradient(const ConvShape& shape, const float* x, const float* dy, float* dw, const Kernels& kernels,
                         const Parallel& parallel);

}  // namespace ipu_tf

#endif  // IPU_TF_OPS_CORE_CONV_FILTER_LINES_H_
