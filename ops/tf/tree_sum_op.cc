// IpuTreeSum: the sum of the gradients of replicas.
#include "../core/elements/tree_sum.h"

#include "absl/strings/str_cat.h"
#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/op.h"
#include "tile_kernel.h"

namespace ipu_tf {
namespace {

using tensorflow::OpKernelContext;
using tensorflow::Tensor;
using tensorflow::shape_inference::InferenceContext;
using tensorflow::shape_inference::ShapeHandle;

class IpuTreeSum : public NamedKernel {
 public:
  using NamedKernel::NamedKernel;

  void Compute(OpKernelContext* context) override {
    const Tensor& first = context->input(0);
    std::vector<const float*> summands;
    for (int i = 0; i < context->num_inputs(); ++i) {
      const Tensor& summand = context->input(i);
      OP_REQUIRES(context, summand.shape() == first.shape(),
                  Error(absl::StrCat("the summands have one shape. Received: ", first.shape().DebugString(), " and ",
                                     summand.shape().DebugString())));
      summands.push_back(summand.flat<float>().data());
    }
    Tensor* y = nullptr;
    OP_REQUIRES_OK(context, context->allocate_output(0, first.shape(), &y));
    TreeSum(summands, y->flat<float>().data(), y->NumElements(), ParallelOf(context));
  }
};

absl::Status ShapeOfAll(InferenceContext* context) {
  ShapeHandle shape = context->input(0);
  for (int i = 1; i < context->num_inputs(); ++i) {
    TF_RETURN_IF_ERROR(context->Merge(shape, context->input(i), &shape));
  }
  context->set_output(0, shape);
  return absl::OkStatus();
}

REGISTER_OP("IpuTreeSum")
    .Input("summands: N * T")
    .Output("y: T")
    .Attr("N: int >= 1")
    .Attr("T: {float}")
    .SetShapeFn(ShapeOfAll)
    .Doc("The sum of tensors of one shape by a balanced tree: 0 and 1, 2 and 3; then 0 and 2.");

REGISTER_KERNEL_BUILDER(Name("IpuTreeSum").Device(tensorflow::DEVICE_CPU).TypeConstraint<float>("T"), IpuTreeSum);

}  // namespace
}  // namespace ipu_tf
