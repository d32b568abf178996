// The ops of softmax: IpuSoftmax, IpuSoftmaxGrad; and with dropout IpuSoftmaxDropout, IpuSoftmaxDropoutGrad.
#include "../core/elements/softmax.h"

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

// Base of kernels over rows, the last dimension of the first input.
class SoftmaxKernel : public NamedKernel {
 public:
  using NamedKernel::NamedKernel;

 protected:
  // Returns an error unless the inputs up to `count` have one shape, of which they have rows, and the next, if there is
  // one, is a scalar.
  std::string Check(OpKernelContext* context, int count) const {
    const TensorShape& shape = context->input(0).shape();
    for (int i = 0; i < count; ++i) {
      const TensorShape& other = context->input(i).shape();
      if (other.dims() > 0 && other == shape) continue;
      return absl::StrCat("rows and what belongs to them have one shape. Received: ", shape.DebugString(), " and ",
                          other.DebugString());
    }
    if (context->num_inputs() > count && context->input(count).dims() != 0) {
      return absl::StrCat("the scale is a scalar. Received the shape ", context->input(count).shape().DebugString());
    }
    return "";
  }

  static int64_t Columns(const Tensor& x) { return x.dim_size(x.dims() - 1); }

  static const float* Floats(OpKernelContext* context, int index) { return context->input(index).flat<float>().data(); }

  static const uint8_t* Kept(OpKernelContext* context, int index) {
    return static_cast<const uint8_t*>(context->input(index).data());
  }
};

// With three inputs, the second tells what dropout keeps, and the third is its scale.
class SoftmaxForwardKernel : public SoftmaxKernel {
 public:
  using SoftmaxKernel::SoftmaxKernel;

  void Compute(OpKernelContext* context) override {
    const bool drops = context->num_inputs() > 1;
    IPU_TF_CHECK(context, Check(context, drops ? 2 : 1));
    const Tensor& x = context->input(0);
    Tensor *y = nullptr, *dropped = nullptr;
    OP_REQUIRES_OK(context, context->allocate_output(0, x.shape(), &y));
    if (drops) OP_REQUIRES_OK(context, context->allocate_output(1, x.shape(), &dropped));
    if (x.NumElements() == 0) return;
    SoftmaxRows rows{};
    rows.columns = Columns(x);
    rows.rows = x.NumElements() / rows.columns;
    rows.x = Floats(context, 0);
    rows.y = y->flat<float>().data();
    if (drops) {
      rows.kept = Kept(context, 1);
      rows.scale = context->input(2).scalar<float>()();
      rows.dropped = dropped->flat<float>().data();
    }
    Softmax(rows, ActiveKernels(), ParallelOf(context));
  }
};

// With three inputs or more, the third tells what dropout kept, and the fourth is its scale.
class SoftmaxGradKernel : public SoftmaxKernel {
 public:
  using SoftmaxKernel::SoftmaxKernel;

  void Compute(OpKernelContext* context) override {
    const bool drops = context->num_inputs() > 2;
    IPU_TF_CHECK(context, Check(context, drops ? 3 : 2));
    const Tensor& y = context->input(0);
    Tensor* dx = nullptr;
    OP_REQUIRES_OK(context, context->allocate_output(0, y.shape(), &dx));
    if (y.NumElements() == 0) return;
    SoftmaxGradientRow row{};
    row.y = Floats(context, 0);
    row.dy = Floats(context, 1);
    row.kept = drops ? Kept(context, 2) : nullptr;
    row.scale = drops ? context->input(3).scalar<float>()() : 1.0f;
    row.dx = dx->flat<float>().data();
    row.columns = Columns(y);
    SoftmaxGradient(row, y.NumElements() / row.columns, ActiveKernels(), ParallelOf(context));
  }
};

absl::Status TwoOfTheFirstShape(tensorflow::shape_inference::InferenceContext* c) {
  c->set_output(0, c->input(0));
  c->set_output(1, c->input(0));
  return absl::OkStatus();
}

REGISTER_OP("IpuSoftmax")
    .Input("logits: T")
    .Output("softmax: T")
    .Attr("T: {float}")
    .SetShapeFn(tensorflow::shape_inference::UnchangedShape)
    .Doc("Softmax.");

REGISTER_OP("IpuSoftmaxDropout")
    .Input("x: T")
    .Input("kept: bool")
    .Input("scale: T")
    .Output("softmax: T")
    .Output("dropped: T")
    .Attr("T: {float}")
    .SetShapeFn(TwoOfTheFirstShape)
    .Doc("Softmax of x; and of that SelectV2 of its product with `scale` where `kept` is true, and of 0.");

REGISTER_OP("IpuSoftmaxGrad")
    .Input("softmax: T")
    .Input("grad: T")
    .Output("output: T")
    .Attr("T: {float}")
    .SetShapeFn(tensorflow::shape_inference::UnchangedShape)
    .Doc("Mul of `softmax` and of Sub of `grad` and the Sum, over the last dimension, of Mul of both.");

REGISTER_OP("IpuSoftmaxDropoutGrad")
    .Input("softmax: T")
    .Input("grad: T")
    .Input("kept: bool")
    .Input("scale: T")
    .Output("output: T")
    .Attr("T: {float}")
    .SetShapeFn(tensorflow::shape_inference::UnchangedShape)
    .Doc("IpuSoftmaxGrad of `softmax` and of Mul of `scale` and of SelectV2 of `grad` where `kept` is true, and of 0.");

REGISTER_KERNEL_BUILDER(Name("IpuSoftmax").Device(DEVICE_CPU), SoftmaxForwardKernel);
REGISTER_KERNEL_BUILDER(Name("IpuSoftmaxDropout").Device(DEVICE_CPU), SoftmaxForwardKernel);
REGISTER_KERNEL_BUILDER(Name("IpuSoftmaxGrad").Device(DEVICE_CPU), SoftmaxGradKernel);
REGISTER_KERNEL_BUILDER(Name("IpuSoftmaxDropoutGrad").Device(DEVICE_CPU), SoftmaxGradKernel);

}  // namespace
}  // namespace ipu_tf
