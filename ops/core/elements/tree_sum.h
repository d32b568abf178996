// Sums of tensors of one size by a balanced tree.
#ifndef IPU_TF_OPS_CORE_TREE_SUM_H_
#define IPU_TF_OPS_CORE_TREE_SUM_H_

#include <cstdint>
#include <vector>

#include "../parallel.h"

namespace ipu_tf {

// y = the sum of all summands: neighbours are added, 0 and 1, 2 and 3; then their sums, 0 and 2; and so on. A last one
// without a neighbour waits. In this order the bits do not depend on how many processes share the work.
void TreeSum(const std::vector<const float*>& summands, float* y, int64_t count, const Parallel& parallel);

}  // namespace ipu_tf

#endif  // IPU_TF_OPS_CORE_TREE_SUM_H_
