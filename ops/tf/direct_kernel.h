// Kernels that a program of XLA's can call without the objects that TensorFlow makes for each call of a kernel.
#ifndef IPU_TF_OPS_TF_DIRECT_KERNEL_H_
#define IPU_TF_OPS_TF_DIRECT_KERNEL_H_

#include <cstdint>

#include "../core/parallel.h"
#include "absl/status/status.h"
#include "absl/types/span.h"

namespace ipu_tf {

// A dense, row-major operand or result.
struct View {
  void* data;
  absl::Span<const int64_t> dimensions;
};

class DirectKernel {
 public:
  virtual ~DirectKernel() = default;
  // Whether `Run` does what `Compute` does, for the attributes that the kernel was made with.
  virtual bool IsDirect() const = 0;
  // Computes one result, whose memory is set aside. May be called from several threads.
  virtual absl::Status Run(absl::Span<const View> operands, const View& result, const Parallel& parallel) = 0;
};

}  // namespace ipu_tf

#endif  // IPU_TF_OPS_TF_DIRECT_KERNEL_H_
