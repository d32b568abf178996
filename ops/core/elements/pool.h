// The gradient of max pooling in NHWC.
#ifndef IPU_TF_OPS_CORE_POOL_H_
#define IPU_TF_OPS_CORE_POOL_H_

#include <cstdint>

#include "../kernels/kernels.h"
#include "../parallel.h"

namespace ipu_tf {

struct PoolShape {
  int64_t batch = 0, channels = 0;
  int64_t in_rows = 0, in_columns = 0;
  int64_t out_rows = 0, out_columns = 0;
  int64_t kernel_rows = 0, kernel_columns = 0;
  int64_t stride_rows = 1, stride_columns = 1;
  int64_t pad_top = 0, pad_left = 0;
};

// dx of y = max_pool(x); with `relu`, x came out of a ReLU and dx is the gradient of what went into it.
void MaxPoolGradient(const PoolShape& shape, bool relu, const float* x, const float* y, const float* dy, float* dx,
                     const Kernels& kernels, const Parallel& parallel);

// The same of float16, whose windows do not overlap: then nothing is added, and nothing rounded.
void MaxPoolGradient(const PoolShape& shape, bool relu, const uint16_t* x, const uint16_t* y, const uint16_t* dy,
                     uint16_t* dx, const Kernels& kernels, const Parallel& parallel);

bool WindowsOverlap(const PoolShape& shape);

}  // namespace ipu_tf

#endif  // IPU_TF_OPS_CORE_POOL_H_
