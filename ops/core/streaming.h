// Results that are too large to be read from the caches again are written past them.
#ifndef IPU_TF_OPS_CORE_STREAMING_H_
#define IPU_TF_OPS_CORE_STREAMING_H_

#include <xmmintrin.h>

#include <cstdint>

namespace ipu_tf {

constexpr int kCacheLineFloats = 16;  // 64 bytes on x86-64.

// Measured on two cores of a Zen 5 with 1 MiB of L2 cache each and 32 MiB of L3 cache: products whose results take
// 25 MB run 1.5 times as fast, steps of MobileNet and of a residual network 1.15 and 1.06 times from 8 MiB on; from
// 1 MiB on a CNN and the residual network take longer.
constexpr int64_t kStreamedBytes = int64_t{8} << 20;

inline bool StreamingPays(int64_t floats) { return 4 * floats >= kStreamedBytes; }

// Whether rows begin at lines of the cache.
inline bool BeginAtLines(float* const* rows, int64_t count, int64_t column) {
  uintptr_t bits = 0;
  for (int64_t r = 0; r < count; ++r) bits |= reinterpret_cast<uintptr_t>(rows[r] + column);
  return bits % (kCacheLineFloats * sizeof(float)) == 0;
}

// What was streamed is written before anything that this thread writes later.
inline void StreamFence() { _mm_sfence(); }

}  // namespace ipu_tf

#endif  // IPU_TF_OPS_CORE_STREAMING_H_
