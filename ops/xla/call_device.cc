#define EIGEN_USE_THREADS  // Eigen declares its devices with threads only then.
#include "call_device.h"

#include <algorithm>
#include <utility>

#include "tensorflow/core/framework/tensor_shape.h"
#include "tensorflow/core/framework/types.h"
#include "unsupported/Eigen/CXX11/Tensor"

namespace ipu_tf {
namespace {

using tensorflow::Allocator;
using tensorflow::AllocatorAttributes;
using tensorflow::Tensor;
using tensorflow::TensorBuffer;

class BorrowedBuffer : public TensorBuffer {
 public:
  BorrowedBuffer(void* data, size_t bytes) : TensorBuffer(data), bytes_(bytes) {}

  size_t size() const override { return bytes_; }
  TensorBuffer* root_buffer() override { return this; }
  void FillAllocationDescription(tensorflow::AllocationDescription* /*proto*/) const override {}
  bool OwnsMemory() const override { return false; }  // So no kernel writes its output here.

 private:
  const size_t bytes_;
};

}  // namespace

Tensor TensorOver(void* data, tensorflow::DataType type, xla::ffi::Span<const int64_t> dimensions) {
  const tensorflow::TensorShape shape(absl::MakeConstSpan(dimensions.begin(), dimensions.size()));
  const size_t bytes = shape.num_elements() * tensorflow::DataTypeSize(type);
  tsl::core::RefCountPtr<TensorBuffer> buffer(new BorrowedBuffer(data, bytes));
  return Tensor(type, shape, std::move(buffer));
}

CallThreads::CallThreads(const xla::ffi::ThreadPool& threads)
    : threads_(threads), count_(static_cast<int>(std::max<int64_t>(1, threads.num_threads()))) {}

CallDevice::CallDevice(const xla::ffi::ThreadPool& threads, std::vector<ResultMemory> results)
    : DeviceBase(tsl::Env::Default()),
      threads_(threads),
      pool_(&threads_),
      workers_{threads_.NumThreads(), &pool_},
      results_(std::move(results)),
      output_attributes_(results_.size()) {
  set_tensorflow_cpu_worker_threads(&workers_);
  // Scopes count from 1; 0 means none.
  for (size_t i = 0; i < results_.size(); ++i) {
    output_attributes_[i].scope_id = static_cast<int32_t>(i + 1);
  }
}

CallDevice::~CallDevice() = default;

Allocator* CallDevice::GetAllocator(AllocatorAttributes /*attributes*/) { return tensorflow::cpu_allocator(); }

Allocator* CallDevice::GetScopedAllocator(AllocatorAttributes attributes, int64_t /*step*/) {
  return &results_[attributes.scope_id - 1];
}

const Eigen::ThreadPoolDevice* CallDevice::eigen_cpu_device() {
  if (eigen_device_ == nullptr) {
    eigen_device_ = std::make_unique<Eigen::ThreadPoolDevice>(&threads_, threads_.NumThreads());
  }
  return eigen_device_.get();
}

const std::string& CallDevice::name() const {
  static const std::string& name = *new std::string("/device:XLA_CPU_JIT:0");
  return name;
}

}  // namespace ipu_tf
