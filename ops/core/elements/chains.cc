#include "chains.h"

#include <immintrin.h>

#include <algorithm>
#include <cmath>

namespace ipu_tf {
namespace {

constexpr int64_t kLanes = 8;

template <bool Square>
void Difference(const float* a, const float* b, float factor, float* y, int64_t count) {
  for (int64_t i = 0; i < count; ++i) y[i] = ((Square ? a[i] * a[i] : a[i]) - b[i]) * factor;
}

void Step(const float* mean, const float* square, float rate, float epsilon, float* y, int64_t count) {
  const __m256 rates = _mm256_set1_ps(rate), epsilons = _mm256_set1_ps(epsilon);
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    const __m256 root = _mm256_sqrt_ps(_mm256_loadu_ps(square + i));
    const __m256 scaled = _mm256_mul_ps(_mm256_loadu_ps(mean + i), rates);
    _mm256_storeu_ps(y + i, _mm256_div_ps(scaled, _mm256_add_ps(root, epsilons)));
  }
  for (; i < count; ++i) y[i] = mean[i] * rate / (std::sqrt(square[i]) + epsilon);
}

float Dot(const float* a, const float* b, int64_t count) {
  float sums[4 * kLanes] = {};
  int64_t i = 0;
  for (; i + 4 * kLanes <= count; i += 4 * kLanes) {
    for (int64_t j = 0; j < 4 * kLanes; ++j) sums[j] += a[i + j] * b[i + j];
  }
  for (int64_t j = 0; i < count; ++i, ++j) sums[j] += a[i] * b[i];
  for (int64_t width = 2 * kLanes; width > 0; width /= 2) {
    for (int64_t j = 0; j < width; ++j) sums[j] += sums[width + j];
  }
  return sums[0];
}

}  // namespace

void ScaledDifference(const float* a, const float* b, float factor, bool square, float* y, int64_t count,
                      const Parallel& parallel) {
  ForStretches(count, ForFloats(count, parallel), [&](int64_t begin, int64_t length) {
    (square ? Difference<true> : Difference<false>)(a + begin, b + begin, factor, y + begin, length);
  });
}

void AdamStep(const float* mean, const float* square, float rate, float epsilon, float* y, int64_t count,
              const Parallel& parallel) {
  ForStretches(count, ForFloats(count, parallel), [&](int64_t begin, int64_t length) {
    Step(mean + begin, square + begin, rate, epsilon, y + begin, length);
  });
}

void SoftmaxGradient(const float* y, const float* dy, int64_t rows, int64_t columns, float* dx,
                     const Parallel& parallel) {
  constexpr int64_t kRows = 64;
  ForFloats(rows * columns, parallel)(CeilDivide(rows, kRows), [&](int64_t block) {
    for (int64_t row = block * kRows; row < std::min(rows, (block + 1) * kRows); ++row) {
      const int64_t at = row * columns;
      const float sum = Dot(dy + at, y + at, columns);
      for (int64_t i = at; i < at + columns; ++i) dx[i] = (dy[i] - sum) * y[i];
    }
  });
}

}  // namespace ipu_tf
