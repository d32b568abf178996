// Memory that is read next is fetched into the caches while something else is computed.
#ifndef IPU_TF_OPS_CORE_FETCHING_H_
#define IPU_TF_OPS_CORE_FETCHING_H_

#include <cstdint>

#include "parallel.h"
#include "streaming.h"

namespace ipu_tf {

// Asks for floats that are read soon.
inline void FetchToRead(const float* p, int64_t floats) {
  for (int64_t i = 0; i < floats; i += kCacheLineFloats) __builtin_prefetch(p + i);
}

// Asks for floats that are written soon.
inline void FetchToWrite(const float* p, int64_t floats) {
  for (int64_t i = 0; i < floats; i += kCacheLineFloats) __builtin_prefetch(p + i, 1);
}

// Floats that are fetched into the second cache, a stretch at a time.
class Fetching {
 public:
  Fetching() = default;
  // All of them once Next() has been called so many times.
  Fetching(const float* begin, const float* end, int64_t times)
      : next_(begin), end_(end), lines_(CeilDivide(CeilDivide(end - begin, kCacheLineFloats), times)) {}

  void Next() {
    constexpr int kReads = 0, kSecondCache = 2;
    for (int64_t i = 0; i < lines_ && next_ < end_; ++i, next_ += kCacheLineFloats) {
      __builtin_prefetch(next_, kReads, kSecondCache);
    }
  }

 private:
  const float *next_ = nullptr, *end_ = nullptr;
  int64_t lines_ = 0;
};

}  // namespace ipu_tf

#endif  // IPU_TF_OPS_CORE_FETCHING_H_
