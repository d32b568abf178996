#include "dropout.h"

#include <algorithm>
#include <cmath>

namespace ipu_tf {
namespace {

constexpr int64_t kNumbersPerCall = 4;
// A number is its low bits, as the fraction of a float32 in [1, 2), less 1.
constexpr float kNumbers = 8388608.0f;

// The smallest value of a number's low bits at which it is at least `rate`.
uint32_t Threshold(float rate) { return static_cast<uint32_t>(std::ceil(std::clamp(rate, 0.0f, 1.0f) * kNumbers)); }

}  // namespace

void DrawKept(uint64_t key, const uint64_t counter[2], float rate, uint8_t* kept, int64_t count, const Kernels& kernels,
              const Parallel& parallel) {
  const PhiloxThreshold random{key, {counter[0], counter[1]}, Threshold(rate)};
  ForStretches(count, ForFloats(count, parallel), [&](int64_t begin, int64_t length) {
    const int64_t first = begin / kNumbersPerCall, whole = length / kNumbersPerCall, left = length % kNumbersPerCall;
    kernels.philox_at_least(random, static_cast<uint64_t>(first), whole, kept + begin);
    if (left == 0) return;
    uint8_t last[kNumbersPerCall];
    kernels.philox_at_least(random, static_cast<uint64_t>(first + whole), 1, last);
    std::copy_n(last, left, kept + begin + whole * kNumbersPerCall);
  });
}

void ScaleKept(const float* x, const uint8_t* kept, float scale, float* y, int64_t count, const Kernels& kernels,
               const Parallel& parallel) {
  ForStretches(count, ForFloats(count, parallel), [&](int64_t begin, int64_t length) {
    kernels.scale_kept(x + begin, kept + begin, scale, y + begin, length);
  });
}

}  // namespace ipu_tf
