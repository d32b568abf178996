// IpuBiasAddGrad: BiasAddGrad over the last dimension. IpuColumnSums: Sum over the first dimensions.
#include "../core/products/epilogue.h"
#include "absl/strings/str_cat.h"
#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/op.h"
#include "tile_kernel.h"

namespace ipu_tf {
namespace {

using tensorflow::DEVICE_CPU;
using tensorflow::OpKernelConstruction;
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

class ColumnSumsKernel : public NamedKernel {
 public:
  explicit ColumnSumsKernel(OpKernelConstruction* context) : NamedKernel(context) {
    OP_REQUIRES_OK(context, context->GetAttr("axes", &axes_));
    OP_REQUIRES_OK(context, context->GetAttr("keep_dims", &keep_dims_));
  }

  void Compute(OpKernelContext* context) override {
    const Tensor& x = context->input(0);
    OP_REQUIRES(context, axes_ <= x.dims() && x.NumElements() > 0,
                Error(absl::StrCat("x has elements and at least ", axes_, " dimensions. Received the shape ",
                                   x.shape().DebugString())));
    TensorShape shape;
    for (int i = 0; keep_dims_ && i < axes_; ++i) shape.AddDim(1);
    for (int i = axes_; i < x.dims(); ++i) shape.AddDim(x.dim_size(i));
    Tensor* sums = nullptr;
    OP_REQUIRES_OK(context, context->allocate_output(0, shape, &sums));
    const int64_t columns = shape.num_elements();
    ColumnSums(x.flat<float>().data(), x.NumElements() / columns, columns, sums->flat<float>().data(), ActiveKernels(),
               ForFloats(x.NumElements(), ParallelOf(context)));
  }

 private:
  int axes_ = 0;
  bool keep_dims_ = false;
};

REGISTER_OP("IpuBiasAddGrad")
    .Input("out_backprop: T")
    .Output("output: T")
    .Attr("T: {float, half}")
    .SetShapeFn(tensorflow::shape_inference::BiasAddGradShape)
    .Doc("BiasAddGrad of channels in the last dimension.");

REGISTER_OP("IpuColumnSums")
    .Input("x: T")
    .Output("sums: T")
    .Attr("axes: int >= 1")
    .Attr("keep_dims: bool = false")
    .Attr("T: {float}")
    .SetShapeFn([](tensorflow::shape_inference::InferenceContext* c) {
      int axes = 0;
      bool keep_dims = false;
      TF_RETURN_IF_ERROR(c->GetAttr("axes", &axes));
      TF_RETURN_IF_ERROR(c->GetAttr("keep_dims", &keep_dims));
      tensorflow::shape_inference::ShapeHandle x, sums;
      TF_RETURN_IF_ERROR(c->WithRankAtLeast(c->input(0), axes, &x));
      TF_RETURN_IF_ERROR(c->Subshape(x, axes, &sums));
      const std::vector<tensorflow::shape_inference::DimensionHandle> ones(keep_dims ? axes : 0, c->MakeDim(1));
      TF_RETURN_IF_ERROR(c->Concatenate(c->MakeShape(ones), sums, &sums));
      c->set_output(0, sums);
      return absl::OkStatus();
    })
    .Doc("Sum over the first `axes` dimensions.");

REGISTER_KERNEL_BUILDER(Name("IpuBiasAddGrad").Device(DEVICE_CPU), BiasAddGradKernel);
REGISTER_KERNEL_BUILDER(Name("IpuColumnSums").Device(DEVICE_CPU), ColumnSumsKernel);

}  // namespace
}  // namespace ipu_tf
