// Sums that threads have made side by side, added up in an order that does not depend on who made which.
#ifndef IPU_TF_OPS_CORE_ORDERED_SUMS_H_
#define IPU_TF_OPS_CORE_ORDERED_SUMS_H_

#include <algorithm>
#include <cstring>

#include "kernels/kernels.h"
#include "parallel.h"

namespace ipu_tf {

// y = (sums[0] + sums[1]) + ..., `count` of them of `floats` each, one after the other in memory.
inline void AddInOrder(const float* sums, int64_t count, int64_t floats, float* y, const Kernels& kernels,
                       const Parallel& parallel) {
  constexpr int64_t kStretchFloats = 1024;  // Stay in the first cache.
  ForFloats(count * floats, parallel)(CeilDivide(floats, kStretchFloats), [&](int64_t stretch) {
    const int64_t begin = stretch * kStretchFloats, length = std::min(kStretchFloats, floats - begin);
    std::memcpy(y + begin, sums + begin, length * sizeof(float));
    for (int64_t i = 1; i < count; ++i) kernels.add(sums + i * floats + begin, y + begin, length);
  });
}

}  // namespace ipu_tf

#endif  // IPU_TF_OPS_CORE_ORDERED_SUMS_H_
