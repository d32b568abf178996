// IpuIndexCheck: the bounds that TensorFlow's CPU kernels check before they look something up. XLA has no such check:
// it takes the nearest row for an index out of range, and NaN for the loss of such a label.
#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace ipu_tf {
namespace {

using tensorflow::DEVICE_CPU;
using tensorflow::OpKernelConstruction;
using tensorflow::OpKernelContext;
using tensorflow::Tensor;
using tensorflow::TensorShape;

// "[1,2]", the place of element `flat` in a tensor of this shape; "" in a scalar.
std::string PlaceOf(int64_t flat, const TensorShape& shape, int axes) {
  if (axes == 0) return "";
  std::vector<int64_t> place(axes);
  for (int axis = axes - 1; axis >= 0; --axis) {
    place[axis] = flat % shape.dim_size(axis);
    flat /= shape.dim_size(axis);
  }
  return absl::StrCat("[", absl::StrJoin(place, ","), "]");
}

template <typename Index>
class IpuIndexCheck : public tensorflow::OpKernel {
 public:
  explicit IpuIndexCheck(OpKernelConstruction* context) : OpKernel(context) {
    OP_REQUIRES_OK(context, context->GetAttr("kind", &kind_));
    OP_REQUIRES_OK(context, context->GetAttr("limits", &limits_));
    OP_REQUIRES_OK(context, context->GetAttr("op_name", &op_name_));
    OP_REQUIRES(context, !limits_.empty(), absl::InvalidArgumentError("IpuIndexCheck takes a limit at least."));
  }

  void Compute(OpKernelContext* context) override {
    const Tensor& indices = context->input(0);
    const auto values = indices.flat<Index>();
    const int64_t width = static_cast<int64_t>(limits_.size());
    if (width > 1 || !AllBelow(values.data(), values.size(), limits_[0])) {
      for (int64_t i = 0; i < values.size(); ++i) {
        const bool in_range = values(i) >= 0 && static_cast<int64_t>(values(i)) < limits_[i % width];
        OP_REQUIRES(context, in_range, absl::InvalidArgumentError(Message(indices, i)));
      }
    }
    context->set_output(0, indices);
  }

 private:
  // Whether all values are in [0, limit): one pass that finds no place, in vector units.
  static bool AllBelow(const Index* values, int64_t count, int64_t limit) {
    Index least = 0, most = 0;
    for (int64_t i = 0; i < count; ++i) {
      least = std::min(least, values[i]);
      most = std::max(most, values[i]);
    }
    return least >= 0 && (count == 0 || static_cast<int64_t>(most) < limit);
  }

  // What the stock kernels say, and the op it is about.
  std::string Message(const Tensor& indices, int64_t bad) const {
    const auto values = indices.flat<Index>();
    const TensorShape& shape = indices.shape();
    const std::string op = absl::StrCat(" (op '", op_name_, "')");
    if (kind_ == "label") {
      return absl::StrCat("Received a label value of ", static_cast<int64_t>(values(bad)),
                          " which is outside the valid range of [0, ", limits_[0],
                          ").  Label values: ", indices.SummarizeValue(values.size()), op);
    }
    if (kind_ == "index") {
      return absl::StrCat("indices", PlaceOf(bad, shape, shape.dims()), " = ", static_cast<int64_t>(values(bad)),
                          " is not in [0, ", limits_[0], ")", op);
    }
    const int64_t width = static_cast<int64_t>(limits_.size());
    const int64_t row = bad / width;
    return absl::StrCat("indices", PlaceOf(row, shape, shape.dims() - 1), " = [",
                        absl::StrJoin(values.data() + row * width, values.data() + (row + 1) * width, ", "),
                        "] does not index into param shape [", absl::StrJoin(limits_, ","), "]", op);
  }

  std::string kind_, op_name_;
  std::vector<int64_t> limits_;
};

REGISTER_OP("IpuIndexCheck")
    .Input("indices: T")
    .Output("checked: T")
    .Attr("T: {int16, int32, int64}")
    .Attr("kind: {'label', 'index', 'indices'}")
    .Attr("limits: list(int) >= 1")
    .Attr("op_name: string")
    .SetShapeFn(tensorflow::shape_inference::UnchangedShape)
    .Doc(
        "Returns `indices`, or raises where one of them is negative or not below its limit. With several limits, "
        "the last axis of `indices` has one for each.");

#define IPU_TF_REGISTER_INDEX_CHECK(type) \
  REGISTER_KERNEL_BUILDER(Name("IpuIndexCheck").Device(DEVICE_CPU).TypeConstraint<type>("T"), IpuIndexCheck<type>)

IPU_TF_REGISTER_INDEX_CHECK(int16_t);
IPU_TF_REGISTER_INDEX_CHECK(int32_t);
IPU_TF_REGISTER_INDEX_CHECK(int64_t);

}  // namespace
}  // namespace ipu_tf
