// Sums over segments of rows and their gradient: IpuSegmentSum, IpuGatherRows, and both in one.
#include "../core/elements/segments.h"

#include <algorithm>
#include <limits>

#include "absl/strings/str_cat.h"
#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/op.h"
#include "tile_kernel.h"

namespace ipu_tf {
namespace {

using tensorflow::DEVICE_CPU;
using tensorflow::OpKernelContext;
using tensorflow::Tensor;
using tensorflow::TensorShape;
using tensorflow::shape_inference::DimensionHandle;
using tensorflow::shape_inference::InferenceContext;
using tensorflow::shape_inference::ShapeHandle;

// Returns the first of some numbers that is below `least` or not below `limit`, -1 if there is none.
int64_t FirstOutside(const int32_t* numbers, int64_t count, int32_t least, int64_t limit) {
  const auto most = static_cast<int32_t>(std::min<int64_t>(limit - 1, std::numeric_limits<int32_t>::max()));
  // A loop without a way out takes a vector of numbers at a time.
  int outside = 0;
  for (int64_t i = 0; i < count; ++i) outside |= (numbers[i] < least) | (numbers[i] > most);
  if (outside == 0) return -1;
  return std::find_if(numbers, numbers + count, [=](int32_t number) { return number < least || number > most; }) -
         numbers;
}

// Returns the error of the first number that is none of a row, or "".
std::string RowsError(const int32_t* numbers, int64_t count, int64_t rows) {
  const int64_t i = FirstOutside(numbers, count, 0, rows);
  return i < 0 ? "" : absl::StrCat("indices[", i, "] = ", numbers[i], " is not in [0, ", rows, ")");
}

// Reads the numbers of rows and of segments; the rows may be picked from others before they are added up.
class SegmentSumKernel : public NamedKernel {
 public:
  using NamedKernel::NamedKernel;

  void Compute(OpKernelContext* context) override {
    const int last = context->num_inputs() - 1;
    const bool picks = last == 4;
    const Tensor &x = context->input(0), &ids = context->input(last - 1), &count = context->input(last);
    OP_REQUIRES(context,
                x.dims() == 2 && ids.dims() == 1 && count.dims() == 0 && count.scalar<int32_t>()() >= 0 &&
                    (picks ? context->input(1) : x).dim_size(0) == ids.dim_size(0) &&
                    (!picks || (context->input(1).dims() == 1 && context->input(2).shape() == ids.shape())),
                Error(absl::StrCat("data has rows, each has a number, and the count of segments is a scalar of at "
                                   "least 0. Received the shapes ",
                                   x.shape().DebugString(), ", ", ids.shape().DebugString(), " and ",
                                   count.shape().DebugString())));
    const int64_t segments = count.scalar<int32_t>()(), rows = ids.dim_size(0);
    const int32_t* id = ids.flat<int32_t>().data();
    PickedRows picked{};
    if (picks) {
      picked = {context->input(1).flat<int32_t>().data(), context->input(2).flat<int32_t>().data()};
      IPU_TF_CHECK(context, RowsError(picked.from, rows, x.dim_size(0)));
    }
    const int64_t beyond = FirstOutside(id, rows, std::numeric_limits<int32_t>::min(), segments);
    OP_REQUIRES(context, beyond < 0,
                Error(absl::StrCat("segment_ids[", beyond, "] = ", beyond < 0 ? 0 : id[beyond], " is out of range [0, ",
                                   segments, ")")));
    Tensor* y = nullptr;
    OP_REQUIRES_OK(context, context->allocate_output(0, TensorShape({segments, x.dim_size(1)}), &y));
    SumSegments(x.flat<float>().data(), picked, id, rows, x.dim_size(1), segments, y->flat<float>().data(),
                ActiveKernels(), ParallelOf(context));
  }
};

class GatherRowsKernel : public NamedKernel {
 public:
  using NamedKernel::NamedKernel;

  void Compute(OpKernelContext* context) override {
    const Tensor &x = context->input(0), &from = context->input(1), &ids = context->input(2);
    OP_REQUIRES(context, x.dims() == 2 && from.dims() == 1 && ids.shape() == from.shape(),
                Error(absl::StrCat("params has rows, and both numbers of a row are in vectors. Received the shapes ",
                                   x.shape().DebugString(), ", ", from.shape().DebugString(), " and ",
                                   ids.shape().DebugString())));
    const int32_t *at = from.flat<int32_t>().data(), *id = ids.flat<int32_t>().data();
    IPU_TF_CHECK(context, RowsError(at, from.NumElements(), x.dim_size(0)));
    Tensor* y = nullptr;
    OP_REQUIRES_OK(context, context->allocate_output(0, TensorShape({from.dim_size(0), x.dim_size(1)}), &y));
    GatherRows(x.flat<float>().data(), at, id, from.dim_size(0), x.dim_size(1), y->flat<float>().data(),
               ParallelOf(context));
  }
};

// Rows of the width of the first input.
absl::Status RowsShape(InferenceContext* c, DimensionHandle rows) {
  ShapeHandle x;
  TF_RETURN_IF_ERROR(c->WithRank(c->input(0), 2, &x));
  c->set_output(0, c->Matrix(rows, c->Dim(x, 1)));
  return absl::OkStatus();
}

absl::Status SegmentSumShape(InferenceContext* c) {
  DimensionHandle segments;
  TF_RETURN_IF_ERROR(c->MakeDimForScalarInput(c->num_inputs() - 1, &segments));
  return RowsShape(c, segments);
}

absl::Status GatherRowsShape(InferenceContext* c) {
  ShapeHandle from;
  TF_RETURN_IF_ERROR(c->WithRank(c->input(1), 1, &from));
  return RowsShape(c, c->Dim(from, 0));
}

REGISTER_OP("IpuSegmentSum")
    .Input("data: T")
    .Input("segment_ids: int32")
    .Input("num_segments: int32")
    .Output("output: T")
    .Attr("T: {float}")
    .SetShapeFn(SegmentSumShape)
    .Doc("UnsortedSegmentSum of rows.");

REGISTER_OP("IpuGatherSegmentSum")
    .Input("params: T")
    .Input("indices: int32")
    .Input("kept: int32")
    .Input("segment_ids: int32")
    .Input("num_segments: int32")
    .Output("output: T")
    .Attr("T: {float}")
    .SetShapeFn(SegmentSumShape)
    .Doc("IpuSegmentSum of IpuGatherRows, whose `segment_ids` are `kept`.");

REGISTER_OP("IpuGatherRows")
    .Input("params: T")
    .Input("indices: int32")
    .Input("segment_ids: int32")
    .Output("output: T")
    .Attr("T: {float}")
    .SetShapeFn(GatherRowsShape)
    .Doc("SelectV2 of GatherV2 of rows where `segment_ids` are not negative, and of zeros.");

REGISTER_KERNEL_BUILDER(Name("IpuSegmentSum").Device(DEVICE_CPU), SegmentSumKernel);
REGISTER_KERNEL_BUILDER(Name("IpuGatherSegmentSum").Device(DEVICE_CPU), SegmentSumKernel);
REGISTER_KERNEL_BUILDER(Name("IpuGatherRows").Device(DEVICE_CPU), GatherRowsKernel);

}  // namespace
}  // namespace ipu_tf
