// IpuSwapRows: a transpose of the first two dimensions, as between samples and the steps of a recurrent layer.
#include "../core/elements/swap_rows.h"

#include "absl/strings/str_cat.h"
#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/op.h"
#include "tile_kernel.h"

namespace ipu_tf {
namespace {

using tensorflow::OpKernelContext;
using tensorflow::Tensor;
using tensorflow::TensorShape;
using tensorflow::shape_inference::InferenceContext;
using tensorflow::shape_inference::ShapeHandle;

class IpuSwapRows : public NamedKernel {
 public:
  using NamedKernel::NamedKernel;

  void Compute(OpKernelContext* context) override {
    const Tensor& x = context->input(0);
    OP_REQUIRES(context, x.dims() >= 3,
                Error(absl::StrCat("x has rows in two dimensions. Received the shape ", x.shape().DebugString())));
    TensorShape shape = x.shape();
    const int64_t outer = shape.dim_size(0), inner = shape.dim_size(1);
    shape.set_dim(0, inner);
    shape.set_dim(1, outer);
    Tensor* y = nullptr;
    OP_REQUIRES_OK(context, context->allocate_output(0, shape, &y));
    if (x.NumElements() == 0) return;
    SwapRows(x.flat<float>().data(), outer, inner, x.NumElements() / (outer * inner), y->flat<float>().data(),
             ParallelOf(context));
  }
};

absl::Status SwappedShape(InferenceContext* c) {
  ShapeHandle x;
  TF_RETURN_IF_ERROR(c->WithRankAtLeast(c->input(0), 3, &x));
  ShapeHandle y = x;
  TF_RETURN_IF_ERROR(c->ReplaceDim(y, 0, c->Dim(x, 1), &y));
  TF_RETURN_IF_ERROR(c->ReplaceDim(y, 1, c->Dim(x, 0), &y));
  c->set_output(0, y);
  return absl::OkStatus();
}

REGISTER_OP("IpuSwapRows")
    .Input("x: T")
    .Output("y: T")
    .Attr("T: {float}")
    .Attr("rank: int")
    .SetShapeFn(SwappedShape)
    .Doc("Transpose of x that swaps the first two of its `rank` dimensions.");

REGISTER_KERNEL_BUILDER(Name("IpuSwapRows").Device(tensorflow::DEVICE_CPU).TypeConstraint<float>("T"), IpuSwapRows);

}  // namespace
}  // namespace ipu_tf
