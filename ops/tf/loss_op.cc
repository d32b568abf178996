// IpuSparseSoftmaxLoss: SparseSoftmaxCrossEntropyWithLogits.
#include "../core/elements/label_loss.h"
#include "absl/strings/str_cat.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/shape_inference.h"
#include "tile_kernel.h"

namespace ipu_tf {
namespace {

using tensorflow::DEVICE_CPU;
using tensorflow::OpKernelContext;
using tensorflow::Tensor;

template <typename Label>
class SparseSoftmaxLoss : public NamedKernel {
 public:
  using NamedKernel::NamedKernel;

  void Compute(OpKernelContext* context) override {
    const Tensor &scores = context->input(0), &labels = context->input(1);
    OP_REQUIRES(
        context,
        scores.dims() == 2 && scores.dim_size(1) > 0 && labels.dims() == 1 && labels.dim_size(0) == scores.dim_size(0),
        Error(absl::StrCat("there are rows of scores of at least one class, and a label for each. Received "
                           "the shapes ",
                           scores.shape().DebugString(), " and ", labels.shape().DebugString())));
    const int64_t rows = scores.dim_size(0), classes = scores.dim_size(1);
    const Label* label = labels.flat<Label>().data();
    for (int64_t i = 0; i < rows; ++i) {
      OP_REQUIRES(context, label[i] >= 0 && label[i] < classes,
                  Error(absl::StrCat("label ", i, " is not one of the ", classes,
                                     " classes, which count from 0. Received: ", label[i])));
    }
    Tensor *loss = nullptr, *gradient = nullptr;
    OP_REQUIRES_OK(context, context->allocate_output(0, labels.shape(), &loss));
    OP_REQUIRES_OK(context, context->allocate_output(1, scores.shape(), &gradient));
    LabelLoss(scores.flat<float>().data(), label, rows, classes, loss->flat<float>().data(),
              gradient->flat<float>().data(), ActiveKernels(), ParallelOf(context));
  }
};

REGISTER_OP("IpuSparseSoftmaxLoss")
    .Input("features: T")
    .Input("labels: Tlabels")
    .Output("loss: T")
    .Output("backprop: T")
    .Attr("T: {float}")
    .Attr("Tlabels: {int32, int64} = DT_INT64")
    .SetShapeFn([](tensorflow::shape_inference::InferenceContext* c) {
      c->set_output(0, c->input(1));
      c->set_output(1, c->input(0));
      return absl::OkStatus();
    })
    .Doc("SparseSoftmaxCrossEntropyWithLogits.");

REGISTER_KERNEL_BUILDER(Name("IpuSparseSoftmaxLoss").Device(DEVICE_CPU).TypeConstraint<int32_t>("Tlabels"),
                        SparseSoftmaxLoss<int32_t>);
REGISTER_KERNEL_BUILDER(Name("IpuSparseSoftmaxLoss").Device(DEVICE_CPU).TypeConstraint<int64_t>("Tlabels"),
                        SparseSoftmaxLoss<int64_t>);

}  // namespace
}  // namespace ipu_tf
