// IpuMaxPoolGrad: MaxPoolGrad, and perhaps the gradient of the ReLU before the pooling.
#include "../core/elements/pool.h"

#include "absl/strings/str_cat.h"
#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/kernel_shape_util.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/util/padding.h"
#include "tile_kernel.h"

namespace ipu_tf {
namespace {

using tensorflow::DEVICE_CPU;
using tensorflow::OpKernelConstruction;
using tensorflow::OpKernelContext;
using tensorflow::Tensor;
using tensorflow::TensorShape;

class MaxPoolGrad : public NamedKernel {
 public:
  explicit MaxPoolGrad(OpKernelConstruction* context) : NamedKernel(context) {
    OP_REQUIRES_OK(context, context->GetAttr("ksize", &kernel_));
    OP_REQUIRES_OK(context, context->GetAttr("strides", &strides_));
    OP_REQUIRES_OK(context, context->GetAttr("padding", &padding_));
    OP_REQUIRES_OK(context, context->GetAttr("relu", &relu_));
    for (const auto& [what, steps] : {std::pair("ksize", &kernel_), std::pair("strides", &strides_)}) {
      const auto& s = *steps;
      OP_REQUIRES(context, s.size() == 4 && s[0] == 1 && s[3] == 1 && s[1] > 0 && s[2] > 0,
                  Error(absl::StrCat(what, " must be [1, rows, columns, 1], each at least 1")));
    }
  }

  void Compute(OpKernelContext* context) override {
    const Tensor& x = context->input(0);
    const Tensor& y = context->input(1);
    const Tensor& dy = context->input(2);
    OP_REQUIRES(context, x.dims() == 4, Error("images have four dimensions. Received: " + x.shape().DebugString()));
    PoolShape shape;
    OP_REQUIRES_OK(context, MakeShape(x.shape(), &shape));
    const TensorShape pooled({shape.batch, shape.out_rows, shape.out_columns, shape.channels});
    OP_REQUIRES(context, y.shape() == pooled && dy.shape() == pooled,
                Error(absl::StrCat("the pooled images and their gradient have the shape ", pooled.DebugString(),
                                   ". Received: ", y.shape().DebugString(), " and ", dy.shape().DebugString())));
    Tensor* dx = nullptr;
    OP_REQUIRES_OK(context, context->allocate_output(0, x.shape(), &dx));
    if (x.dtype() == tensorflow::DT_HALF) {
      OP_REQUIRES(context, !WindowsOverlap(shape), Error("windows of float16 that overlap would have to be rounded"));
      MaxPoolGradient(shape, relu_, HalfData(x), HalfData(y), HalfData(dy), static_cast<uint16_t*>(dx->data()),
                      ActiveKernels(), ParallelOf(context));
    } else {
      MaxPoolGradient(shape, relu_, x.flat<float>().data(), y.flat<float>().data(), dy.flat<float>().data(),
                      dx->flat<float>().data(), ActiveKernels(), ParallelOf(context));
    }
  }

 private:
  absl::Status MakeShape(const TensorShape& x, PoolShape* shape) const {
    shape->batch = x.dim_size(0);
    shape->in_rows = x.dim_size(1);
    shape->in_columns = x.dim_size(2);
    shape->channels = x.dim_size(3);
    shape->kernel_rows = kernel_[1];
    shape->kernel_columns = kernel_[2];
    shape->stride_rows = strides_[1];
    shape->stride_columns = strides_[2];
    TF_RETURN_IF_ERROR(tensorflow::GetWindowedOutputSize(shape->in_rows, shape->kernel_rows, 1, shape->stride_rows,
                                                         padding_, &shape->out_rows, &shape->pad_top));
    return tensorflow::GetWindowedOutputSize(shape->in_columns, shape->kernel_columns, 1, shape->stride_columns,
                                             padding_, &shape->out_columns, &shape->pad_left);
  }

  std::vector<int32_t> kernel_, strides_;
  tensorflow::Padding padding_;
  bool relu_ = false;
};

REGISTER_OP("IpuMaxPoolGrad")
    .Input("orig_input: T")
    .Input("orig_output: T")
    .Input("grad: T")
    .Output("output: T")
    .Attr("ksize: list(int) >= 4")
    .Attr("strides: list(int) >= 4")
    .Attr("padding: {'SAME', 'VALID'}")
    .Attr("explicit_paddings: list(int) = []")
    .Attr("data_format: {'NHWC'} = 'NHWC'")
    .Attr("T: {float, half}")
    .Attr("relu: bool = false")
    .SetShapeFn(tensorflow::shape_inference::UnchangedShape)
    .Doc("MaxPoolGrad; with `relu`, then ReluGrad with orig_input as its features.");

REGISTER_KERNEL_BUILDER(Name("IpuMaxPoolGrad").Device(DEVICE_CPU), MaxPoolGrad);

}  // namespace
}  // namespace ipu_tf
