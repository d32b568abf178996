// The device on which a kernel runs inside a program that XLA compiled: its threads, its memory.
#ifndef IPU_TF_OPS_XLA_CALL_DEVICE_H_
#define IPU_TF_OPS_XLA_CALL_DEVICE_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tensorflow/core/framework/allocator.h"
#include "tensorflow/core/framework/device_base.h"
#include "tensorflow/core/framework/tensor.h"
#include "xla/ffi/api/ffi.h"
#include "xla/tsl/platform/threadpool.h"
#include "xla/tsl/platform/threadpool_interface.h"

namespace ipu_tf {

// A tensor over memory of XLA's, which must outlive it.
tensorflow::Tensor TensorOver(void* data, tensorflow::DataType type, xla::ffi::Span<const int64_t> dimensions);

// XLA's threads, in the form in which kernels ask for them.
class CallThreads : public tsl::thread::ThreadPoolInterface {
 public:
  explicit CallThreads(const xla::ffi::ThreadPool& threads);

  void Schedule(std::function<void()> task) override { threads_.Schedule(std::move(task)); }
  int NumThreads() const override { return count_; }
  // A program may call a kernel from one of these threads: so kernels do not leave their work to the others.
  int CurrentThreadId() const override { return 0; }

 private:
  xla::ffi::ThreadPool threads_;
  const int count_;
};

// Hands out the memory that XLA has set aside for one result.
class ResultMemory : public tsl::Allocator {
 public:
  explicit ResultMemory(void* data) : data_(data) {}

  std::string Name() override { return "ipu_tf_result"; }
  void* AllocateRaw(size_t /*alignment*/, size_t /*bytes*/) override { return data_; }
  void DeallocateRaw(void* /*data*/) override {}

 private:
  void* data_;
};

// Lasts for one call. What a kernel allocates as output i with `output_attributes()[i]` is result i; all other
// memory is the host's.
class CallDevice : public tensorflow::DeviceBase {
 public:
  CallDevice(const xla::ffi::ThreadPool& threads, std::vector<ResultMemory> results);
  ~CallDevice() override;

  const std::vector<tensorflow::AllocatorAttributes>& output_attributes() const { return output_attributes_; }
  tensorflow::Allocator* GetAllocator(tensorflow::AllocatorAttributes attributes) override;
  tensorflow::Allocator* GetScopedAllocator(tensorflow::AllocatorAttributes attributes, int64_t step) override;
  const std::string& name() const override;
  // Made when a kernel asks, which tile ops do not.
  const Eigen::ThreadPoolDevice* eigen_cpu_device() override;

 private:
  CallThreads threads_;
  tsl::thread::ThreadPool pool_;
  CpuWorkerThreads workers_;
  std::vector<ResultMemory> results_;
  std::vector<tensorflow::AllocatorAttributes> output_attributes_;
  std::unique_ptr<Eigen::ThreadPoolDevice> eigen_device_;
};

}  // namespace ipu_tf

#endif  // IPU_TF_OPS_XLA_CALL_DEVICE_H_
