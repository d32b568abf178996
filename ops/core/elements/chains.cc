#include "chains.h"

#include <immintrin.h>

#include <cmath>

namespace ipu_tf {
namespace {

constexpr int64_t kLanes = 8;

template <bool Square, bool Add>
void Difference(const float* a, const float* b, float factor, float* y, int64_t count) {
#pragma GCC ivdep
  for (int64_t i = 0; i < count; ++i) {
    const float scaled = ((Square ? a[i] * a[i] : a[i]) - b[i]) * factor;
    y[i] = Add ? b[i] + scaled : scaled;
  }
}

// y = mean * rate / (sqrt(square) + epsilon), subtracted from `weights` unless they are null.
template <bool Subtract>
void Step(const float* weights, const float* mean, const float* square, float rate, float epsilon, float* y,
          int64_t count) {
  const __m256 rates = _mm256_set1_ps(rate), epsilons = _mm256_set1_ps(epsilon);
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    const __m256 root = _mm256_sqrt_ps(_mm256_loadu_ps(square + i));
    const __m256 scaled = _mm256_mul_ps(_mm256_loadu_ps(mean + i), rates);
    const __m256 step = _mm256_div_ps(scaled, _mm256_add_ps(root, epsilons));
    _mm256_storeu_ps(y + i, Subtract ? _mm256_sub_ps(_mm256_loadu_ps(weights + i), step) : step);
  }
  for (; i < count; ++i) {
    const float step = mean[i] * rate / (std::sqrt(square[i]) + epsilon);
    y[i] = Subtract ? weights[i] - step : step;
  }
}

// A compiler makes branches of it, which nothing predicts.
void MaskedByRelu6(const float* dy, const float* x, float* dx, int64_t count) {
  const __m256 one = _mm256_set1_ps(1.0f), six = _mm256_set1_ps(6.0f);
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    const __m256 v = _mm256_loadu_ps(x + i);
    const __m256 positive = _mm256_cmp_ps(v, _mm256_setzero_ps(), _CMP_GT_OQ);
    const __m256 inside = _mm256_and_ps(positive, _mm256_cmp_ps(v, six, _CMP_LT_OQ));
    _mm256_storeu_ps(dx + i, _mm256_mul_ps(_mm256_loadu_ps(dy + i), _mm256_and_ps(inside, one)));
  }
  for (; i < count; ++i) dx[i] = dy[i] * (x[i] > 0.0f && x[i] < 6.0f ? 1.0f : 0.0f);
}

}  // namespace

void ScaledDifference(const float* a, const float* b, float factor, bool square, bool add, float* y, int64_t count,
                      const Parallel& parallel) {
  const auto difference = square ? (add ? Difference<true, true> : Difference<true, false>)
                                 : (add ? Difference<false, true> : Difference<false, false>);
  ForStretches(count, ForFloats(count, parallel),
               [&](int64_t begin, int64_t length) { difference(a + begin, b + begin, factor, y + begin, length); });
}

void AdamStep(const float* mean, const float* square, float rate, float epsilon, float* y, int64_t count,
              const Parallel& parallel) {
  ForStretches(count, ForFloats(count, parallel), [&](int64_t begin, int64_t length) {
    Step<false>(nullptr, mean + begin, square + begin, rate, epsilon, y + begin, length);
  });
}

void AdamUpdate(const float* weights, const float* mean, const float* square, float rate, float epsilon, float* y,
                int64_t count, const Parallel& parallel) {
  ForStretches(count, ForFloats(count, parallel), [&](int64_t begin, int64_t length) {
    Step<true>(weights + begin, mean + begin, square + begin, rate, epsilon, y + begin, length);
  });
}

void ScaledUpdate(const float* weights, const float* gradient, float rate, float* y, int64_t count,
                  const Parallel& parallel) {
  ForStretches(count, ForFloats(count, parallel), [&](int64_t begin, int64_t length) {
    const float *w = weights + begin, *g = gradient + begin;
    float* to = y + begin;
#pragma GCC ivdep
    for (int64_t i = 0; i < length; ++i) to[i] = w[i] - g[i] * rate;
  });
}

void Relu6Gradient(const float* dy, const float* x, float* dx, int64_t count, const Parallel& parallel) {
  ForStretches(count, ForFloats(count, parallel),
               [&](int64_t begin, int64_t length) { MaskedByRelu6(dy + begin, x + begin, dx + begin, length); });
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
