// The joined ops of layer normalization: IpuLayerNorm, IpuLayerNormGrad.
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

// Base of both: the last `axes` dimensions of x are those of a row.
class RowsKernel : public NamedKernel {
 public:
  explicit RowsKernel(OpKernelConstruction* context) : NamedKernel(context) {
    OP_REQUIRES_OK(context, context->GetAttr("axes", &axes_));
  }

 protected:
  // Returns an error, or "" with the extents of `x` and the shape of what has one value a row.
  std::string ReadShape(const Tensor& x, int64_t* rows, int64_t* columns, TensorShape* moments) const {
    if (x.dims() < axes_ || x.NumElements() == 0) {
      return absl::StrCat("x must have elements and at least ", axes_, " dimensions. Received the shape ",
                          x.shape().DebugString());
    }
    *columns = 1;
    *moments = x.shape();
    for (int i = x.dims() - axes_; i < x.dims(); ++i) {
      *columns *= x.dim_size(i);
      moments->set_dim(i, 1);
    }
    *rows = x.NumElements() / *columns;
    return "";
  }

  // Returns an error unless input `index` has `count` values.
  static std::string CheckCount(OpKernelContext* context, int index, int64_t count, const char* what) {
    const Tensor& input = context->input(index);
    if (input.NumElements() == count) return "";
    return absl::StrCat("input ", index, " must have one value for each of ", count, " ", what, ". Received the shape ",
                        input.shape().DebugString());
  }

  static const float* Read(OpKernelContext* context, int index) { return context->input(index).flat<float>().data(); }

  // Allocates an output; returns nullptr after an error.
  static float* Allocate(OpKernelContext* context, int index, const TensorShape& shape) {
    Tensor* tensor = nullptr;
    const absl::Status status = context->allocate_output(index, shape, &tensor);
    if (!status.ok()) {
      context->SetStatus(status);
      return nullptr;
    }
    return tensor->flat<float>().data();
  }

 private:
  int axes_ = 1;
};

class LayerNormKernel : public RowsKernel {
 public:
  using RowsKernel::RowsKernel;

  void Compute(OpKernelContext* context) override {
    LayerNormRows rows{};
    TensorShape moments;
    IPU_TF_CHECK(context, ReadShape(context->input(0), &rows.rows, &rows.columns, &moments));
    for (int i = 1; i < 3; ++i) IPU_TF_CHECK(context, CheckCount(context, i, rows.columns, "columns"));
    OP_REQUIRES(context, context->input(3).dims() == 0,
                Error("epsilon is a scalar. Received the shape " + context->input(3).shape().DebugString()));
    rows.x = Read(context, 0);
    rows.gamma = Read(context, 1);
    rows.beta = Read(context, 2);
    rows.epsilon = *Read(context, 3);
    rows.y = Allocate(context, 0, context->input(0).shape());
    rows.mean = Allocate(context, 1, moments);
    rows.inverse = Allocate(context, 2, moments);
    if (!context->status().ok()) return;
    LayerNorm(rows, ActiveKernels(), ParallelOf(context));
  }
};

class LayerNormGradientKernel : public RowsKernel {
 public:
  using RowsKernel::RowsKernel;

  void Compute(OpKernelContext* context) override {
    constexpr int kFirstAdded = 5;
    LayerNormGradientRows rows{};
    TensorShape moments;
    const Tensor& x = context->input(0);
    IPU_TF_CHECK(context, ReadShape(x, &rows.rows, &rows.columns, &moments));
    IPU_TF_CHECK(context, CheckCount(context, 2, rows.columns, "columns"));
    for (int i = 3; i < kFirstAdded; ++i) IPU_TF_CHECK(context, CheckCount(context, i, rows.rows, "rows"));
    std::vector<const float*> added;
    for (int i = 1; i < context->num_inputs(); ++i) {
      if (i > 1 && i < kFirstAdded) continue;
      IPU_TF_CHECK(context, CheckCount(context, i, x.NumElements(), "elements of x"));
      if (i >= kFirstAdded) added.push_back(Read(context, i));
    }
    rows.x = Read(context, 0);
    rows.dy = Read(context, 1);
    rows.gamma = Read(context, 2);
    rows.mean = Read(context, 3);
    rows.inverse = Read(context, 4);
    rows.added = added.data();
    rows.added_count = static_cast<int64_t>(added.size());
    rows.dx = Allocate(context, 0, x.shape());
    rows.dgamma = Allocate(context, 1, context->input(2).shape());
    rows.dbeta = Allocate(context, 2, context->input(2).shape());
    if (!context->status().ok()) return;
    LayerNormGradient(rows, ActiveKernels(), ParallelOf(context));
  }
};

absl::Status LayerNormShape(tensorflow::shape_inference::InferenceContext* c) {
  const auto x = c->input(0);
  int axes = 1;
  TF_RETURN_IF_ERROR(c->GetAttr("axes", &axes));
  c->set_output(0, x);
  auto moments = c->UnknownShape();
  if (c->RankKnown(x)) {
    moments = x;
    for (int i = -axes; i < 0; ++i) TF_RETURN_IF_ERROR(c->ReplaceDim(moments, i, c->MakeDim(1), &moments));
  }
  c->set_output(1, moments);
  c->set_output(2, moments);
  return absl::OkStatus();
}

absl::Status LayerNormGradShape(tensorflow::shape_inference::InferenceContext* c) {
  c->set_output(0, c->input(0));
  c->set_output(1, c->input(2));
  c->set_output(2, c->input(2));
  return absl::OkStatus();
}

REGISTER_OP("IpuLayerNorm")
    .Input("x: T")
    .Input("gamma: T")
    .Input("beta: T")
    .Input("epsilon: T")
    .Output("y: T")
    .Output("mean: T")
    .Output("inverse: T")
    .Attr("T: {float}")
    .Attr("axes: int >= 1")
    .Attr("stops: bool = true")
    .SetShapeFn(LayerNormShape)
    .Doc(
        "Mean of x over its last `axes` dimensions, Rsqrt of AddV2 of its variance there and epsilon, and with these "
        "(x - mean) * inverse * gamma + beta. With `stops`, the gradient of the gradient takes the mean in deviations "
        "for "
        "a constant, as that of tf.nn.moments does.");

REGISTER_OP("IpuLayerNormGrad")
    .Input("x: T")
    .Input("dy: T")
    .Input("gamma: T")
    .Input("mean: T")
    .Input("inverse: T")
    .Input("added: N * T")
    .Output("dx: T")
    .Output("dgamma: T")
    .Output("dbeta: T")
    .Attr("T: {float}")
    .Attr("N: int >= 0")
    .Attr("axes: int >= 1")
    .Attr("stops: bool = true")
    .Attr("rank: int")
    .SetShapeFn(LayerNormGradShape)
    .Doc("Gradients of IpuLayerNorm's y for x of `rank` dimensions; `added` are tensors that are added to dx.");

REGISTER_KERNEL_BUILDER(Name("IpuLayerNorm").Device(DEVICE_CPU), LayerNormKernel);
REGISTER_KERNEL_BUILDER(Name("IpuLayerNormGrad").Device(DEVICE_CPU), LayerNormGradientKernel);

}  // namespace
}  // namespace ipu_tf
