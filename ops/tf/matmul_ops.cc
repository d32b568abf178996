// IpuMatMul and IpuBatchMatMul.
#include "../core/epilogue.h"
#include "../core/matmul.h"

#include "absl/strings/str_cat.h"
#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/util/matmul_bcast.h"
#include "tile_kernel.h"

namespace ipu_tf {
namespace {

using tensorflow::DEVICE_CPU;
using tensorflow::OpKernelConstruction;
using tensorflow::OpKernelContext;
using tensorflow::Tensor;
using tensorflow::TensorShape;

// Sets the extents and strides of one batch element of row-major operands.
void SetMatrices(const TensorShape& a, bool transpose_a, const TensorShape& b, bool transpose_b, MatMulShape* shape) {
  const int64_t a_rows = a.dim_size(a.dims() - 2), a_columns = a.dim_size(a.dims() - 1);
  const int64_t b_rows = b.dim_size(b.dims() - 2), b_columns = b.dim_size(b.dims() - 1);
  shape->rows = transpose_a ? a_columns : a_rows;
  shape->depth = transpose_a ? a_rows : a_columns;
  shape->columns = transpose_b ? b_rows : b_columns;
  shape->a_row_stride = transpose_a ? 1 : a_columns;
  shape->a_k_stride = transpose_a ? a_columns : 1;
  shape->b_k_stride = transpose_b ? 1 : b_columns;
  shape->b_n_stride = transpose_b ? b_columns : 1;
  shape->c_row_stride = shape->columns;
}

class MatMulKernel : public TileKernel {
 public:
  MatMulKernel(OpKernelConstruction* context, const char* transpose_a, const char* transpose_b) : TileKernel(context) {
    OP_REQUIRES_OK(context, context->GetAttr(transpose_a, &transpose_a_));
    OP_REQUIRES_OK(context, context->GetAttr(transpose_b, &transpose_b_));
    const std::string error = ParsePlan(plan_, numerics_.type, &matmul_plan_);
    OP_REQUIRES(context, error.empty(), Error(error));
  }

  void Compute(OpKernelContext* context) override {
    const Tensor& a = context->input(0);
    const Tensor& b = context->input(1);
    OP_REQUIRES(context, a.dims() >= 2 && b.dims() >= 2,
                Error(absl::StrCat("operands have at least two dimensions. Received: ", a.shape().DebugString(),
                                   " and ", b.shape().DebugString())));
    MatMulShape shape;
    SetMatrices(a.shape(), transpose_a_, b.shape(), transpose_b_, &shape);
    const tensorflow::MatMulBCast batches(a.shape().dim_sizes(), b.shape().dim_sizes());
    const int64_t depth_b = b.dim_size(b.dims() - (transpose_b_ ? 1 : 2));
    OP_REQUIRES(
        context, batches.IsValid() && shape.depth == depth_b,
        Error(absl::StrCat("operands do not match: ", a.shape().DebugString(), transpose_a_ ? " (transposed)" : "",
                           " times ", b.shape().DebugString(), transpose_b_ ? " (transposed)" : "")));
    OP_REQUIRES(context, a.NumElements() > 0 && b.NumElements() > 0,
                Error(absl::StrCat("operands may not have a dimension of 0. Received: ", a.shape().DebugString(),
                                   " and ", b.shape().DebugString())));
    PlaceBatches(batches, a, &shape);
    IPU_TF_CHECK(context, CheckPlan(matmul_plan_, shape));
    TensorShape output_shape = batches.output_batch_shape();
    OP_REQUIRES_OK(context, output_shape.AddDimWithStatus(shape.rows));
    OP_REQUIRES_OK(context, output_shape.AddDimWithStatus(shape.columns));
    Epilogue epilogue;
    if (context->num_inputs() == 3) {
      IPU_TF_CHECK(context, ReadBias(context->input(2), shape.columns, &epilogue.bias));
      epilogue.relu = relu_;
    }
    Tensor* output = nullptr;
    OP_REQUIRES_OK(context, context->allocate_output(0, output_shape, &output));

    const Kernels& kernels = ActiveKernels();
    const Parallel parallel = ParallelOf(context);
    const Operand a_values(a, kernels, parallel), b_values(b, kernels, parallel);
    Result c(output);
    MatMul(shape, matmul_plan_, CallNumerics(), a_values.data(), b_values.data(), c.data(), kernels, parallel);
    ApplyEpilogue(epilogue, c.data(), output->NumElements() / shape.columns, shape.columns, kernels, parallel);
    c.Round(numerics_.nanoo, kernels, parallel);
  }

 protected:
  bool relu_ = false;

 private:
  static void PlaceBatches(const tensorflow::MatMulBCast& batches, const Tensor& a, MatMulShape* shape) {
    const int64_t a_floats = shape->rows * shape->depth, b_floats = shape->columns * shape->depth;
    const bool broadcast = batches.IsBroadcastingRequired();
    const int64_t count = broadcast ? batches.output_batch_size() : a.NumElements() / a_floats;
    for (int64_t g = 0; g < count; ++g) {
      shape->a_at.push_back((broadcast ? batches.x_batch_indices()[g] : g) * a_floats);
      shape->b_at.push_back((broadcast ? batches.y_batch_indices()[g] : g) * b_floats);
      shape->c_at.push_back(g * shape->rows * shape->columns);
    }
  }

  bool transpose_a_, transpose_b_;
  MatMulPlan matmul_plan_;
};

class IpuMatMul : public MatMulKernel {
 public:
  explicit IpuMatMul(OpKernelConstruction* context) : MatMulKernel(context, "transpose_a", "transpose_b") {}

  void Compute(OpKernelContext* context) override {
    const TensorShape& a = context->input(0).shape();
    const TensorShape& b = context->input(1).shape();
    OP_REQUIRES(context, a.dims() == 2 && b.dims() == 2,
                Error(absl::StrCat("operands are matrices. Received: ", a.DebugString(), " and ", b.DebugString())));
    MatMulKernel::Compute(context);
  }
};

// With a third input, the bias, and a ReLU if the attribute says so.
class IpuMatMulBias : public IpuMatMul {
 public:
  explicit IpuMatMulBias(OpKernelConstruction* context) : IpuMatMul(context) {
    OP_REQUIRES_OK(context, context->GetAttr("relu", &relu_));
  }
};

class IpuBatchMatMul : public MatMulKernel {
 public:
  explicit IpuBatchMatMul(OpKernelConstruction* context) : MatMulKernel(context, "adj_x", "adj_y") {}
};

REGISTER_OP("IpuMatMul")
    .Input("a: T")
    .Input("b: T")
    .Output("product: T")
    .Attr("transpose_a: bool = false")
    .Attr("transpose_b: bool = false")
    .Attr("T: {half, float}")
    .Attr("grad_a: bool = false")
    .Attr("grad_b: bool = false")
    .IPU_TF_TILE_ATTRS.SetShapeFn(tensorflow::shape_inference::MatMulShape)
    .Doc("MatMul computed tile by tile as `plan` says: [batch, rows, columns, reduction, grain].");

REGISTER_OP("IpuMatMulBias")
    .Input("a: T")
    .Input("b: T")
    .Input("bias: T")
    .Output("product: T")
    .Attr("transpose_a: bool = false")
    .Attr("transpose_b: bool = false")
    .Attr("T: {float}")
    .Attr("grad_a: bool = false")
    .Attr("grad_b: bool = false")
    .Attr("relu: bool = false")
    .IPU_TF_TILE_ATTRS.SetShapeFn(tensorflow::shape_inference::MatMulShape)
    .Doc("IpuMatMul, then a bias and perhaps a ReLU. Only float32: a float16 sum is rounded before the bias.");

REGISTER_OP("IpuBatchMatMul")
    .Input("x: T")
    .Input("y: T")
    .Output("output: T")
    .Attr("T: {half, float}")
    .Attr("adj_x: bool = false")
    .Attr("adj_y: bool = false")
    .Attr("grad_x: bool = false")
    .Attr("grad_y: bool = false")
    .IPU_TF_TILE_ATTRS.SetShapeFn(tensorflow::shape_inference::BatchMatMulV2Shape)
    .Doc("BatchMatMulV2 computed tile by tile as `plan` says: [batch, rows, columns, reduction, grain].");

REGISTER_OP("IpuBatchMatMulV3")
    .Input("x: Ta")
    .Input("y: Tb")
    .Output("output: Tout")
    .Attr("Ta: {half, float}")
    .Attr("Tb: {half, float}")
    .Attr("Tout: {half, float}")
    .Attr("adj_x: bool = false")
    .Attr("adj_y: bool = false")
    .Attr("grad_x: bool = false")
    .Attr("grad_y: bool = false")
    .IPU_TF_TILE_ATTRS.SetShapeFn(tensorflow::shape_inference::BatchMatMulV2Shape)
    .Doc("BatchMatMulV3 of one type, computed tile by tile as `plan` says: [batch, rows, columns, reduction, grain].");

IPU_TF_REGISTER_TILE_KERNEL("IpuMatMul", IpuMatMul);
IPU_TF_REGISTER_TILE_KERNEL("IpuBatchMatMul", IpuBatchMatMul);
#define IPU_TF_REGISTER_V3(type)                             \
  REGISTER_KERNEL_BUILDER(Name("IpuBatchMatMulV3")           \
                              .Device(DEVICE_CPU)            \
                              .TypeConstraint<type>("Ta")    \
                              .TypeConstraint<type>("Tb")    \
                              .TypeConstraint<type>("Tout"), \
                          IpuBatchMatMul)
IPU_TF_REGISTER_V3(float);
IPU_TF_REGISTER_V3(Eigen::half);
#undef IPU_TF_REGISTER_V3
REGISTER_KERNEL_BUILDER(Name("IpuMatMulBias").Device(DEVICE_CPU).TypeConstraint<float>("T"), IpuMatMulBias);

}  // namespace
}  // namespace ipu_tf
