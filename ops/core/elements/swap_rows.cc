#include "swap_rows.h"

#include <algorithm>

namespace ipu_tf {

void SwapRows(const float* x, int64_t outer, int64_t inner, int64_t row_floats, float* y, const Parallel& parallel) {
  constexpr int64_t kFloatsOfItem = int64_t{1} << 16;
  const int64_t of_item = std::max<int64_t>(1, kFloatsOfItem / (outer * row_floats));
  ForFloats(outer * inner * row_floats, parallel)(CeilDivide(inner, of_item), [&](int64_t item) {
    for (int64_t j = item * of_item; j < std::min(inner, (item + 1) * of_item); ++j) {
      for (int64_t i = 0; i < outer; ++i) {
        std::copy_n(x + (i * inner + j) * row_floats, row_floats, y + (j * outer + i) * row_floats);
      }
    }
  });
}

}  // namespace ipu_tf
