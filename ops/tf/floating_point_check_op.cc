// IpuFloatingPointCheck: the exceptions of the IPU's floating-point units, looked for in an op's results.
#include <string>
#include <vector>

#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/shape_inference.h"

#include "float_scan.h"

namespace ipu_tf {
namespace {

using tensorflow::DEVICE_CPU;
using tensorflow::OpInputList;
using tensorflow::OpKernelConstruction;
using tensorflow::OpKernelContext;
using tensorflow::Tensor;

// Ops that divide by an input, or have a pole where it is 0, and which input that is.
struct Divisor {
  const char* op_type;
  int input;
};
constexpr Divisor kDivisors[] = {
    {"Div", 1},        {"RealDiv", 1}, {"FloorDiv", 1}, {"TruncateDiv", 1}, {"Xdivy", 1},
    {"Reciprocal", 0}, {"Inv", 0},     {"Rsqrt", 0},    {"Log", 0},         {"Xlogy", 1},
};

Found ScanAll(const OpInputList& tensors) {
  Found all;
  for (int i = 0; i < tensors.size(); ++i) {
    const Found found = Scan(tensors[i]);
    all.nan = all.nan || found.nan;
    all.infinity = all.infinity || found.infinity;
  }
  return all;
}

class IpuFloatingPointCheck : public tensorflow::OpKernel {
 public:
  explicit IpuFloatingPointCheck(OpKernelConstruction* context) : OpKernel(context) {
    OP_REQUIRES_OK(context, context->GetAttr("op_name", &op_name_));
    OP_REQUIRES_OK(context, context->GetAttr("op_type", &op_type_));
    OP_REQUIRES_OK(context, context->GetAttr("inv", &inv_));
    OP_REQUIRES_OK(context, context->GetAttr("div0", &div0_));
    OP_REQUIRES_OK(context, context->GetAttr("oflo", &oflo_));
    for (const Divisor& divisor : kDivisors) {
      if (op_type_ == divisor.op_type) divisor_ = divisor.input;
    }
  }

  void Compute(OpKernelContext* context) override {
    OpInputList inputs, outputs;
    OP_REQUIRES_OK(context, context->input_list("inputs", &inputs));
    OP_REQUIRES_OK(context, context->input_list("outputs", &outputs));
    const bool by_zero = divisor_ >= 0 && divisor_ < inputs.size() && Scan(inputs[divisor_]).zero;
    OP_REQUIRES(context, !(div0_ && by_zero), Exception("division by zero"));
    const Found after = ScanAll(outputs);
    if (!after.nan && !after.infinity) return;
    const Found before = ScanAll(inputs);
    OP_REQUIRES(context, !(inv_ && after.nan && !before.nan), Exception("invalid operation"));
    OP_REQUIRES(context, !(oflo_ && after.infinity && !before.infinity && !by_zero), Exception("overflow"));
  }

 private:
  absl::Status Exception(const char* what) const {
    return absl::InvalidArgumentError(std::string("Floating-point exception (") + what + ") in op '" + op_name_ +
                                      "' (" + op_type_ + ").");
  }

  std::string op_name_, op_type_;
  bool inv_ = false, div0_ = false, oflo_ = false;
  int divisor_ = -1;
};

REGISTER_OP("IpuFloatingPointCheck")
    .Input("inputs: Tin")
    .Input("outputs: Tout")
    .Attr("Tin: list(type) >= 0")
    .Attr("Tout: list(type) >= 0")
    .Attr("op_name: string")
    .Attr("op_type: string")
    .Attr("inv: bool = false")
    .Attr("div0: bool = false")
    .Attr("oflo: bool = false")
    .SetIsStateful()
    .SetShapeFn([](tensorflow::shape_inference::InferenceContext*) { return absl::OkStatus(); })
    .Doc(
        "Raises where `outputs` of an op show an invalid operation, a division by zero or an overflow that its "
        "`inputs` do not have.");

REGISTER_KERNEL_BUILDER(Name("IpuFloatingPointCheck").Device(DEVICE_CPU), IpuFloatingPointCheck);

}  // namespace
}  // namespace ipu_tf
