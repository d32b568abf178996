#include "dropout.h"

#include <algorithm>
#include <cmath>

namespace ipu_tf {
namespace {

constexpr int64_t kNumbersPerCall = 4;

// The smallest value of a number's low bits at which it is at least `rate`.
uint32_t Threshold(int bits, float rate) {
  return static_cast<uint32_t>(std::ceil(std::ldexp(std::clamp(rate, 0.0f, 1.0f), bits)));
}

}  // namespace

void DrawKept(uint64_t key, const uint64_t counter[2], int bits, float rate, uint8_t* kept, int64_t count,
              const Kernels& kernels, const Parallel& parallel) {
  const PhiloxThreshold random{key, {counter[0], counter[1]}, bits, Threshold(bits, rate)};
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

void ScaleKept(const uint16_t* x, const uint8_t* kept, float scale, uint16_t* y, int64_t count, const Kernels& kernels,
               const Parallel& parallel) {
  constexpr int64_t kBlock = 4096;
  ForFloats(count, parallel)(CeilDivide(count, kBlock), [&](int64_t block) {
    const int64_t begin = block * kBlock, length = std::min(kBlock, count - begin);
    float values[kBlock];
    kernels.half_to_float(x + begin, values, length);
    kernels.scale_kept(values, kept + begin, scale, values, length);
    kernels.float_to_half(values, y + begin, length, Overflow::kInfinity);
  });
}

}  // namespace ipu_tf
