// The handler that XLA's CPU runtime finds under kHostCallTarget.
#include "host_call.h"

#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "../tf/direct_kernel.h"
#include "../tf/tile_kernel.h"
#include "absl/container/inlined_vector.h"
#include "call_device.h"
#include "tensorflow/core/framework/node_def.pb.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/platform/protobuf.h"
#include "tensorflow/core/public/version.h"
#include "xla/ffi/api/c_api.h"
#include "xla/ffi/api/ffi.h"

namespace ipu_tf {
namespace {

namespace ffi = xla::ffi;
using tensorflow::OpKernel;
using tensorflow::OpKernelContext;
using tensorflow::Tensor;
using tensorflow::TensorValue;

// What a call keeps for as long as its program lives.
struct HostCall {
  static ffi::TypeId id;
  std::unique_ptr<OpKernel> kernel;
  DirectKernel* direct = nullptr;  // The kernel, if it can do without a context.
};

ffi::TypeId HostCall::id = {};

// Both sides number errors alike.
ffi::Error ErrorOf(const absl::Status& status) {
  return ffi::Error(static_cast<ffi::ErrorCode>(status.code()), std::string(status.message()));
}

// Makes the kernel, once, when XLA builds the program.
ffi::ErrorOr<std::unique_ptr<HostCall>> Instantiate(std::string_view node_text) {
  tensorflow::NodeDef node;
  if (!tensorflow::protobuf::TextFormat::ParseFromString(std::string(node_text), &node)) {
    return ffi::Unexpected(ffi::Error(ffi::ErrorCode::kInvalidArgument,
                                      "The call's node is not a text NodeDef. Received: " + std::string(node_text)));
  }
  absl::Status status;
  auto call = std::make_unique<HostCall>();
  call->kernel = tensorflow::CreateOpKernel(tensorflow::DEVICE_CPU, /*device=*/nullptr, tensorflow::cpu_allocator(),
                                            node, TF_GRAPH_DEF_VERSION, &status);
  if (!status.ok()) return ffi::Unexpected(ErrorOf(status));
  auto* direct = dynamic_cast<DirectKernel*>(call->kernel.get());
  if (direct != nullptr && direct->IsDirect()) call->direct = direct;
  return call;
}

// Runs `kernel`; its outputs end up in `results`.
absl::Status Compute(OpKernel* kernel, CallDevice* device, const std::vector<TensorValue>& inputs,
                     const std::vector<ffi::AnyBuffer>& results) {
  OpKernelContext::Params params;
  params.op_kernel = kernel;
  params.device = device;
  params.inputs = inputs;
  params.output_attr_array = device->output_attributes().data();
  OpKernelContext context(&params);
  kernel->Compute(&context);
  if (!context.status().ok()) return context.status();
  for (size_t i = 0; i < results.size(); ++i) {
    const Tensor* output = context.mutable_output(static_cast<int>(i));
    // An output that was not allocated but handed on from elsewhere.
    if (output->data() != results[i].untyped_data()) {
      std::memcpy(results[i].untyped_data(), output->data(), results[i].size_bytes());
    }
  }
  return absl::OkStatus();
}

View ViewOf(const ffi::AnyBuffer& buffer) {
  const auto dimensions = buffer.dimensions();
  return {buffer.untyped_data(), {dimensions.begin(), dimensions.size()}};
}

ffi::Error ExecuteDirect(DirectKernel* kernel, CallThreads threads, const ffi::RemainingArgs& operands,
                         const ffi::RemainingRets& outputs) {
  absl::InlinedVector<View, 4> views;
  for (size_t i = 0; i < operands.size(); ++i) {
    const auto buffer = operands.get<ffi::AnyBuffer>(i);
    if (buffer.has_error()) return buffer.error();
    views.push_back(ViewOf(*buffer));
  }
  auto output = outputs.get<ffi::AnyBuffer>(0);
  if (output.has_error()) return output.error();
  const absl::Status status = kernel->Run(views, ViewOf(**output), ParallelOn(&threads, threads.NumThreads()));
  return status.ok() ? ffi::Error::Success() : ErrorOf(status);
}

ffi::Error Execute(HostCall* call, ffi::ThreadPool threads, ffi::RemainingArgs operands, ffi::RemainingRets outputs,
                   ffi::Dictionary /*attributes*/) {
  if (call->direct != nullptr) return ExecuteDirect(call->direct, CallThreads(threads), operands, outputs);
  OpKernel* kernel = call->kernel.get();
  std::vector<Tensor> tensors;
  tensors.reserve(operands.size());
  for (size_t i = 0; i < operands.size(); ++i) {
    const auto buffer = operands.get<ffi::AnyBuffer>(i);
    if (buffer.has_error()) return buffer.error();
    tensors.push_back(
        TensorOver(buffer->untyped_data(), kernel->input_type(static_cast<int>(i)), buffer->dimensions()));
  }
  std::vector<TensorValue> inputs;
  for (Tensor& tensor : tensors) inputs.emplace_back(&tensor);

  std::vector<ffi::AnyBuffer> results;
  std::vector<ResultMemory> memory;
  for (size_t i = 0; i < outputs.size(); ++i) {
    auto buffer = outputs.get<ffi::AnyBuffer>(i);
    if (buffer.has_error()) return buffer.error();
    results.push_back(**buffer);
    memory.emplace_back((*buffer)->untyped_data());
  }
  CallDevice device(threads, std::move(memory));
  const absl::Status status = Compute(kernel, &device, inputs, results);
  return status.ok() ? ffi::Error::Success() : ErrorOf(status);
}

XLA_FFI_DEFINE_HANDLER(InstantiateHandler, Instantiate,
                       ffi::Ffi::BindInstantiate().Attr<std::string_view>(kHostCallNode));
XLA_FFI_DEFINE_HANDLER(
    ExecuteHandler, Execute,
    ffi::Ffi::Bind().Ctx<ffi::State<HostCall>>().Ctx<ffi::ThreadPool>().RemainingArgs().RemainingRets().Attrs());

constexpr XLA_FFI_TypeInfo kHostCallInfo = ffi::MakeTypeInfo<HostCall>();
const XLA_FFI_Handler_Bundle kHandlers = {InstantiateHandler, nullptr, nullptr, ExecuteHandler};

XLA_FFI_REGISTER_TYPE(XLA_FFI_GetApi(), "ipu_tf_host_call", &HostCall::id, &kHostCallInfo);
XLA_FFI_REGISTER_HANDLER(XLA_FFI_GetApi(), kHostCallTarget, "Host", kHandlers);

}  // namespace
}  // namespace ipu_tf
