// IpuUserOp: a custom op written for Poplar. Its program is a C function that Python has from the library which builds
// such ops (ops/poplar/src/user_op); nothing here is linked against that.
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/strings/str_cat.h"
#include "output_shapes.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace ipu_tf {
namespace {

using tensorflow::DEVICE_CPU;
using tensorflow::OpKernel;
using tensorflow::OpKernelConstruction;
using tensorflow::OpKernelContext;
using tensorflow::PartialTensorShape;
using tensorflow::Tensor;
using tensorflow::TensorShape;

using RunUserOp = int (*)(void* op, const void* const* inputs, void* const* outputs, const char** error);

struct UserProgram {
  RunUserOp run;
  void* op;
  std::vector<int64_t> input_bytes;
};

// The programs of this process by their keys, which no other process has: a graph from a file finds none.
struct UserPrograms {
  std::mutex mutex;
  std::map<std::string, std::shared_ptr<const UserProgram>> by_key;
};

UserPrograms& AllUserPrograms() {
  static UserPrograms* programs = new UserPrograms;
  return *programs;
}

std::shared_ptr<const UserProgram> FindUserProgram(const std::string& key) {
  UserPrograms& programs = AllUserPrograms();
  const std::lock_guard<std::mutex> lock(programs.mutex);
  const auto found = programs.by_key.find(key);
  return found == programs.by_key.end() ? nullptr : found->second;
}

class IpuUserOp : public OpKernel {
 public:
  explicit IpuUserOp(OpKernelConstruction* context) : OpKernel(context) {
    std::string key;
    std::vector<PartialTensorShape> shapes;
    OP_REQUIRES_OK(context, context->GetAttr("program", &key));
    OP_REQUIRES_OK(context, context->GetAttr("label", &label_));
    OP_REQUIRES_OK(context, context->GetAttr("output_shapes", &shapes));
    OP_REQUIRES(context, static_cast<int>(shapes.size()) == num_outputs(),
                absl::InvalidArgumentError("IpuUserOp has one shape for each of its outputs."));
    is_known_ = !key.empty();
    if (!is_known_) return;
    program_ = FindUserProgram(key);
    OP_REQUIRES(context, program_ != nullptr,
                absl::NotFoundError(absl::StrCat(
                    "The custom op '", label_,
                    "' was made in another process. Custom ops are code, which files of models do not hold: build the "
                    "model again from its Python code, and load its weights.")));
    for (const PartialTensorShape& shape : shapes) {
      shapes_.emplace_back();
      OP_REQUIRES(context, shape.AsTensorShape(&shapes_.back()),
                  absl::InvalidArgumentError("The outputs of IpuUserOp have static shapes."));
    }
    OP_REQUIRES(context, static_cast<int>(program_->input_bytes.size()) == num_inputs(),
                absl::InvalidArgumentError(absl::StrCat("The custom op '", label_, "' has other inputs.")));
  }

  void Compute(OpKernelContext* context) override {
    OP_REQUIRES(context, is_known_,
                absl::InvalidArgumentError(
                    absl::StrCat("The custom op '", label_,
                                 "' was traced with inputs or outputs of unknown shape, so it cannot run. Give its "
                                 "inputs and `outs` static shapes; batch data with `drop_remainder=True`.")));
    absl::InlinedVector<const void*, 8> inputs;
    absl::InlinedVector<void*, 8> outputs;
    for (int i = 0; i < num_inputs(); ++i) {
      const Tensor& input = context->input(i);
      const int64_t wanted = program_->input_bytes[i];
      OP_REQUIRES(context, static_cast<int64_t>(input.tensor_data().size()) == wanted,
                  absl::InvalidArgumentError(absl::StrCat("Input ", i, " of the custom op '", label_, "' must have ",
                                                          wanted, " bytes, as when it was traced. Received: shape ",
                                                          input.shape().DebugString(), ".")));
      inputs.push_back(input.data());
    }
    for (int i = 0; i < num_outputs(); ++i) {
      Tensor* output = nullptr;
      OP_REQUIRES_OK(context, context->allocate_output(i, shapes_[i], &output));
      outputs.push_back(output->data());
    }
    const char* error = nullptr;
    OP_REQUIRES(context, program_->run(program_->op, inputs.data(), outputs.data(), &error) != 0,
                absl::InternalError(absl::StrCat("The custom op '", label_, "' failed: ", error)));
  }

 private:
  std::string label_;
  bool is_known_ = false;
  std::shared_ptr<const UserProgram> program_;
  std::vector<TensorShape> shapes_;
};

#define IPU_TF_USER_OP(name)              \
  REGISTER_OP(name)                       \
      .Input("inputs: Tin")               \
      .Output("outputs: Tout")            \
      .Attr("Tin: list(type) >= 0")       \
      .Attr("Tout: list(type) >= 0")      \
      .Attr("output_shapes: list(shape)") \
      .Attr("call: string")               \
      .Attr("program: string")            \
      .Attr("label: string")              \
      .SetShapeFn(OutputShapes)

IPU_TF_USER_OP("IpuUserOp")
    .SetIsStateful()
    .Doc("Runs the program of a custom op written for Poplar, which this process knows by a key.");
IPU_TF_USER_OP("IpuStatelessUserOp").Doc("The same, of an op that says that its outputs depend on its inputs alone.");

REGISTER_KERNEL_BUILDER(Name("IpuUserOp").Device(DEVICE_CPU), IpuUserOp);
REGISTER_KERNEL_BUILDER(Name("IpuStatelessUserOp").Device(DEVICE_CPU), IpuUserOp);

}  // namespace
}  // namespace ipu_tf

extern "C" {

// Makes a program known under a key for as long as the process lives.
__attribute__((visibility("default"))) void ipu_tf_add_user_program(const char* key, void* run, void* op,
                                                                    const int64_t* input_bytes, int32_t inputs) {
  auto program = std::make_shared<ipu_tf::UserProgram>();
  program->run = reinterpret_cast<ipu_tf::RunUserOp>(run);
  program->op = op;
  program->input_bytes.assign(input_bytes, input_bytes + inputs);
  ipu_tf::UserPrograms& programs = ipu_tf::AllUserPrograms();
  const std::lock_guard<std::mutex> lock(programs.mutex);
  programs.by_key[key] = std::move(program);
}

}  // extern "C"
