// Joined chains of element-wise ops: moving means, steps and updates of optimizers, IpuGelu and its gradient. And the
// gradient of a ReLU that ends at 6, for which TensorFlow takes several times as long.
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
using tensorflow::TensorShape;

// Base of kernels of `Operands` operands of one shape, then scalars; they read no further inputs.
// The result takes the memory of the operand `Forwarded`, unless that is -1 or something else reads it.
template <int Operands, int Scalars, int Forwarded = -1>
class ChainKernel : public NamedKernel {
 public:
  using NamedKernel::NamedKernel;

  void Compute(OpKernelContext* context) override {
    const Tensor& a = context->input(0);
    for (int i = 1; i < Operands; ++i) {
      const TensorShape& shape = context->input(i).shape();
      OP_REQUIRES(context, a.shape() == shape,
                  Error(absl::StrCat("the operands have one shape. Received: ", a.shape().DebugString(), " and ",
                                     shape.DebugString())));
    }
    for (int i = Operands; i < Operands + Scalars; ++i) {
      OP_REQUIRES(context, context->input(i).dims() == 0,
                  Error(absl::StrCat("input ", i, " is a scalar. Received the shape ",
                                     context->input(i).shape().DebugString())));
    }
    Tensor* y = nullptr;
    if constexpr (Forwarded >= 0) {
      OP_REQUIRES_OK(context, context->forward_input_or_allocate_output({Forwarded}, 0, a.shape(), &y));
    } else {
      OP_REQUIRES_OK(context, context->allocate_output(0, a.shape(), &y));
    }
    if (a.NumElements() > 0) Run(context, y->flat<float>().data(), a.NumElements());
  }

 protected:
  virtual void Run(OpKernelContext* context, float* y, int64_t count) const = 0;

  static const float* Values(OpKernelContext* context, int index) { return context->input(index).flat<float>().data(); }

  static float Scalar(OpKernelContext* context, int index) { return context->input(index).scalar<float>()(); }
};

class ScaledDifferenceKernel : public ChainKernel<2, 1> {
 public:
  explicit ScaledDifferenceKernel(OpKernelConstruction* context) : ChainKernel(context) {
    OP_REQUIRES_OK(context, context->GetAttr("square", &square_));
    OP_REQUIRES_OK(context, context->GetAttr("add", &add_));
  }

 protected:
  void Run(OpKernelContext* context, float* y, int64_t count) const override {
    ScaledDifference(Values(context, 0), Values(context, 1), Scalar(context, 2), square_, add_, y, count,
                     ParallelOf(context));
  }

 private:
  bool square_ = false, add_ = false;
};

class AdamStepKernel : public ChainKernel<2, 2> {
 public:
  using ChainKernel::ChainKernel;

 protected:
  void Run(OpKernelContext* context, float* y, int64_t count) const override {
    AdamStep(Values(context, 0), Values(context, 1), Scalar(context, 2), Scalar(context, 3), y, count,
             ParallelOf(context));
  }
};

class AdamUpdateKernel : public ChainKernel<3, 2> {
 public:
  using ChainKernel::ChainKernel;

 protected:
  void Run(OpKernelContext* context, float* y, int64_t count) const override {
    AdamUpdate(Values(context, 0), Values(context, 1), Values(context, 2), Scalar(context, 3), Scalar(context, 4), y,
               count, ParallelOf(context));
  }
};

// The weights become what was the gradient.
class ScaledUpdateKernel : public ChainKernel<2, 1, 1> {
 public:
  using ChainKernel::ChainKernel;

 protected:
  void Run(OpKernelContext* context, float* y, int64_t count) const override {
    ScaledUpdate(Values(context, 0), Values(context, 1), Scalar(context, 2), y, count, ParallelOf(context));
  }
};

class Relu6GradKernel : public ChainKernel<2, 0, 0> {
 public:
  using ChainKernel::ChainKernel;

 protected:
  void Run(OpKernelContext* context, float* dx, int64_t count) const override {
    Relu6Gradient(Values(context, 0), Values(context, 1), dx, count, ParallelOf(context));
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

class GeluGradKernel : public ChainKernel<2, 0> {
 public:
  explicit GeluGradKernel(OpKernelConstruction* context) : ChainKernel(context) {
    OP_REQUIRES_OK(context, context->GetAttr("approximate", &approximate_));
  }

 protected:
  void Run(OpKernelContext* context, float* dx, int64_t count) const override {
    GeluGradient(Values(context, 0), Values(context, 1), approximate_, dx, count, ActiveKernels(), ParallelOf(context));
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
    .Attr("add: bool = false")
    .SetShapeFn(tensorflow::shape_inference::UnchangedShape)
    .Doc("Mul of Sub of a (with `square`, of Square of a) and b, and a scalar; with `add`, AddV2 of b and that.");

REGISTER_OP("IpuAdamStep")
    .Input("mean: T")
    .Input("square: T")
    .Input("rate: T")
    .Input("epsilon: T")
    .Output("y: T")
    .Attr("T: {float}")
    .SetShapeFn(tensorflow::shape_inference::UnchangedShape)
    .Doc("RealDiv of Mul of mean and a scalar, and of AddV2 of Sqrt of square and a scalar.");

REGISTER_OP("IpuRelu6Grad")
    .Input("gradients: T")
    .Input("features: T")
    .Output("backprops: T")
    .Attr("T: {float}")
    .SetShapeFn(tensorflow::shape_inference::UnchangedShape)
    .Doc("Relu6Grad.");

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

REGISTER_OP("IpuAdamUpdate")
    .Input("weights: T")
    .Input("mean: T")
    .Input("square: T")
    .Input("rate: T")
    .Input("epsilon: T")
    .Input("after: N * T")
    .Output("y: T")
    .Attr("T: {float}")
    .Attr("N: int >= 0 = 0")
    .SetShapeFn(tensorflow::shape_inference::UnchangedShape)
    .Doc("Sub of weights and IpuAdamStep; XLA runs it in place, `after` what else reads the weights.");

REGISTER_OP("IpuScaledUpdate")
    .Input("weights: T")
    .Input("gradient: T")
    .Input("rate: T")
    .Input("after: N * T")
    .Output("y: T")
    .Attr("T: {float}")
    .Attr("N: int >= 0 = 0")
    .SetShapeFn(tensorflow::shape_inference::UnchangedShape)
    .Doc("Sub of weights, and of Mul of gradient and a scalar; XLA runs it in place, `after` what else reads weights.");

REGISTER_KERNEL_BUILDER(Name("IpuScaledDifference").Device(DEVICE_CPU), ScaledDifferenceKernel);
REGISTER_KERNEL_BUILDER(Name("IpuAdamStep").Device(DEVICE_CPU), AdamStepKernel);
REGISTER_KERNEL_BUILDER(Name("IpuAdamUpdate").Device(DEVICE_CPU), AdamUpdateKernel);
REGISTER_KERNEL_BUILDER(Name("IpuScaledUpdate").Device(DEVICE_CPU), ScaledUpdateKernel);
REGISTER_KERNEL_BUILDER(Name("IpuGelu").Device(DEVICE_CPU), GeluKernel);
REGISTER_KERNEL_BUILDER(Name("IpuGeluGrad").Device(DEVICE_CPU), GeluGradKernel);
REGISTER_KERNEL_BUILDER(Name("IpuRelu6Grad").Device(DEVICE_CPU), Relu6GradKernel);

}  // namespace
}  // namespace ipu_tf
