// Looks for NaN, infinity and zero among the values of a tensor.
#pragma once

#include <immintrin.h>

#include <algorithm>
#include <cstdint>

#include "tensorflow/core/framework/tensor.h"

namespace ipu_tf {

struct Found {
  bool nan = false;
  bool infinity = false;
  bool zero = false;
};

inline __m256i Or(__m256i a, __m256i b) { return _mm256_or_si256(a, b); }

// What float values of magnitude bits `m` are, eight at a time.
inline Found ScanFloats(const float* values, int64_t count) {
  const __m256i infinity = _mm256_set1_epi32(0x7f800000), magnitude = _mm256_set1_epi32(0x7fffffff);
  __m256i nan = _mm256_setzero_si256(), infinite = nan, zero = nan;
  int64_t i = 0;
  const auto scan = [&](const float* p) {
    const __m256i m = _mm256_and_si256(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)), magnitude);
    nan = Or(nan, _mm256_cmpgt_epi32(m, infinity));
    infinite = Or(infinite, _mm256_cmpeq_epi32(m, infinity));
    zero = Or(zero, _mm256_cmpeq_epi32(m, _mm256_setzero_si256()));
  };
  for (; i + 8 <= count; i += 8) scan(values + i);
  if (i < count) {
    float tail[8];
    std::fill(tail, tail + 8, 1.0f);
    std::copy(values + i, values + count, tail);
    scan(tail);
  }
  const auto any = [](__m256i v) { return !_mm256_testz_si256(v, v); };
  return {any(nan), any(infinite), any(zero)};
}

inline Found ScanHalves(const uint16_t* values, int64_t count) {
  const __m256i infinity = _mm256_set1_epi16(0x7c00), magnitude = _mm256_set1_epi16(0x7fff);
  __m256i nan = _mm256_setzero_si256(), infinite = nan, zero = nan;
  int64_t i = 0;
  const auto scan = [&](const uint16_t* p) {
    const __m256i m = _mm256_and_si256(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)), magnitude);
    nan = Or(nan, _mm256_cmpgt_epi16(m, infinity));
    infinite = Or(infinite, _mm256_cmpeq_epi16(m, infinity));
    zero = Or(zero, _mm256_cmpeq_epi16(m, _mm256_setzero_si256()));
  };
  for (; i + 16 <= count; i += 16) scan(values + i);
  if (i < count) {
    uint16_t tail[16];
    std::fill(tail, tail + 16, uint16_t{0x3c00});
    std::copy(values + i, values + count, tail);
    scan(tail);
  }
  const auto any = [](__m256i v) { return !_mm256_testz_si256(v, v); };
  return {any(nan), any(infinite), any(zero)};
}

inline Found Scan(const tensorflow::Tensor& tensor) {
  if (tensor.dtype() == tensorflow::DT_FLOAT) {
    return ScanFloats(static_cast<const float*>(tensor.data()), tensor.NumElements());
  }
  if (tensor.dtype() == tensorflow::DT_HALF) {
    return ScanHalves(static_cast<const uint16_t*>(tensor.data()), tensor.NumElements());
  }
  return {};
}

}  // namespace ipu_tf
