// IpuDropoutMask, IpuStatefulDropoutMask and IpuMaskedScale: the chain of ops of dropout, in two passes.
#include "../core/elements/dropout.h"

#include "absl/strings/str_cat.h"
#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/util/guarded_philox_random.h"
#include "tile_kernel.h"

namespace ipu_tf {
namespace {

using tensorflow::DEVICE_CPU;
using tensorflow::OpKernelConstruction;
using tensorflow::OpKernelContext;
using tensorflow::Tensor;
using tensorflow::TensorShape;

static_assert(sizeof(bool) == 1, "masks are read and written as bytes");

// Base of kernels that draw a mask.
class MaskKernel : public NamedKernel {
 public:
  explicit MaskKernel(OpKernelConstruction* context) : NamedKernel(context) {
    tensorflow::DataType numbers;
    OP_REQUIRES_OK(context, context->GetAttr("dtype", &numbers));
    OP_REQUIRES_OK(context, context->GetAttr("rate", &rate_));
    OP_REQUIRES_OK(context, context->GetAttr("shape", &shape_));
    bits_ = numbers == tensorflow::DT_HALF ? kHalfBits : kFloatBits;
  }

 protected:
  void Draw(OpKernelContext* context, uint64_t key, const uint64_t counter[2], Tensor* kept) const {
    DrawKept(key, counter, bits_, rate_, static_cast<uint8_t*>(kept->data()), kept->NumElements(), ActiveKernels(),
             ParallelOf(context));
  }

  TensorShape shape_;

 private:
  int bits_ = 0;
  float rate_ = 0.0f;
};

class DropoutMask : public MaskKernel {
 public:
  using MaskKernel::MaskKernel;

  void Compute(OpKernelContext* context) override {
    const Tensor& key = context->input(0);
    const Tensor& counter = context->input(1);
    OP_REQUIRES(context, key.shape() == TensorShape({1}) && counter.shape() == TensorShape({2}),
                Error(absl::StrCat("the generator takes a key of one word and a counter of two. Received: ",
                                   key.shape().DebugString(), " and ", counter.shape().DebugString())));
    Tensor* kept = nullptr;
    OP_REQUIRES_OK(context, context->allocate_output(0, shape_, &kept));
    const auto words = counter.flat<uint64_t>();
    const uint64_t start[2] = {words(0), words(1)};
    Draw(context, key.flat<uint64_t>()(0), start, kept);
  }
};

class StatefulDropoutMask : public MaskKernel {
 public:
  explicit StatefulDropoutMask(OpKernelConstruction* context) : MaskKernel(context) {
    OP_REQUIRES_OK(context, generator_.Init(context));
  }

  void Compute(OpKernelContext* context) override {
    Tensor* kept = nullptr;
    OP_REQUIRES_OK(context, context->allocate_output(0, shape_, &kept));
    const tensorflow::random::PhiloxRandom from =
        generator_.ReserveRandomOutputs(kept->NumElements(), kReservedByRandomUniform);
    const uint64_t start[2] = {Word(&from.counter()[0]), Word(&from.counter()[2])};
    Draw(context, Word(&from.key()[0]), start, kept);
  }

 private:
  // So many numbers RandomUniform sets aside for each that it returns; the next call goes on after them.
  static constexpr int kReservedByRandomUniform = 256;

  static uint64_t Word(const uint32_t* halves) { return halves[0] | static_cast<uint64_t>(halves[1]) << 32; }

  tensorflow::GuardedPhiloxRandom generator_;
};

class MaskedScale : public NamedKernel {
 public:
  using NamedKernel::NamedKernel;

  void Compute(OpKernelContext* context) override {
    const Tensor& x = context->input(0);
    const Tensor& mask = context->input(1);
    const Tensor& scale = context->input(2);
    OP_REQUIRES(context, x.shape() == mask.shape() && scale.dims() == 0,
                Error(absl::StrCat(
                    "values and mask have one shape, and the scale is a scalar. Received: ", x.shape().DebugString(),
                    ", ", mask.shape().DebugString(), " and ", scale.shape().DebugString())));
    Tensor* y = nullptr;
    OP_REQUIRES_OK(context, context->allocate_output(0, x.shape(), &y));
    const auto* kept = static_cast<const uint8_t*>(mask.data());
    if (x.dtype() == tensorflow::DT_HALF) {
      ScaleKept(HalfData(x), kept, static_cast<float>(scale.scalar<Eigen::half>()()), static_cast<uint16_t*>(y->data()),
                x.NumElements(), ActiveKernels(), ParallelOf(context));
    } else {
      ScaleKept(x.flat<float>().data(), kept, scale.scalar<float>()(), y->flat<float>().data(), x.NumElements(),
                ActiveKernels(), ParallelOf(context));
    }
  }
};

REGISTER_OP("IpuDropoutMask")
    .Input("key: uint64")
    .Input("counter: uint64")
    .Output("kept: bool")
    .Attr("dtype: {float, half} = DT_FLOAT")
    .Attr("rate: float")
    .Attr("shape: shape")
    .SetShapeFn(tensorflow::shape_inference::ExplicitShape)
    .Doc("StatelessRandomUniformV2 of Philox in [0, 1), of `dtype`, then GreaterEqual than `rate`.");

REGISTER_OP("IpuStatefulDropoutMask")
    .Output("kept: bool")
    .Attr("dtype: {float, half} = DT_FLOAT")
    .Attr("rate: float")
    .Attr("shape: shape")
    .Attr("seed: int = 0")
    .Attr("seed2: int = 0")
    .SetIsStateful()
    .SetShapeFn(tensorflow::shape_inference::ExplicitShape)
    .Doc("RandomUniform of `dtype`, then GreaterEqual than `rate`; each op has a generator, as RandomUniform has.");

REGISTER_OP("IpuMaskedScale")
    .Input("x: T")
    .Input("mask: bool")
    .Input("scale: T")
    .Output("y: T")
    .Attr("T: {float, half}")
    .SetShapeFn(tensorflow::shape_inference::UnchangedShape)
    .Doc("SelectV2 of x * scale where `mask` is true, and of 0.");

REGISTER_KERNEL_BUILDER(Name("IpuDropoutMask").Device(DEVICE_CPU), DropoutMask);
REGISTER_KERNEL_BUILDER(Name("IpuStatefulDropoutMask").Device(DEVICE_CPU), StatefulDropoutMask);
REGISTER_KERNEL_BUILDER(Name("IpuMaskedScale").Device(DEVICE_CPU), MaskedScale);

}  // namespace
}  // namespace ipu_tf
