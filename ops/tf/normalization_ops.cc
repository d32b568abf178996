// The joined ops of batch normalization: IpuMoments, IpuScaleShift, IpuScaleShiftAdd, IpuColumnDots, IpuNormGradient.
#include "../core/elements/normalization.h"

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

// Base of kernels over rows of channels, the last dimension.
class ChannelKernel : public NamedKernel {
 public:
  using NamedKernel::NamedKernel;

 protected:
  // Returns an error, or "" with the rows and channels of `x`, and the data of the inputs from `first` on, which have
  // one value a channel.
  std::string ReadVectors(OpKernelContext* context, int first, ChannelRows* shape,
                          std::vector<const float*>* vectors) const {
    const TensorShape& x = context->input(0).shape();
    if (x.dims() < 2 || x.num_elements() == 0) {
      return "x must have rows and channels. Received the shape " + x.DebugString();
    }
    shape->channels = x.dim_size(x.dims() - 1);
    shape->rows = x.num_elements() / shape->channels;
    for (int i = 1; i < first; ++i) {
      if (context->input(i).shape() != x) {
        return absl::StrCat("input ", i, " must have the shape of x, ", x.DebugString(),
                            ". Received: ", context->input(i).shape().DebugString());
      }
    }
    for (int i = first; i < context->num_inputs(); ++i) {
      const Tensor& vector = context->input(i);
      if (vector.NumElements() != shape->channels) {
        return absl::StrCat("input ", i, " must have one value for each of ", shape->channels,
                            " channels. Received the shape ", vector.shape().DebugString());
      }
      vectors->push_back(vector.flat<float>().data());
    }
    return "";
  }

  // Allocates two outputs with one value a channel; returns false after an error.
  static bool AllocateVectors(OpKernelContext* context, bool keep_dims, float* data[2]) {
    const TensorShape& x = context->input(0).shape();
    TensorShape shape;
    for (int i = 1; keep_dims && i < x.dims(); ++i) shape.AddDim(1);
    shape.AddDim(x.dim_size(x.dims() - 1));
    for (int i = 0; i < 2; ++i) {
      Tensor* vector = nullptr;
      const absl::Status status = context->allocate_output(i, shape, &vector);
      if (!status.ok()) {
        context->SetStatus(status);
        return false;
      }
      data[i] = vector->flat<float>().data();
    }
    return true;
  }
};

// Base of those that reduce the rows.
class RowSumsKernel : public ChannelKernel {
 public:
  explicit RowSumsKernel(OpKernelConstruction* context) : ChannelKernel(context) {
    OP_REQUIRES_OK(context, context->GetAttr("keep_dims", &keep_dims_));
  }

 protected:
  bool keep_dims_ = false;
};

class Moments : public RowSumsKernel {
 public:
  using RowSumsKernel::RowSumsKernel;

  void Compute(OpKernelContext* context) override {
    ChannelRows shape;
    std::vector<const float*> none;
    float* moments[2];
    IPU_TF_CHECK(context, ReadVectors(context, 1, &shape, &none));
    if (!AllocateVectors(context, keep_dims_, moments)) return;
    ChannelMoments(shape, context->input(0).flat<float>().data(), moments[0], moments[1], ActiveKernels(),
                   ParallelOf(context));
  }
};

class ColumnDots : public RowSumsKernel {
 public:
  using RowSumsKernel::RowSumsKernel;

  void Compute(OpKernelContext* context) override {
    ChannelRows shape;
    std::vector<const float*> none;
    float* sums[2];
    IPU_TF_CHECK(context, ReadVectors(context, 2, &shape, &none));
    if (!AllocateVectors(context, keep_dims_, sums)) return;
    ChannelDots(shape, context->input(0).flat<float>().data(), context->input(1).flat<float>().data(), sums[0], sums[1],
                ActiveKernels(), ParallelOf(context));
  }
};

// Of x, perhaps an addend, scale and shift.
class ScaleShiftKernel : public ChannelKernel {
 public:
  explicit ScaleShiftKernel(OpKernelConstruction* context) : ChannelKernel(context) {
    bool relu = false, relu6 = false;
    OP_REQUIRES_OK(context, context->GetAttr("relu", &relu));
    OP_REQUIRES_OK(context, context->GetAttr("relu6", &relu6));
    activation_ = relu6 ? Activation::kRelu6 : relu ? Activation::kRelu : Activation::kNone;
  }

  void Compute(OpKernelContext* context) override {
    ChannelRows shape;
    std::vector<const float*> vectors;
    Tensor* y = nullptr;
    const int tensors = context->num_inputs() - 2;
    IPU_TF_CHECK(context, ReadVectors(context, tensors, &shape, &vectors));
    const float* addend = tensors == 2 ? context->input(1).flat<float>().data() : nullptr;
    OP_REQUIRES_OK(context, context->allocate_output(0, context->input(0).shape(), &y));
    ScaleShift(shape, context->input(0).flat<float>().data(), vectors[0], vectors[1], addend, activation_,
               y->flat<float>().data(), ActiveKernels(), ParallelOf(context));
  }

 private:
  Activation activation_ = Activation::kNone;
};

class NormGradientKernel : public ChannelKernel {
 public:
  using ChannelKernel::ChannelKernel;

  void Compute(OpKernelContext* context) override {
    ChannelRows shape;
    std::vector<const float*> vectors;
    Tensor* dx = nullptr;
    IPU_TF_CHECK(context, ReadVectors(context, 2, &shape, &vectors));
    OP_REQUIRES_OK(context, context->allocate_output(0, context->input(0).shape(), &dx));
    NormGradient(shape, {vectors[0], vectors[1], vectors[2], vectors[3]}, context->input(1).flat<float>().data(),
                 context->input(0).flat<float>().data(), dx->flat<float>().data(), ActiveKernels(),
                 ParallelOf(context));
  }
};

absl::Status VectorsShape(tensorflow::shape_inference::InferenceContext* c) {
  tensorflow::shape_inference::ShapeHandle x;
  TF_RETURN_IF_ERROR(c->WithRankAtLeast(c->input(0), 2, &x));
  if (!c->RankKnown(x)) {
    c->set_output(0, c->UnknownShape());
    c->set_output(1, c->UnknownShape());
    return absl::OkStatus();
  }
  bool keep_dims = false;
  TF_RETURN_IF_ERROR(c->GetAttr("keep_dims", &keep_dims));
  std::vector<tensorflow::shape_inference::DimensionHandle> dims(keep_dims ? c->Rank(x) - 1 : 0, c->MakeDim(1));
  dims.push_back(c->Dim(x, -1));
  c->set_output(0, c->MakeShape(dims));
  c->set_output(1, c->MakeShape(dims));
  return absl::OkStatus();
}

REGISTER_OP("IpuMoments")
    .Input("x: T")
    .Output("mean: T")
    .Output("variance: T")
    .Attr("T: {float}")
    .Attr("rank: int")
    .Attr("keep_dims: bool = true")
    .SetShapeFn(VectorsShape)
    .Doc("Mean of x over all dimensions but the last of its `rank`, and of SquaredDifference of x and that.");

REGISTER_OP("IpuColumnDots")
    .Input("x: T")
    .Input("dy: T")
    .Output("sum: T")
    .Output("dot: T")
    .Attr("T: {float}")
    .Attr("rank: int")
    .Attr("keep_dims: bool = true")
    .SetShapeFn(VectorsShape)
    .Doc("Sum over all dimensions but the last of their `rank`: of dy, and of Mul of x and dy.");

REGISTER_OP("IpuScaleShift")
    .Input("x: T")
    .Input("scale: T")
    .Input("shift: T")
    .Output("y: T")
    .Attr("T: {float}")
    .Attr("relu: bool = false")
    .Attr("relu6: bool = false")
    .SetShapeFn(tensorflow::shape_inference::UnchangedShape)
    .Doc(
        "AddV2 of Mul of x and a scale, and a shift, one of each a channel; with `relu` or `relu6`, then Relu or "
        "Relu6.");

REGISTER_OP("IpuScaleShiftAdd")
    .Input("x: T")
    .Input("addend: T")
    .Input("scale: T")
    .Input("shift: T")
    .Output("y: T")
    .Attr("T: {float}")
    .Attr("relu: bool = false")
    .Attr("relu6: bool = false")
    .SetShapeFn(tensorflow::shape_inference::UnchangedShape)
    .Doc("AddV2 of IpuScaleShift and an addend of the shape of x; with `relu` or `relu6`, then Relu or Relu6.");

REGISTER_OP("IpuNormGradient")
    .Input("x: T")
    .Input("dy: T")
    .Input("scale: T")
    .Input("mean: T")
    .Input("of_variance: T")
    .Input("of_mean: T")
    .Output("dx: T")
    .Attr("T: {float}")
    .Attr("rows: int")
    .SetShapeFn(tensorflow::shape_inference::UnchangedShape)
    .Doc("AddN of dy * scale, 2 * (x - mean) * of_variance / rows and of_mean / rows; `rows` are those of x.");

REGISTER_KERNEL_BUILDER(Name("IpuMoments").Device(DEVICE_CPU), Moments);
REGISTER_KERNEL_BUILDER(Name("IpuColumnDots").Device(DEVICE_CPU), ColumnDots);
REGISTER_KERNEL_BUILDER(Name("IpuScaleShift").Device(DEVICE_CPU), ScaleShiftKernel);
REGISTER_KERNEL_BUILDER(Name("IpuScaleShiftAdd").Device(DEVICE_CPU), ScaleShiftKernel);
REGISTER_KERNEL_BUILDER(Name("IpuNormGradient").Device(DEVICE_CPU), NormGradientKernel);

}  // namespace
}  // namespace ipu_tf
