// IpuEinsum: einsums of two operands that are batched matrix products; IpuTransposedMatMul, which is joined of some.
#include "../core/products/einsum.h"

#include <algorithm>
#include <utility>

#include "../core/products/matmul.h"
#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/op.h"
#include "tile_kernel.h"

namespace ipu_tf {
namespace {

using tensorflow::DEVICE_CPU;
using tensorflow::OpKernelConstruction;
using tensorflow::OpKernelContext;
using tensorflow::Tensor;

std::vector<int64_t> DimSizes(const Tensor& tensor) {
  const auto sizes = tensor.shape().dim_sizes();
  return {sizes.begin(), sizes.end()};
}

// The axes of one role, seen by one of the three tensors.
std::vector<StridedAxis> AxesOf(const Einsum& einsum, AxisRole role, int64_t EinsumAxis::* stride) {
  std::vector<StridedAxis> axes;
  for (const EinsumAxis& axis : einsum.axes) {
    if (axis.role == role) axes.push_back({axis.extent, axis.*stride});
  }
  return axes;
}

int64_t Extent(const std::vector<StridedAxis>& axes) {
  int64_t extent = 1;
  for (const StridedAxis& axis : axes) extent *= axis.extent;
  return extent;
}

// The offsets of all elements of the axes, in row-major order.
std::vector<int64_t> Offsets(const std::vector<StridedAxis>& axes) {
  std::vector<int64_t> offsets = {0};
  for (const StridedAxis& axis : axes) {
    std::vector<int64_t> next;
    next.reserve(offsets.size() * axis.extent);
    for (const int64_t offset : offsets) {
      for (int64_t i = 0; i < axis.extent; ++i) next.push_back(offset + i * axis.stride);
    }
    offsets = std::move(next);
  }
  return offsets;
}

// One of the three tensors as a stack of matrices [outer, inner]: in place where its axes collapse, else as a
// dense copy.
struct MatrixView {
  std::vector<StridedAxis> batch, outer, inner;
  std::vector<int64_t> at;
  int64_t outer_stride = 0, inner_stride = 1;
  bool in_place = false;

  MatrixView(const Einsum& einsum, AxisRole outer_role, AxisRole inner_role, int64_t EinsumAxis::* stride,
             bool inner_dense)
      : batch(AxesOf(einsum, AxisRole::kBatch, stride)),
        outer(AxesOf(einsum, outer_role, stride)),
        inner(AxesOf(einsum, inner_role, stride)) {
    StridedAxis outer_axis, inner_axis;
    in_place = Collapse(outer, &outer_axis) && Collapse(inner, &inner_axis);
    if (in_place) {
      const bool inner_unit = inner_axis.stride == 1 || inner_axis.extent == 1;
      const bool outer_unit = outer_axis.stride == 1 || outer_axis.extent == 1;
      in_place = inner_unit || (outer_unit && !inner_dense);
      outer_stride = inner_unit ? outer_axis.stride : 1;
      inner_stride = inner_unit ? 1 : inner_axis.stride;
    }
    if (in_place) {
      at = Offsets(batch);
      return;
    }
    outer_stride = Extent(inner);
    inner_stride = 1;
    const int64_t matrix = Extent(outer) * Extent(inner);
    for (int64_t g = 0; g < Extent(batch); ++g) at.push_back(g * matrix);
  }

  std::vector<StridedAxis> AllAxes() const {
    std::vector<StridedAxis> all = batch;
    all.insert(all.end(), outer.begin(), outer.end());
    all.insert(all.end(), inner.begin(), inner.end());
    return all;
  }

  int64_t elements() const { return Extent(batch) * Extent(outer) * Extent(inner); }
};

// Whether the columns of the output lie apart, and its rows adjoin.
bool RowsAreInnermost(const Einsum& einsum) {
  for (auto axis = einsum.axes.rbegin(); axis != einsum.axes.rend(); ++axis) {
    if (axis->role != AxisRole::kReduction && axis->extent > 1) return axis->role == AxisRole::kRow;
  }
  return false;
}

// Exchanges the operands, which makes rows of columns and columns of rows. Each sum stays the same chain.
void ExchangeOperands(Einsum* einsum) {
  for (EinsumAxis& axis : einsum->axes) {
    std::swap(axis.a_stride, axis.b_stride);
    if (axis.role == AxisRole::kRow) {
      axis.role = AxisRole::kColumn;
    } else if (axis.role == AxisRole::kColumn) {
      axis.role = AxisRole::kRow;
    }
  }
}

// The three tensors of a product.
struct ProductView {
  MatrixView a, b, c;

  explicit ProductView(const Einsum& einsum)
      : a(einsum, AxisRole::kRow, AxisRole::kReduction, &EinsumAxis::a_stride, false),
        b(einsum, AxisRole::kReduction, AxisRole::kColumn, &EinsumAxis::b_stride, false),
        c(einsum, AxisRole::kRow, AxisRole::kColumn, &EinsumAxis::output_stride, true) {}

  MatMulShape Shape() const {
    MatMulShape shape;
    shape.rows = Extent(a.outer);
    shape.depth = Extent(a.inner);
    shape.columns = Extent(b.inner);
    shape.a_row_stride = a.outer_stride;
    shape.a_k_stride = a.inner_stride;
    shape.b_k_stride = b.outer_stride;
    shape.b_n_stride = b.inner_stride;
    shape.c_row_stride = c.outer_stride;
    shape.a_at = a.at;
    shape.b_at = b.at;
    shape.c_at = c.at;
    return shape;
  }
};

class IpuEinsum : public TileKernel {
 public:
  explicit IpuEinsum(OpKernelConstruction* context) : TileKernel(context) {
    int inputs = 0;
    OP_REQUIRES_OK(context, context->GetAttr("equation", &equation_));
    OP_REQUIRES_OK(context, context->GetAttr("N", &inputs));
    OP_REQUIRES(context, inputs == 2,
                Error("tile ops take einsums of two operands. Received: " + std::to_string(inputs)));
    const std::string error = ParsePlan(plan_, numerics_.type, &matmul_plan_);
    OP_REQUIRES(context, error.empty(), Error(error));
  }

  void Compute(OpKernelContext* context) override {
    const Tensor *a = &context->input(0), *b = &context->input(1);
    OP_REQUIRES(context, a->NumElements() > 0 && b->NumElements() > 0,
                Error("operands may not have a dimension of 0. Received: " + a->shape().DebugString() + " and " +
                      b->shape().DebugString()));
    Einsum einsum;
    IPU_TF_CHECK(context, ParseEinsum(equation_, DimSizes(*a), DimSizes(*b), &einsum));
    IPU_TF_CHECK(context, CheckPlan(matmul_plan_, ProductView(einsum).Shape()));
    tensorflow::TensorShape output_shape;
    OP_REQUIRES_OK(context, tensorflow::TensorShape::BuildTensorShape(einsum.output_shape, &output_shape));
    Tensor* output = nullptr;
    OP_REQUIRES_OK(context, context->allocate_output(0, output_shape, &output));
    // Random bits follow the plan, whose rows are those of the equation.
    if (!numerics_.stochastic() && RowsAreInnermost(einsum)) {
      ExchangeOperands(&einsum);
      std::swap(a, b);
    }
    Multiply(context, ProductView(einsum), *a, *b, output);
  }

 private:
  void Multiply(OpKernelContext* context, const ProductView& view, const Tensor& a, const Tensor& b,
                Tensor* output) const {
    const Kernels& kernels = ActiveKernels();
    const Parallel parallel = ParallelOf(context);
    const Operand a_values(a, kernels, parallel), b_values(b, kernels, parallel);
    Scratch a_copy, b_copy, c_copy(view.c.in_place ? 0 : view.c.elements());
    const float* a_data = InPlace(view.a, a_values.data(), &a_copy);
    const float* b_data = InPlace(view.b, b_values.data(), &b_copy);
    Result c(output);
    float* c_data = view.c.in_place ? c.data() : c_copy.data();
    MatMul(view.Shape(), matmul_plan_, CallNumerics(), a_data, b_data, c_data, kernels, parallel);
    if (!view.c.in_place) CopyToStrided(c_data, view.c.AllAxes(), c.data());
    c.Round(numerics_.nanoo, kernels, parallel);
  }

  static const float* InPlace(const MatrixView& view, const float* data, Scratch* copy) {
    if (view.in_place) return data;
    *copy = Scratch(view.elements());
    CopyStrided(data, view.AllAxes(), copy->data());
    return copy->data();
  }

  std::string equation_;
  MatMulPlan matmul_plan_;
};

REGISTER_OP("IpuEinsum")
    .Input("inputs: N * T")
    .Output("output: T")
    .Attr("equation: string")
    .Attr("N: int >= 1")
    .Attr("T: {half, float}")
    .IPU_TF_TILE_ATTRS.SetShapeFn(tensorflow::shape_inference::EinsumShape)
    .Doc(
        "An Einsum that is a batched matrix product, computed tile by tile as `plan` says: "
        "[batch, rows, columns, reduction, grain].");

REGISTER_OP("IpuTransposedMatMul")
    .Input("inputs: N * T")
    .Output("output: T")
    .Attr("equation: string")
    .Attr("N: int >= 1")
    .Attr("T: {half, float}")
    .IPU_TF_TILE_ATTRS.SetShapeFn(tensorflow::shape_inference::EinsumShape)
    .Doc("IpuBatchMatMul of Transpose of operands, or Transpose of IpuBatchMatMul, or both, as an Einsum.");

IPU_TF_REGISTER_TILE_KERNEL("IpuEinsum", IpuEinsum);
IPU_TF_REGISTER_TILE_KERNEL("IpuTransposedMatMul", IpuEinsum);

}  // namespace
}  // namespace ipu_tf
