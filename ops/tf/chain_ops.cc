// Joined chains of element-wise ops: IpuScaledDifference and IpuAdamStep of optimizers, IpuGelu and IpuGeluGrad.
#include "../core/elements/chains.h"

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

// Base of kernels of two operands of one shape, then scalars.
class PairKernel : public NamedKernel {
 public:
  using NamedKernel::NamedKernel;

  void Compute(OpKernelContext* context) override {
    const Tensor &a = context->input(0), &b = context->input(1);
    OP_REQUIRES(context, a.shape() == b.shape(),
                Error(absl::StrCat("both operands have one shape. Received: ", a.shape().DebugString(), " and ",
                                   b.shape().DebugString())));
    for (int i = 2; i < context->num_inputs(); ++i) {
      OP_REQUIRES(context, context->input(i).dims() == 0,
                  Error(absl::StrCat("input ", i, " is a scalar. Received the shape ",
                                     context->input(i).shape().DebugString())));
    }
    Tensor* y = nullptr;
    OP_REQUIRES_OK(context, context->allocate_output(0, a.shape(), &y));
    if (a.NumElements() == 0) return;
    Run(context, a.flat<float>().data(), b.flat<float>().data(), y->flat<float>().data(), a.NumElements());
  }

 protected:
  virtual void Run(OpKernelContext* context, const float* a, const float* b, float* y, int64_t count) const = 0;

  static float Scalar(OpKernelContext* context, int index) { return context->input(index).scalar<float>()(); }
};

class ScaledDifferenceKernel : public PairKernel {
 public:
  explicit ScaledDifferenceKernel(OpKernelConstruction* context) : PairKernel(context) {
    OP_REQUIRES_OK(context, context->GetAttr("square", &square_));
  }

 protected:
  void Run(OpKernelContext* context, const float* a, const float* b, float* y, int64_t count) const override {
    ScaledDifference(a, b, Scalar(context, 2), square_, y, count, ParallelOf(context));
  }

 private:
  bool square_ = false;
};

class AdamStepKernel : public PairKernel {
 public:
  using PairKernel::PairKernel;

 protected:
  void Run(OpKernelContext* context, const float* a, const float* b, float* y, int64_t count) const override {
    AdamStep(a, b, Scalar(context, 2), Scalar(context, 3), y, count, ParallelOf(context));
  }
};

class GeluKernel : public NamedKernel {
 public:
  explicit GeluKernel(OpKernelConstruction* context) : NamedKernel(context) {
    OP_REQUIRES_OK(context, context->GetAttr("approximate", &approximate_));
  }

  void Compute(OpKernelContext* context) override {
    const Tensor& x = context->input(0);
    Tensor* y = nullptr;
    OP_REQUIRES_OK(context, context->allocate_output(0, x.shape(), &y));
    Gelu(x.flat<float>().data(), approximate_, y->flat<float>().data(), x.NumElements(), ActiveKernels(),
         ParallelOf(context));
  }

 private:
  bool approximate_ = false;
};

class GeluGradKernel : public PairKernel {
 public:
  explicit GeluGradKernel(OpKernelConstruction* context) : PairKernel(context) {
    OP_REQUIRES_OK(context, context->GetAttr("approximate", &approximate_));
  }

 protected:
  void Run(OpKernelContext* context, const float* x, const float* dy, float* dx, int64_t count) const override {
    GeluGradient(x, dy, approximate_, dx, count, ActiveKernels(), ParallelOf(context));
  }

 private:
  bool approximate_ = false;
};

REGISTER_OP("IpuScaledDifference")
    .Input("a: T")
    .Input("b: T")
    .Input("factor: T")
    .Output("y: T")
    .Attr("T: {float}")
    .Attr("square: bool = false")
    .SetShapeFn(tensorflow::shape_inference::UnchangedShape)
    .Doc("Mul of Sub of a (with `square`, of Square of a) and b, and a scalar.");

REGISTER_OP("IpuAdamStep")
    .Input("mean: T")
    .Input("square: T")
    .Input("rate: T")
    .Input("epsilon: T")
    .Output("y: T")
    .Attr("T: {float}")
    .SetShapeFn(tensorflow::shape_inference::UnchangedShape)
    .Doc("RealDiv of Mul of mean and a scalar, and of AddV2 of Sqrt of square and a scalar.");

REGISTER_OP("IpuGelu")
    .Input("x: T")
    .Output("y: T")
    .Attr("T: {float}")
    .Attr("approximate: bool = false")
    .SetShapeFn(tensorflow::shape_inference::UnchangedShape)
    .Doc("A Gaussian error linear unit of x, of Erfc; if `approximate`, of Tanh.");

REGISTER_OP("IpuGeluGrad")
    .Input("x: T")
    .Input("dy: T")
    .Output("dx: T")
    .Attr("T: {float}")
    .Attr("approximate: bool = false")
    .SetShapeFn(tensorflow::shape_inference::UnchangedShape)
    .Doc("The gradient of IpuGelu.");

REGISTER_KERNEL_BUILDER(Name("IpuScaledDifference").Device(DEVICE_CPU), ScaledDifferenceKernel);
REGISTER_KERNEL_BUILDER(Name("IpuAdamStep").Device(DEVICE_CPU), AdamStepKernel);
REGISTER_KERNEL_BUILDER(Name("IpuGelu").Device(DEVICE_CPU), GeluKernel);
REGISTER_KERNEL_BUILDER(Name("IpuGeluGrad").Device(DEVICE_CPU), GeluGradKernel);

}  // namespace
}  // namespace ipu_tf
