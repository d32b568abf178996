// IpuBiasAddGrad: BiasAddGrad over the last dimension.
#include "../core/products/epilogue.h"
#include "absl/strings/str_cat.h"
#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/op.h"
#include "tile_kernel.h"

namespace ipu_tf {
namespace {

using tensorflow::DEVICE_CPU;
using tensorflow::OpKernelContext;
using tensorflow::Tensor;
using tensorflow::TensorShape;

class BiasAddGradKernel : public NamedKernel {
 public:
  using NamedKernel::NamedKernel;

  void Compute(OpKernelContext* context) override {
    const Tensor& gradient = context->input(0);
    OP_REQUIRES(context, gradient.dims() > 1 && gradient.NumElements() > 0,
                Error(absl::StrCat("the gradient has rows of at least one channel. Received the shape ",
                                   gradient.shape().DebugString())));
    const int64_t channels = gradient.dim_size(gradient.dims() - 1), rows = gradient.NumElements() / channels;
    Tensor* bias = nullptr;
    OP_REQUIRES_OK(context, context->allocate_output(0, TensorShape({channels}), &bias));
    const Kernels& kernels = ActiveKernels();
    const Parallel parallel = ForFloats(gradient.NumElements(), ParallelOf(context));
    if (gradient.dtype() == tensorflow::DT_HALF) {
      Scratch sums(channels);
      ColumnSums(HalfData(gradient), rows, channels, sums.data(), kernels, parallel);
      kernels.float_to_half(sums.data(), static_cast<uint16_t*>(bias->data()), channels, Overflow::kInfinity);
    } else {
      ColumnSums(gradient.flat<float>().data(), rows, channels, bias->flat<float>().data(), kernels, parallel);
    }
  }
};

REGISTER_OP("IpuBiasAddGrad")
    .Input("out_backprop: T")
    .Output("output: T")
    .Attr("T: {float, half}")
    .SetShapeFn(tensorflow::shape_inference::BiasAddGradShape)
    .Doc("BiasAddGrad of channels in the last dimension.");

REGISTER_KERNEL_BUILDER(Name("IpuBiasAddGrad").Device(DEVICE_CPU), BiasAddGradKernel);

}  // namespace
}  // namespace ipu_tf
