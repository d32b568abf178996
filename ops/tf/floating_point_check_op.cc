// IpuFloatingPointCheck: the exceptions of the IPU's floating-point units, looked for in an op's results.
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/shape_inference.h"

#include "float_scan.h"
#include "plain_tensors.h"

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

// Writes what else is known of an exception into `message`, at most `room` bytes, and returns their
// number. `tensors` are `inputs` operands and then the results: a TensorProto each, behind its size
// in 8 bytes.
using Describe = int64_t (*)(int64_t program, const char* op_name, const char* op_type, const char* what,
                             const char* tensors, int64_t size, int64_t inputs, char* message, int64_t room);
std::atomic<Describe> describe{nullptr};

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
    OP_REQUIRES_OK(context, context->GetAttr("program", &program_));
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
    OP_REQUIRES(context, !(div0_ && by_zero), Exception("division by zero", inputs, outputs));
    const Found after = ScanAll(outputs);
    if (!after.nan && !after.infinity) return;
    const Found before = ScanAll(inputs);
    OP_REQUIRES(context, !(inv_ && after.nan && !before.nan), Exception("invalid operation", inputs, outputs));
    OP_REQUIRES(context, !(oflo_ && after.infinity && !before.infinity && !by_zero),
                Exception("overflow", inputs, outputs));
  }

 private:
  absl::Status Exception(const char* what, const OpInputList& inputs, const OpInputList& outputs) const {
    return absl::InvalidArgumentError(std::string("Floating-point exception (") + what + ") in op '" + op_name_ +
                                      "' (" + op_type_ + ")." + More(what, inputs, outputs));
  }

  std::string More(const char* what, const OpInputList& inputs, const OpInputList& outputs) const {
    const Describe more = describe.load();
    if (more == nullptr) return "";
    std::string message(kRoom, '\0');
    const std::string tensors = Serialized(inputs) + Serialized(outputs);
    const int64_t size = more(program_, op_name_.c_str(), op_type_.c_str(), what, tensors.data(), tensors.size(),
                              inputs.size(), message.data(), kRoom);
    message.resize(std::clamp<int64_t>(size, 0, kRoom));
    return message;
  }

  static constexpr int64_t kRoom = 1 << 14;

  std::string op_name_, op_type_;
  int64_t program_ = 0;
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
    .Attr("program: int = -1")
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

extern "C" __attribute__((visibility("default"))) void ipu_tf_describe_exceptions(ipu_tf::Describe more) {
  ipu_tf::describe = more;
}
