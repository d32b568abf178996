#include "instance_exchange.h"

#include <atomic>

#include "absl/strings/str_cat.h"

namespace ipu_tf {
namespace {

using Exchange = int32_t (*)(InstanceExchange*);

constexpr size_t kMessageBytes = 4096;

std::atomic<Exchange> exchange_function{nullptr};

}  // namespace

absl::Status ExchangeWithInstances(const Collective& collective, const std::string& dtype,
                                   const tensorflow::Tensor& value, int64_t first, int64_t count,
                                   const std::vector<char>& input, std::vector<char>* output) {
  const Exchange function = exchange_function.load();
  if (function == nullptr) {
    return absl::InternalError(absl::StrCat("'", collective.site, "' joins instances that have not met."));
  }
  const std::string shape = value.shape().DebugString();
  std::vector<char> message(kMessageBytes, 0);
  InstanceExchange exchange{collective.site.c_str(),
                            collective.kind.c_str(),
                            collective.reduction.c_str(),
                            dtype.c_str(),
                            shape.c_str(),
                            first,
                            count,
                            collective.group_size,
                            input.data(),
                            static_cast<int64_t>(input.size()),
                            output->data(),
                            static_cast<int64_t>(output->size()),
                            message.data(),
                            static_cast<int64_t>(message.size())};
  return function(&exchange) == 0 ? absl::OkStatus() : absl::AbortedError(message.data());
}

}  // namespace ipu_tf

// C function for ctypes.
extern "C" {

// Sets the function that exchanges values with the other instances. It returns 0, or has written a message.
__attribute__((visibility("default"))) void ipu_tf_join_instances(ipu_tf::Exchange function) {
  ipu_tf::exchange_function = function;
}

}  // extern "C"
