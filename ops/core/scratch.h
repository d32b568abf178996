// Working memory that outlives a call, so that a step does not pay for page faults again and again.
#ifndef IPU_TF_OPS_CORE_SCRATCH_H_
#define IPU_TF_OPS_CORE_SCRATCH_H_

#include <cstddef>
#include <cstdint>

namespace ipu_tf {

// A buffer of uninitialised floats, 64-byte aligned, taken from a process-wide pool until destroyed.
class Scratch {
 public:
  Scratch() = default;
  explicit Scratch(int64_t floats);
  ~Scratch();
  Scratch(Scratch&& other) noexcept;
  Scratch& operator=(Scratch&& other) noexcept;
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  float* data() const { return data_; }
  // Makes room for at least this many floats; what was there is lost.
  void Reserve(int64_t floats) {
    if (static_cast<size_t>(floats) * sizeof(float) > bytes_) *this = Scratch(floats);
  }

 private:
  float* data_ = nullptr;
  size_t bytes_ = 0;
};

}  // namespace ipu_tf

#endif  // IPU_TF_OPS_CORE_SCRATCH_H_
