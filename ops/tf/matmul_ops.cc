// IpuMatMul and IpuBatchMatMul.
#include "../core/products/epilogue.h"
#include "../core/products/matmul.h"

#include <functional>
#include <mutex>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "direct_kernel.h"
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

using Dimensions = absl::Span<const int64_t>;

std::string Text(Dimensions dimensions) { return absl::StrCat("[", absl::StrJoin(dimensions, ","), "]"); }

// Sets the extents and strides of one batch element of row-major operands.
void SetMatrices(Dimensions a, bool transpose_a, Dimensions b, bool transpose_b, MatMulShape* shape) {
  const int64_t a_rows = a[a.size() - 2], a_columns = a.back();
  const int64_t b_rows = b[b.size() - 2], b_columns = b.back();
  shape->rows = transpose_a ? a_columns : a_rows;
  shape->depth = transpose_a ? a_rows : a_columns;
  shape->columns = transpose_b ? b_rows : b_columns;
  shape->a_row_stride = transpose_a ? 1 : a_columns;
  shape->a_k_stride = transpose_a ? a_columns : 1;
  shape->b_k_stride = transpose_b ? 1 : b_columns;
  shape->b_n_stride = transpose_b ? b_columns : 1;
  shape->c_row_stride = shape->columns;
}

int64_t Elements(Dimensions dimensions) {
  return std::accumulate(dimensions.begin(), dimensions.end(), int64_t{1}, std::multiplies<int64_t>());
}

class MatMulKernel : public TileKernel, public DirectKernel {
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
    MatMulShape shape;
    TensorShape output_shape;
    OP_REQUIRES_OK(context, SetShape(a.shape().dim_sizes(), b.shape().dim_sizes(), &shape, &output_shape));
    Epilogue epilogue;
    if (context->num_inputs() == 3) {
      Tensor bias = context->input(2);
      if (reshapes_) {
        OP_REQUIRES_OK(context, Reshape(&output_shape));
        OP_REQUIRES(context, bias.CopyFrom(context->input(2), TensorShape({bias.NumElements()})),
                    Error("the bias cannot be read as a vector."));
      }
      IPU_TF_CHECK(context, ReadBias(bias, shape.columns, &epilogue.bias));
      epilogue.relu = relu_;
    }
    Tensor* output = nullptr;
    OP_REQUIRES_OK(context, context->allocate_output(0, output_shape, &output));

    const Kernels& kernels = ActiveKernels();
    const Parallel parallel = ParallelOf(context);
    const Operand a_values(a, kernels, parallel), b_values(b, kernels, parallel);
    Result c(output);
    MatMul(shape, matmul_plan_, CallNumerics(), a_values.data(), b_values.data(), c.data(), kernels, parallel, {},
           epilogue);
    c.Round(numerics_.nanoo, kernels, parallel);
  }

  bool IsDirect() const override { return numerics_.type == ElementType::kFloat && num_inputs() == 2; }

  absl::Status Run(absl::Span<const View> operands, const View& result, const Parallel& parallel) override {
    std::call_once(direct_once_, [&] {  // The shapes of a program of XLA's do not change.
      TensorShape product;
      direct_status_ = SetShape(operands[0].dimensions, operands[1].dimensions, &direct_shape_, &product);
      for (size_t i = 2; direct_status_.ok() && i < operands.size(); ++i) {
        direct_status_ = CheckOther(static_cast<int>(i), operands[i].dimensions, product);
      }
    });
    if (!direct_status_.ok()) return direct_status_;
    auto* c = static_cast<float*>(result.data);
    WeightUpdate update;
    Epilogue epilogue;
    for (size_t i = 2; i < operands.size(); ++i) {
      ReadOther(static_cast<int>(i), static_cast<const float*>(operands[i].data), &update, &epilogue);
    }
    update.outputs = c;
    MatMul(direct_shape_, matmul_plan_, CallNumerics(), static_cast<const float*>(operands[0].data),
           static_cast<const float*>(operands[1].data), c, ActiveKernels(), parallel, update, epilogue);
    return absl::OkStatus();
  }

 protected:
  virtual absl::Status CheckRanks(Dimensions a, Dimensions b) const {
    if (a.size() >= 2 && b.size() >= 2) return absl::OkStatus();
    return Error(absl::StrCat("operands have at least two dimensions. Received: ", Text(a), " and ", Text(b)));
  }

  // An error if an input from the third on does not go with a product of this shape.
  virtual absl::Status CheckOther(int /*place*/, Dimensions /*dimensions*/, const TensorShape& /*product*/) const {
    return absl::OkStatus();
  }
  // Takes in an input from the third on.
  virtual void ReadOther(int /*place*/, const float* /*data*/, WeightUpdate* /*update*/, Epilogue* /*epilogue*/) const {
  }

  int64_t first_column_ = 0, columns_ = 0;  // Of the second operand, those that are multiplied; 0: all.
  bool relu_ = false;
  bool reshapes_ = false;  // The product with a bias has the shape `result_shape_`.
  TensorShape result_shape_;
  MatMulPlan matmul_plan_;

  absl::Status SetShape(Dimensions a, Dimensions b, MatMulShape* shape, TensorShape* output) const {
    if (absl::Status status = CheckRanks(a, b); !status.ok()) return status;
    SetMatrices(a, transpose_a_, b, transpose_b_, shape);
    const tensorflow::MatMulBCast batches({a.begin(), a.end()}, {b.begin(), b.end()});
    const int64_t depth_b = b[b.size() - (transpose_b_ ? 1 : 2)];
    if (!batches.IsValid() || shape->depth != depth_b) {
      return Error(absl::StrCat("operands do not match: ", Text(a), transpose_a_ ? " (transposed)" : "", " times ",
                                Text(b), transpose_b_ ? " (transposed)" : ""));
    }
    if (Elements(a) == 0 || Elements(b) == 0) {
      return Error(absl::StrCat("operands may not have a dimension of 0. Received: ", Text(a), " and ", Text(b)));
    }
    *output = batches.output_batch_shape();
    TF_RETURN_IF_ERROR(output->AddDimWithStatus(shape->rows));
    TF_RETURN_IF_ERROR(output->AddDimWithStatus(shape->columns));
    PlaceBatches(batches, a, b, shape);
    if (const std::string error = CheckPlan(matmul_plan_, *shape); !error.empty()) return Error(error);
    return columns_ == 0 ? absl::OkStatus() : TakeColumns(shape, output);
  }

 private:
  absl::Status TakeColumns(MatMulShape* shape, TensorShape* output) const {
    if (first_column_ < 0 || first_column_ + columns_ > shape->columns) {
      return Error(absl::StrCat("the second operand has ", shape->columns, " columns. Received: columns ",
                                first_column_, " to ", first_column_ + columns_));
    }
    for (int64_t& at : shape->b_at) at += first_column_ * shape->b_n_stride;
    shape->columns = shape->c_row_stride = columns_;
    output->set_dim(output->dims() - 1, columns_);
    return absl::OkStatus();
  }

  absl::Status Reshape(TensorShape* output) const {
    if (output->num_elements() != result_shape_.num_elements()) {
      return Error(absl::StrCat("a product of ", output->DebugString(), " does not have the elements of ",
                                result_shape_.DebugString()));
    }
    *output = result_shape_;
    return absl::OkStatus();
  }

  // The rows of all matrices of `a` are those of one product if all are multiplied by the one matrix of `b`.
  void PlaceBatches(const tensorflow::MatMulBCast& batches, Dimensions a, Dimensions b, MatMulShape* shape) const {
    const int64_t a_floats = shape->rows * shape->depth, b_floats = shape->columns * shape->depth;
    if (!transpose_a_ && Elements(b) == b_floats) {
      shape->rows = Elements(a) / shape->depth;
      shape->a_at = shape->b_at = shape->c_at = {0};
      return;
    }
    const bool broadcast = batches.IsBroadcastingRequired();
    const int64_t count = broadcast ? batches.output_batch_size() : Elements(a) / a_floats;
    for (int64_t g = 0; g < count; ++g) {
      shape->a_at.push_back((broadcast ? batches.x_batch_indices()[g] : g) * a_floats);
      shape->b_at.push_back((broadcast ? batches.y_batch_indices()[g] : g) * b_floats);
      shape->c_at.push_back(g * shape->rows * shape->columns);
    }
  }

  bool transpose_a_, transpose_b_;
  std::once_flag direct_once_;
  absl::Status direct_status_;
  MatMulShape direct_shape_;
};

class IpuMatMul : public MatMulKernel {
 public:
  explicit IpuMatMul(OpKernelConstruction* context) : MatMulKernel(context, "transpose_a", "transpose_b") {}

  absl::Status CheckRanks(Dimensions a, Dimensions b) const override {
    if (a.size() == 2 && b.size() == 2) return absl::OkStatus();
    return Error(absl::StrCat("operands are matrices. Received: ", Text(a), " and ", Text(b)));
  }
};

// With a third input, the bias, and a ReLU if the attribute says so.
class IpuMatMulBias : public IpuMatMul {
 public:
  explicit IpuMatMulBias(OpKernelConstruction* context) : IpuMatMul(context) {
    OP_REQUIRES_OK(context, context->GetAttr("relu", &relu_));
  }
};

// A product and what follows it, or some columns of one.
class IpuMatMulJoined : public IpuMatMul {
 public:
  using IpuMatMul::IpuMatMul;

  bool IsDirect() const override { return true; }

  void Compute(OpKernelContext* context) override {
    const Tensor &a = context->input(0), &b = context->input(1);
    MatMulShape shape;
    TensorShape product;
    OP_REQUIRES_OK(context, SetShape(a.shape().dim_sizes(), b.shape().dim_sizes(), &shape, &product));
    WeightUpdate update;
    Epilogue epilogue;
    for (int i = 2; i < context->num_inputs(); ++i) {
      OP_REQUIRES_OK(context, CheckOther(i, context->input(i).shape().dim_sizes(), product));
      ReadOther(i, context->input(i).flat<float>().data(), &update, &epilogue);
    }
    Tensor* output = nullptr;
    OP_REQUIRES_OK(context, context->allocate_output(0, product, &output));
    float* c = output->flat<float>().data();
    update.outputs = c;
    MatMul(shape, matmul_plan_, CallNumerics(), a.flat<float>().data(), b.flat<float>().data(), c, ActiveKernels(),
           ParallelOf(context), update, epilogue);
  }

 protected:
  absl::Status CheckLikeProduct(const char* name, Dimensions dimensions, const TensorShape& product) const {
    if (dimensions == Dimensions(product.dim_sizes())) return absl::OkStatus();
    return Error(absl::StrCat(name, " must have the shape of the product, ", product.DebugString(),
                              ". Received: ", Text(dimensions)));
  }
};

// The update of weights by their gradient, a product: it is never written.
class IpuMatMulUpdate : public IpuMatMulJoined {
 public:
  using IpuMatMulJoined::IpuMatMulJoined;

 protected:
  absl::Status CheckOther(int place, Dimensions dimensions, const TensorShape& product) const override {
    if (place == 2) return CheckLikeProduct("weights", dimensions, product);
    if (place > 3 || dimensions.empty()) return absl::OkStatus();
    return Error(absl::StrCat("the rate is a scalar. Received the shape ", Text(dimensions)));
  }

  void ReadOther(int place, const float* data, WeightUpdate* update, Epilogue* /*epilogue*/) const override {
    if (place == 2) update->weights = data;
    if (place == 3) update->rate = *data;
  }
};

// A product, or some columns of one, to which a tensor is added, or that is the gradient of a ReLU.
class IpuMatMulFused : public IpuMatMulJoined {
 public:
  explicit IpuMatMulFused(OpKernelConstruction* context) : IpuMatMulJoined(context) {
    OP_REQUIRES_OK(context, context->GetAttr("addends", &addends_));
    OP_REQUIRES_OK(context, context->GetAttr("first_column", &first_column_));
    OP_REQUIRES_OK(context, context->GetAttr("columns", &columns_));
  }

 protected:
  absl::Status CheckOther(int place, Dimensions dimensions, const TensorShape& product) const override {
    return CheckLikeProduct(IsAddend(place) ? "addend" : "features", dimensions, product);
  }

  void ReadOther(int place, const float* data, WeightUpdate* /*update*/, Epilogue* epilogue) const override {
    (IsAddend(place) ? epilogue->addend : epilogue->relu_output) = data;
  }

 private:
  bool IsAddend(int place) const { return place < 2 + addends_; }

  int64_t addends_ = 0;
};

class IpuBatchMatMul : public MatMulKernel {
 public:
  explicit IpuBatchMatMul(OpKernelConstruction* context) : MatMulKernel(context, "adj_x", "adj_y") {}
};

// IpuBatchMatMul by one matrix, with a bias: rows of the result are those of the product, in another shape.
class IpuReshapedMatMulBias : public MatMulKernel {
 public:
  explicit IpuReshapedMatMulBias(OpKernelConstruction* context) : MatMulKernel(context, "adj_x", "adj_y") {
    OP_REQUIRES_OK(context, context->GetAttr("relu", &relu_));
    OP_REQUIRES_OK(context, context->GetAttr("shape", &result_shape_));
    reshapes_ = true;
  }
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

REGISTER_OP("IpuReshapedMatMulBias")
    .Input("x: T")
    .Input("y: T")
    .Input("bias: T")
    .Output("output: T")
    .Attr("adj_x: bool = false")
    .Attr("adj_y: bool = false")
    .Attr("T: {float}")
    .Attr("grad_x: bool = false")
    .Attr("grad_y: bool = false")
    .Attr("relu: bool = false")
    .Attr("shape: shape")
    .IPU_TF_TILE_ATTRS.SetShapeFn(tensorflow::shape_inference::ExplicitShape)
    .Doc("Reshape of IpuBatchMatMul by one matrix, then a bias of the last dimensions and perhaps a ReLU.");

REGISTER_OP("IpuMatMulUpdate")
    .Input("a: T")
    .Input("b: T")
    .Input("weights: T")
    .Input("rate: T")
    .Input("after: N * T")
    .Output("updated: T")
    .Attr("N: int >= 0 = 0")
    .Attr("transpose_a: bool = false")
    .Attr("transpose_b: bool = false")
    .Attr("T: {float}")
    .Attr("grad_a: bool = false")
    .Attr("grad_b: bool = false")
    .IPU_TF_TILE_ATTRS.SetShapeFn(tensorflow::shape_inference::MatMulShape)
    .Doc("Sub of weights, and of Mul of IpuMatMul and a scalar; XLA runs it in place, `after` what else reads them.");

REGISTER_OP("IpuMatMulFused")
    .Input("a: T")
    .Input("b: T")
    .Input("addend: addends * T")
    .Input("features: masks * T")
    .Output("product: T")
    .Attr("addends: int >= 0 = 0")
    .Attr("masks: int >= 0 = 0")
    .Attr("first_column: int >= 0 = 0")
    .Attr("columns: int >= 0 = 0")
    .Attr("transpose_a: bool = false")
    .Attr("transpose_b: bool = false")
    .Attr("T: {float}")
    .Attr("grad_a: bool = false")
    .Attr("grad_b: bool = false")
    .IPU_TF_TILE_ATTRS
    .SetShapeFn([](tensorflow::shape_inference::InferenceContext* c) {
      TF_RETURN_IF_ERROR(tensorflow::shape_inference::MatMulShape(c));
      int64_t columns = 0;
      TF_RETURN_IF_ERROR(c->GetAttr("columns", &columns));
      if (columns > 0) c->set_output(0, c->Matrix(c->Dim(c->output(0), 0), columns));
      return absl::OkStatus();
    })
    .Doc("IpuMatMul, of it `columns` columns if that is not 0; plus a tensor; then the gradient of a ReLU.");

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
REGISTER_KERNEL_BUILDER(Name("IpuReshapedMatMulBias").Device(DEVICE_CPU).TypeConstraint<float>("T"),
                        IpuReshapedMatMulBias);
REGISTER_KERNEL_BUILDER(Name("IpuMatMulFused").Device(DEVICE_CPU).TypeConstraint<float>("T"), IpuMatMulFused);
REGISTER_KERNEL_BUILDER(Name("IpuMatMulUpdate").Device(DEVICE_CPU).TypeConstraint<float>("T"), IpuMatMulUpdate);

}  // namespace
}  // namespace ipu_tf
