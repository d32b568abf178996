// Rows in another order: what was [outer, inner, row] becomes [inner, outer, row].
#ifndef IPU_TF_OPS_CORE_SWAP_ROWS_H_
#define IPU_TF_OPS_CORE_SWAP_ROWS_H_

#include <cstdint>

#include "../parallel.h"

namespace ipu_tf {

// y[j][i] = x[i][j] for i < outer, j < inner, of rows of so many floats.
void SwapRows(const float* x, int64_t outer, int64_t inner, int64_t row_floats, float* y, const Parallel& parallel);

}  // namespace ipu_tf

#endif  // IPU_TF_OPS_CORE_SWAP_ROWS_H_
