// What every tile op's kernel shares: its attributes, threads, operands in float32, results rounded once.
#ifndef IPU_TF_OPS_TF_TILE_KERNEL_H_
#define IPU_TF_OPS_TF_TILE_KERNEL_H_

#include <string>
#include <vector>

#include "../core/kernels/kernels.h"
#include "../core/parallel.h"
#include "../core/plan/plan.h"
#include "../core/scratch.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "unsupported/Eigen/CXX11/ThreadPool"

// The attributes that a tile op has beside those of its stock twin.
#define IPU_TF_TILE_ATTRS                                      \
  Attr("plan: list(int) = []")                                 \
      .Attr("method: string = ''")                             \
      .Attr("serial: list(int) = []")                          \
      .Attr("partials: {'float32', 'float16'} = 'float32'")    \
      .Attr("rounding: {'nearest', 'stochastic'} = 'nearest'") \
      .Attr("nanoo: bool = false")                             \
      .Attr("stream: int = 0")

// Registers one kernel class for both element types of an op.
#define IPU_TF_REGISTER_TILE_KERNEL(op, Kernel)                                            \
  REGISTER_KERNEL_BUILDER(Name(op).Device(DEVICE_CPU).TypeConstraint<float>("T"), Kernel); \
  REGISTER_KERNEL_BUILDER(Name(op).Device(DEVICE_CPU).TypeConstraint<Eigen::half>("T"), Kernel)

namespace ipu_tf {

// Runs work items on the threads of `pool` and the calling one.
Parallel ParallelOn(Eigen::ThreadPoolInterface* pool, int threads);

// Runs work items on TensorFlow's intra-op threads and the calling one.
Parallel ParallelOf(tensorflow::OpKernelContext* context);

// The bits of a float16 tensor.
inline const uint16_t* HalfData(const tensorflow::Tensor& tensor) {
  return static_cast<const uint16_t*>(tensor.data());
}

// The float32 values of a float32 or float16 tensor.
class Operand {
 public:
  Operand(const tensorflow::Tensor& tensor, const Kernels& kernels, const Parallel& parallel);
  const float* data() const { return data_; }

 private:
  Scratch converted_;
  const float* data_;
};

// Where a kernel writes float32 results for a float32 or float16 tensor.
class Result {
 public:
  explicit Result(tensorflow::Tensor* tensor);
  float* data() { return data_; }
  // Rounds to the tensor's type, to nearest.
  void Round(bool nanoo, const Kernels& kernels, const Parallel& parallel);

 private:
  tensorflow::Tensor* tensor_;
  Scratch sums_;
  float* data_;
};

// Points `data` at a bias of one float32 value a column; returns an error, or "".
std::string ReadBias(const tensorflow::Tensor& bias, int64_t columns, const float** data);

// Base of all kernels that check their input.
class NamedKernel : public tensorflow::OpKernel {
 public:
  using OpKernel::OpKernel;

 protected:
  // An InvalidArgument status that names the op.
  absl::Status Error(const std::string& message) const;
};

// Base of the tile ops' kernels: reads and keeps the attributes of IPU_TF_TILE_ATTRS.
class TileKernel : public NamedKernel {
 public:
  explicit TileKernel(tensorflow::OpKernelConstruction* context);

 protected:
  // The arithmetic of one execution; counts it where rounding is stochastic.
  Numerics CallNumerics() const;

  std::vector<int64_t> plan_;
  Numerics numerics_;

 private:
  uint64_t stream_ = 0;
};

}  // namespace ipu_tf

// Returns from Compute with an error unless `message` is empty.
#define IPU_TF_CHECK(context, message)                                   \
  do {                                                                   \
    const std::string ipu_tf_message = (message);                        \
    OP_REQUIRES(context, ipu_tf_message.empty(), Error(ipu_tf_message)); \
  } while (false)

#endif  // IPU_TF_OPS_TF_TILE_KERNEL_H_
