#include "rounding.h"

#include <algorithm>
#include <cstring>

namespace ipu_tf {
namespace {

constexpr int kStretch = 256;
constexpr uint32_t kLargestHalf = 0x477fe000;     // 65504.
constexpr uint32_t kSmallestNormal = 0x38800000;  // 2^-14.
constexpr uint32_t kInfinity = 0x7f800000;
constexpr uint32_t kNan = 0x7fc00000;

inline uint32_t ToBits(float v) {
  uint32_t bits;
  std::memcpy(&bits, &v, sizeof(bits));
  return bits;
}

inline float FromBits(uint32_t bits) {
  float v;
  std::memcpy(&v, &bits, sizeof(v));
  return v;
}

// Free of branches, so that the compiler turns the loop over it into vectors.
inline float RoundOne(float value, uint32_t random, uint32_t overflow) {
  const uint32_t magnitude = ToBits(value) & 0x7fffffffu;
  const uint32_t sign = ToBits(value) & 0x80000000u;
  // Normal float16 numbers keep 10 of 23 mantissa bits: the 13 below, times 8, are floor(f * 65536).
  const uint32_t normal = (magnitude + (random >> 3)) & ~0x1fffu;
  // Below 2^-14 the spacing is 2^-24. (Clamped, so that the conversion to int is defined.)
  const float clamped = magnitude < kSmallestNormal ? FromBits(magnitude) : 0.0f;
  const float steps = clamped * 16777216.0f;
  const int32_t whole = static_cast<int32_t>(steps);
  const int32_t fraction = static_cast<int32_t>((steps - static_cast<float>(whole)) * 65536.0f);
  const int32_t up = (fraction + static_cast<int32_t>(random)) >> 16;
  const uint32_t subnormal = ToBits(static_cast<float>(whole + up) * (1.0f / 16777216.0f));
  uint32_t rounded = magnitude < kSmallestNormal ? subnormal : normal;
  rounded = rounded > kLargestHalf ? overflow : rounded;
  rounded = magnitude > kInfinity ? kNan : rounded;
  return FromBits(rounded | sign);
}

}  // namespace

void RoundStochastic(float* values, int64_t count, bool nanoo, Random16* random) {
  uint16_t bits[kStretch];
  const uint32_t overflow = nanoo ? kNan : kLargestHalf;
  for (int64_t begin = 0; begin < count; begin += kStretch) {
    const int64_t n = std::min<int64_t>(kStretch, count - begin);
    random->Fill(bits, n);
    float* v = values + begin;
    for (int64_t i = 0; i < n; ++i) v[i] = RoundOne(v[i], bits[i], overflow);
  }
}

}  // namespace ipu_tf
