// The ranges of pixels of dy whose products the filter gradient sums from zero.
#ifndef IPU_TF_OPS_CORE_FILTER_PIECES_H_
#define IPU_TF_OPS_CORE_FILTER_PIECES_H_

#include <algorithm>
#include <vector>

#include "../kernels/kernels.h"
#include "../ordered_sums.h"
#include "../parallel.h"
#include "../plan/plan.h"
#include "../scratch.h"
#include "conv_shape.h"

namespace ipu_tf {

// Filters up to this size are summed in groups of pieces that run side by side, in float32, where the order is
// free. Their number must not depend on the threads: results would.
constexpr int64_t kSmallFilterFloats = int64_t{40} << 10;
constexpr int64_t kFilterGroups = 16;

struct FilterPiece {
  int64_t image_begin, image_end, row_begin, row_end, column_begin, column_end;
};

inline bool SumsSideBySide(const ConvShape& shape, const Numerics& numerics) {
  return numerics.type == ElementType::kFloat && shape.filter_floats() <= kSmallFilterFloats;
}

// The plan's parts in order; where the order within a part is free, each is sliced by images.
inline std::vector<FilterPiece> FilterPieces(const ConvShape& shape, const ConvPlan& plan, bool side_by_side) {
  const Partition images{shape.batch, plan.batch, 1};
  const Partition rows{shape.out_rows, plan.field_rows, 1};
  const Partition columns{shape.out_columns, plan.field_columns, plan.grain};
  const int64_t parts = images.parts * rows.parts * columns.parts;
  const int64_t slices = side_by_side ? CeilDivide(kFilterGroups, parts) : 1;
  std::vector<FilterPiece> pieces;
  for (int64_t i = 0; i < images.parts; ++i) {
    const int64_t count = images.end(i) - images.begin(i);
    const Partition slice{count, std::min(slices, count), 1};
    for (int64_t r = 0; r < rows.parts; ++r) {
      for (int64_t c = 0; c < columns.parts; ++c) {
        for (int64_t s = 0; s < slice.parts; ++s) {
          pieces.push_back({images.begin(i) + slice.begin(s), images.begin(i) + slice.end(s), rows.begin(r),
                            rows.end(r), columns.begin(c), columns.end(c)});
        }
      }
    }
  }
  return pieces;
}

// At most so many groups of pieces, each summed by sum(begin, end, to) into `floats` of its own, then the sums in
// order.
template <typename Sum>
void SumGroupsOfPieces(int64_t pieces, int64_t most_groups, int64_t floats, float* dw, const Kernels& kernels,
                       const Parallel& parallel, const Sum& sum) {
  const int64_t groups = std::min(most_groups, pieces);
  Scratch sums(groups * floats);
  parallel(groups, [&](int64_t index) {
    sum(pieces * index / groups, pieces * (index + 1) / groups, sums.data() + index * floats);
  });
  AddInOrder(sums.data(), groups, floats, dw, kernels, parallel);
}

}  // namespace ipu_tf

#endif  // IPU_TF_OPS_CORE_FILTER_PIECES_H_
