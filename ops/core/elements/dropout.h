// What dropout does: draws which elements stay, and scales those.
#ifndef IPU_TF_OPS_CORE_DROPOUT_H_
#define IPU_TF_OPS_CORE_DROPOUT_H_

#include <cstdint>

#include "../kernels/kernels.h"
#include "../parallel.h"

namespace ipu_tf {

// TensorFlow's uniform numbers are the mantissa of a number in [1, 2), less 1: so many low bits of what Philox draws.
constexpr int kFloatBits = 23, kHalfBits = 10;

// kept[i] = whether number i of the generator, uniform in [0, 1) and of so many `bits`, is at least `rate`.
void DrawKept(uint64_t key, const uint64_t counter[2], int bits, float rate, uint8_t* kept, int64_t count,
              const Kernels& kernels, const Parallel& parallel);

// y = x * scale where kept, else 0.
void ScaleKept(const float* x, const uint8_t* kept, float scale, float* y, int64_t count, const Kernels& kernels,
               const Parallel& parallel);

// The same of float16, rounded to nearest.
void ScaleKept(const uint16_t* x, const uint8_t* kept, float scale, uint16_t* y, int64_t count, const Kernels& kernels,
               const Parallel& parallel);

}  // namespace ipu_tf

#endif  // IPU_TF_OPS_CORE_DROPOUT_H_
