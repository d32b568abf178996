// 2-D convolution in NHWC / HWIO, its input gradient and its filter gradient.
#ifndef IPU_TF_OPS_CORE_CONV_H_
#define IPU_TF_OPS_CORE_CONV_H_

#include <string>

#include "../kernels/kernels.h"
#include "../parallel.h"
#include "../plan/plan.h"
#include "../products/epilogue.h"
#include "conv_shape.h"

namespace ipu_tf {

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
