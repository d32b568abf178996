#include "tile_kernel.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "../core/deal.h"
#include "absl/strings/str_cat.h"
#include "tensorflow/core/framework/device_base.h"
#include "tensorflow/core/lib/core/threadpool.h"

namespace ipu_tf {

using tensorflow::DT_HALF;
using tensorflow::Tensor;

Parallel ParallelOn(Eigen::ThreadPoolInterface* pool, int threads) {
  Parallel parallel;
  parallel.threads = threads;
  parallel.run = [pool, threads](int64_t items, const std::function<void(int64_t)>& work, bool is_long) {
    const Schedule schedule = [pool](std::function<void()> task) { pool->Schedule(std::move(task)); };
    const bool in_pool = pool->CurrentThreadId() >= 0;
    if (is_long && !in_pool) return LeaveItems(items, std::min<int64_t>(threads, items), work, schedule);
    DealItems(items, std::min<int64_t>(threads, items) - 1, work, schedule);
  };
  return parallel;
}

Parallel ParallelOf(tensorflow::OpKernelContext* context) {
  const auto* workers = context->device()->tensorflow_cpu_worker_threads();
  return ParallelOn(workers->workers->AsEigenThreadPool(), std::max(1, workers->num_threads));
}

Operand::Operand(const Tensor& tensor, const Kernels& kernels, const Parallel& parallel) {
  if (tensor.dtype() != DT_HALF) {
    data_ = static_cast<const float*>(tensor.data());
    return;
  }
  converted_ = Scratch(tensor.NumElements());
  data_ = converted_.data();
  ForStretches(tensor.NumElements(), parallel, [&](int64_t begin, int64_t count) {
    kernels.half_to_float(HalfData(tensor) + begin, converted_.data() + begin, count);
  });
}

Result::Result(Tensor* tensor) : tensor_(tensor) {
  if (tensor->dtype() == DT_HALF) {
    sums_ = Scratch(tensor->NumElements());
    data_ = sums_.data();
  } else {
    data_ = static_cast<float*>(tensor->data());
  }
}

void Result::Round(bool nanoo, const Kernels& kernels, const Parallel& parallel) {
  if (tensor_->dtype() != DT_HALF) return;
  uint16_t* to = static_cast<uint16_t*>(tensor_->data());
  ForStretches(tensor_->NumElements(), parallel, [&](int64_t begin, int64_t count) {
    kernels.float_to_half(data_ + begin, to + begin, count, nanoo ? Overflow::kNan : Overflow::kLargest);
  });
}

std::string ReadBias(const tensorflow::Tensor& bias, int64_t columns, const float** data) {
  if (bias.dims() != 1 || bias.dim_size(0) != columns) {
    return "the bias has one value for each of the " + std::to_string(columns) +
           " columns. Received: " + bias.shape().DebugString();
  }
  *data = bias.flat<float>().data();
  return "";
}

TileKernel::TileKernel(tensorflow::OpKernelConstruction* context) : NamedKernel(context) {
  std::string partials, rounding;
  int64_t stream;
  OP_REQUIRES_OK(context, context->GetAttr("plan", &plan_));
  OP_REQUIRES_OK(context, context->GetAttr("partials", &partials));
  OP_REQUIRES_OK(context, context->GetAttr("rounding", &rounding));
  OP_REQUIRES_OK(context, context->GetAttr("nanoo", &numerics_.nanoo));
  OP_REQUIRES_OK(context, context->GetAttr("stream", &stream));
  numerics_.type = context->output_type(0) == DT_HALF ? ElementType::kHalf : ElementType::kFloat;
  numerics_.half_partials = partials == "float16";
  numerics_.rounding = rounding == "stochastic" ? Rounding::kStochastic : Rounding::kNearest;
  stream_ = static_cast<uint64_t>(stream);
}

Numerics TileKernel::CallNumerics() const {
  Numerics numerics = numerics_;
  if (numerics.stochastic()) numerics.random = NextKey(stream_);
  return numerics;
}

absl::Status NamedKernel::Error(const std::string& message) const {
  return absl::InvalidArgumentError(absl::StrCat(type_string(), " '", std::string(name()), "': ", message));
}

}  // namespace ipu_tf
