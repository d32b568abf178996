#include "tree_sum.h"

#include <algorithm>
#include <array>

namespace ipu_tf {
namespace {

constexpr int64_t kStretch = 1024;  // A stretch of each level stays in the first cache.

void Add(const float* a, const float* b, float* y, int64_t count) {
#pragma GCC ivdep
  for (int64_t i = 0; i < count; ++i) y[i] = a[i] + b[i];
}

// The largest power of two below `n`, which is at least 2.
int64_t LeftOf(int64_t n) {
  int64_t left = 1;
  while (2 * left < n) left *= 2;
  return left;
}

// Sums `n` summands from element `begin` on.
void Sum(const float* const* summands, int64_t n, int64_t begin, float* y, int64_t count) {
  if (n == 1) {
    std::copy_n(summands[0] + begin, count, y);
  } else if (n == 2) {
    Add(summands[0] + begin, summands[1] + begin, y, count);
  } else {
    const int64_t left = LeftOf(n);
    Sum(summands, left, begin, y, count);
    if (n - left == 1) {
      Add(y, summands[left] + begin, y, count);
    } else {
      std::array<float, kStretch> right;
      Sum(summands + left, n - left, begin, right.data(), count);
      Add(y, right.data(), y, count);
    }
  }
}

}  // namespace

void TreeSum(const std::vector<const float*>& summands, float* y, int64_t count, const Parallel& parallel) {
  const int64_t n = static_cast<int64_t>(summands.size());
  ForStretches(count, ForFloats(count * n, parallel), [&](int64_t begin, int64_t length) {
    for (int64_t i = begin; i < begin + length; i += kStretch) {
      Sum(summands.data(), n, i, y + i, std::min(kStretch, begin + length - i));
    }
  });
}

}  // namespace ipu_tf
