// Rows added up by segments, and rows picked by numbers.
#ifndef IPU_TF_OPS_CORE_SEGMENTS_H_
#define IPU_TF_OPS_CORE_SEGMENTS_H_

#include <cstdint>

#include "../kernels/kernels.h"
#include "../parallel.h"

namespace ipu_tf {

// Which row of `x` each row is, unless a number is negative: then the row is zeros.
struct PickedRows {
  const int32_t* from;  // nullptr: the rows themselves.
  const int32_t* kept;  // Likewise: all.
};

// sums[id[r]] += row r, in the order of the rows, from zero. Rows of a negative number are left out; others must be
// below `segments`.
void SumSegments(const float* x, const PickedRows& picked, const int32_t* id, int64_t rows, int64_t columns,
                 int64_t segments, float* sums, const Kernels& kernels, const Parallel& parallel);

// y[r] = x[from[r]], or zeros where id[r] is negative.
void GatherRows(const float* x, const int32_t* from, const int32_t* id, int64_t rows, int64_t columns, float* y,
                const Parallel& parallel);

}  // namespace ipu_tf

#endif  // IPU_TF_OPS_CORE_SEGMENTS_H_
