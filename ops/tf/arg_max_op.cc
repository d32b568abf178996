// IpuArgMax: ArgMax over the last dimension.
#include "../core/elements/softmax.h"
#include "absl/strings/str_cat.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/shape_inference.h"
#include "tile_kernel.h"

namespace ipu_tf {
namespace {

using tensorflow::DEVICE_CPU;
using tensorflow::OpKernelConstruction;
using tensorflow::OpKernelContext;
using tensorflow::Tensor;
using tensorflow::TensorShape;

template <typename Index>
class ArgMaxKernel : public NamedKernel {
 public:
  explicit ArgMaxKernel(OpKernelConstruction* context) : NamedKernel(context) {
    OP_REQUIRES_OK(context, context->GetAttr("signed_zeros", &signed_zeros_));
  }

  void Compute(OpKernelContext* context) override {
    const Tensor& x = context->input(0);
    TensorShape rows = x.shape();
    OP_REQUIRES(context, rows.dims() > 0 && rows.dim_size(rows.dims() - 1) > 0,
                Error(absl::StrCat("there are rows of at least one column. Received the shape ", rows.DebugString())));
    const int64_t columns = rows.dim_size(rows.dims() - 1);
    rows.RemoveLastDims(1);
    Tensor* at = nullptr;
    OP_REQUIRES_OK(context, context->allocate_output(0, rows, &at));
    ArgMax(x.flat<float>().data(), rows.num_elements(), columns, signed_zeros_, at->flat<Index>().data(),
           ActiveKernels(), ParallelOf(context));
  }

 private:
  bool signed_zeros_ = false;
};

REGISTER_OP("IpuArgMax")
    .Input("input: T")
    .Output("output: output_type")
    .Attr("T: {float}")
    .Attr("output_type: {int32, int64} = DT_INT64")
    .Attr("signed_zeros: bool = false")
    .SetShapeFn([](tensorflow::shape_inference::InferenceContext* c) {
      tensorflow::shape_inference::ShapeHandle rows;
      TF_RETURN_IF_ERROR(c->WithRankAtLeast(c->input(0), 1, &rows));
      TF_RETURN_IF_ERROR(c->Subshape(rows, 0, -1, &rows));
      c->set_output(0, rows);
      return absl::OkStatus();
    })
    .Doc(
        "ArgMax over the last dimension; with `signed_zeros` of SelectV2 of minus the smallest normal number where it "
        "is -0.");

REGISTER_KERNEL_BUILDER(Name("IpuArgMax").Device(DEVICE_CPU).TypeConstraint<int32_t>("output_type"),
                        ArgMaxKernel<int32_t>);
REGISTER_KERNEL_BUILDER(Name("IpuArgMax").Device(DEVICE_CPU).TypeConstraint<int64_t>("output_type"),
                        ArgMaxKernel<int64_t>);

}  // namespace
}  // namespace ipu_tf
