// 2-D convolution in NHWC / HWIO, its input gradient and its filter gradient.
#ifndef IPU_TF_OPS_CORE_CONV_H_
#define IPU_TF_OPS_CORE_CONV_H_

#include <cstdint>
#include <string>
#include <vector>

#include "epilogue.h"
#include "kernels.h"
#include "parallel.h"
#include "plan.h"

namespace ipu_tf {

// Shape of the forward convolution that a call belongs to; channels count all groups.
struct ConvShape {
  int64_t batch = 0;
  int64_t in_rows = 0, in_columns = 0, in_channels = 0;
  int64_t out_rows = 0, out_columns = 0, out_channels = 0;
  int64_t groups = 1;
  int64_t kernel_rows = 0, kernel_columns = 0;
  int64_t stride_rows = 1, stride_columns = 1;
  int64_t dilation_rows = 1, dilation_columns = 1;
  int64_t pad_top = 0, pad_left = 0;

  int64_t group_in_channels() const { return in_channels / groups; }
  int64_t group_out_channels() const { return out_channels / groups; }
  int64_t filter_floats() const { return kernel_rows * kernel_columns * group_in_channels() * out_channels; }
};

enum class ConvPass { kForward, kInputGradient, kFilterGradient };

std::string CheckPlan(ConvPass pass, const ConvPlan& plan, const ConvShape& shape);

// y = conv(x, w), then the epilogue (float32 only). Operands are float32 (float16 ones converted before); results are
// not yet rounded to float16.
void ConvForward(const ConvShape& shape, const ConvPlan& plan, const Numerics& numerics, const float* x, const float* w,
                 float* y, const Kernels& kernels, const Parallel& parallel, const Epilogue& epilogue = {});

// dx, the forward convolution of dy with the flipped and transposed filter, then the epilogue (float32 only).
void ConvInputGradient(const ConvShape& shape, const ConvPlan& plan, const Numerics& numerics, const float* w,
                       const float* dy, float* dx, const Kernels& kernels, const Parallel& parallel,
                       const Epilogue& epilogue = {});

// dw, a matmul over the pixels of dy; and, where `db` is not null, the sum of dy over its pixels.
void ConvFilterGradient(const ConvShape& shape, const ConvPlan& plan, const Numerics& numerics, const float* x,
                        const float* dy, float* dw, const Kernels& kernels, const Parallel& parallel,
                        float* db = nullptr);

}  // namespace ipu_tf

#endif  // IPU_TF_OPS_CORE_CONV_H_
