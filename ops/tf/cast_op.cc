// IpuCast: float32 to float16, rounded as the IPU rounds.
#include <cstring>

#include "../core/elements/random.h"
#include "../core/elements/rounding.h"
#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/op.h"
#include "tile_kernel.h"

namespace ipu_tf {
namespace {

using tensorflow::DEVICE_CPU;
using tensorflow::OpKernelConstruction;
using tensorflow::OpKernelContext;
using tensorflow::Tensor;

class IpuCast : public tensorflow::OpKernel {
 public:
  explicit IpuCast(OpKernelConstruction* context) : OpKernel(context) {
    bool truncate;
    std::string rounding;
    int64_t stream;
    OP_REQUIRES_OK(context, context->GetAttr("Truncate", &truncate));
    OP_REQUIRES_OK(context, context->GetAttr("rounding", &rounding));
    OP_REQUIRES_OK(context, context->GetAttr("nanoo", &nanoo_));
    OP_REQUIRES_OK(context, context->GetAttr("stream", &stream));
    OP_REQUIRES(context, !truncate,
                absl::InvalidArgumentError("IpuCast '" + std::string(name()) + "': the IPU does not truncate"));
    stochastic_ = rounding == "stochastic";
    stream_ = static_cast<uint64_t>(stream);
  }

  void Compute(OpKernelContext* context) override {
    const Tensor& x = context->input(0);
    Tensor* y = nullptr;
    OP_REQUIRES_OK(context, context->allocate_output(0, x.shape(), &y));
    const Kernels& kernels = ActiveKernels();
    const Parallel parallel = ParallelOf(context);
    Result result(y);
    // The generator is that of tile 0, over the whole tensor in order.
    std::memcpy(result.data(), x.data(), x.NumElements() * sizeof(float));
    if (stochastic_) {
      Random16 random(NextKey(stream_), 0);
      RoundStochastic(result.data(), x.NumElements(), nanoo_, &random);
    }
    result.Round(nanoo_, kernels, parallel);
  }

 private:
  bool nanoo_ = false, stochastic_ = false;
  uint64_t stream_ = 0;
};

REGISTER_OP("IpuCast")
    .Input("x: SrcT")
    .Output("y: DstT")
    .Attr("SrcT: {float}")
    .Attr("DstT: {half}")
    .Attr("Truncate: bool = false")
    .IPU_TF_TILE_ATTRS.SetShapeFn(tensorflow::shape_inference::UnchangedShape)
    .Doc("Cast of float32 to float16, saturating (or NaN on overflow), to nearest or stochastically.");

REGISTER_KERNEL_BUILDER(Name("IpuCast").Device(DEVICE_CPU), IpuCast);

}  // namespace
}  // namespace ipu_tf
