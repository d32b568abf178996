#include "chains.h"

#include <immintrin.h>

#include <algorithm>
#include <cmath>
#include <initializer_list>

#include "../streaming.h"

namespace ipu_tf {
namespace {

constexpr int64_t kLanes = 8;

// y[i] for all i: `lanes(i)` gives those of a vector, `one(i)` a single one.
template <typename LanesAt, typename OneAt>
void Write(float* y, int64_t count, bool stream, const LanesAt& lanes, const OneAt& one) {
  int64_t i = 0;
  if (stream) {
    for (; i + kLanes <= count; i += kLanes) _mm256_stream_ps(y + i, lanes(i));
    StreamFence();
  }
  for (; i + kLanes <= count; i += kLanes) _mm256_storeu_ps(y + i, lanes(i));
  for (; i < count; ++i) y[i] = one(i);
}

// Whether to write results past the caches. What lies where an operand does is in them already.
bool Streams(float* y, int64_t count, std::initializer_list<const float*> operands) {
  return StreamingPays(count) && BeginAtLines(&y, 1, 0) && std::count(operands.begin(), operands.end(), y) == 0;
}

template <bool Square, bool Add>
void Difference(const float* a, const float* b, float factor, float* y, int64_t count, bool stream) {
  const __m256 factors = _mm256_set1_ps(factor);
  Write(
      y, count, stream,
      [&](int64_t i) {
        const __m256 from = _mm256_loadu_ps(a + i), less = _mm256_loadu_ps(b + i);
        const __m256 apart = _mm256_sub_ps(Square ? _mm256_mul_ps(from, from) : from, less);
        const __m256 scaled = _mm256_mul_ps(apart, factors);
        return Add ? _mm256_add_ps(less, scaled) : scaled;
      },
      [&](int64_t i) {
        const float scaled = ((Square ? a[i] * a[i] : a[i]) - b[i]) * factor;
        return Add ? b[i] + scaled : scaled;
      });
}

// y = mean * rate / (sqrt(square) + epsilon), subtracted from `weights` unless they are null.
template <bool Subtract>
void Step(const float* weights, const float* mean, const float* square, float rate, float epsilon, float* y,
          int64_t count, bool stream) {
  const __m256 rates = _mm256_set1_ps(rate), epsilons = _mm256_set1_ps(epsilon);
  Write(
      y, count, stream,
      [&](int64_t i) {
        const __m256 root = _mm256_sqrt_ps(_mm256_loadu_ps(square + i));
        const __m256 scaled = _mm256_mul_ps(_mm256_loadu_ps(mean + i), rates);
        const __m256 step = _mm256_div_ps(scaled, _mm256_add_ps(root, epsilons));
        return Subtract ? _mm256_sub_ps(_mm256_loadu_ps(weights + i), step) : step;
      },
      [&](int64_t i) {
        const float step = mean[i] * rate / (std::sqrt(square[i]) + epsilon);
        return Subtract ? weights[i] - step : step;
      });
}

// A compiler makes branches of it, which nothing predicts.
void MaskedByRelu6(const float* dy, const float* x, float* dx, int64_t count, bool stream) {
  const __m256 one = _mm256_set1_ps(1.0f), six = _mm256_set1_ps(6.0f);
  Write(
      dx, count, stream,
      [&](int64_t i) {
        const __m256 v = _mm256_loadu_ps(x + i);
        const __m256 positive = _mm256_cmp_ps(v, _mm256_setzero_ps(), _CMP_GT_OQ);
        const __m256 inside = _mm256_and_ps(positive, _mm256_cmp_ps(v, six, _CMP_LT_OQ));
        return _mm256_mul_ps(_mm256_loadu_ps(dy + i), _mm256_and_ps(inside, one));
      },
      [&](int64_t i) { return dy[i] * (x[i] > 0.0f && x[i] < 6.0f ? 1.0f : 0.0f); });
}

}  // namespace

void ScaledDifference(const float* a, const float* b, float factor, bool square, bool add, float* y, int64_t count,
                      const Parallel& parallel) {
  const auto difference = square ? (add ? Difference<true, true> : Difference<true, false>)
                                 : (add ? Difference<false, true> : Difference<false, false>);
  const bool stream = Streams(y, count, {a, b});
  ForStretches(count, ForFloats(count, parallel), [&](int64_t begin, int64_t length) {
    difference(a + begin, b + begin, factor, y + begin, length, stream);
  });
}

void AdamStep(const float* mean, const float* square, float rate, float epsilon, float* y, int64_t count,
              const Parallel& parallel) {
  ForStretches(count, ForFloats(count, parallel), [&](int64_t begin, int64_t length) {
    Step<false>(nullptr, mean + begin, square + begin, rate, epsilon, y + begin, length, false);
  });
}

void AdamUpdate(const float* weights, const float* mean, const float* square, float rate, float epsilon, float* y,
                int64_t count, const Parallel& parallel) {
  const bool stream = Streams(y, count, {weights, mean, square});
  ForStretches(count, ForFloats(count, parallel), [&](int64_t begin, int64_t length) {
    Step<true>(weights + begin, mean + begin, square + begin, rate, epsilon, y + begin, length, stream);
  });
}

void ScaledUpdate(const float* weights, const float* gradient, float rate, float* y, int64_t count,
                  const Parallel& parallel) {
  const bool stream = Streams(y, count, {weights, gradient});
  const __m256 rates = _mm256_set1_ps(rate);
  ForStretches(count, ForFloats(count, parallel), [&](int64_t begin, int64_t length) {
    const float *w = weights + begin, *g = gradient + begin;
    Write(
        y + begin, length, stream,
        [&](int64_t i) { return _mm256_sub_ps(_mm256_loadu_ps(w + i), _mm256_mul_ps(_mm256_loadu_ps(g + i), rates)); },
        [&](int64_t i) { return w[i] - g[i] * rate; });
  });
}

void Relu6Gradient(const float* dy, const float* x, float* dx, int64_t count, const Parallel& parallel) {
  const bool stream = Streams(dx, count, {dy, x});
  ForStretches(count, ForFloats(count, parallel), [&](int64_t begin, int64_t length) {
    MaskedByRelu6(dy + begin, x + begin, dx + begin, length, stream);
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
