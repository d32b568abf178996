// Stochastic rounding to float16 (docs/numerics.md, "round16").
#ifndef IPU_TF_OPS_CORE_ROUNDING_H_
#define IPU_TF_OPS_CORE_ROUNDING_H_

#include <cstdint>

#include "random.h"

namespace ipu_tf {

// Rounds values in place; they stay float32. Consumes 16 bits for each.
void RoundStochastic(float* values, int64_t count, bool nanoo, Random16* random);

}  // namespace ipu_tf

#endif  // IPU_TF_OPS_CORE_ROUNDING_H_
