#include "chains.h"

#include <immintrin.h>

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

void Gelu(const float* x, bool approximate, float* y, int64_t count, const Kernels& kernels, const Parallel& parallel) {
  ForStretches(count, ForFloats(count, parallel),
               [&](int64_t begin, int64_t length) { kernels.gelu(x + begin, approximate, y + begin, length); });
}

void GeluGradient(const float* x, const float* dy, bool approximate, float* dx, int64_t count, const Kernels& kernels,
                  const Parallel& parallel) {
  ForStretches(count, ForFloats(count, parallel), [&](int64_t begin, int64_t length) {
    kernels.gelu_gradient(x + begin, dy + begin, approximate, dx + begin, length);
  });
}

}  // namespace ipu_tf
