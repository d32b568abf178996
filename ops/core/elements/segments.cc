#include "segments.h"

#include <algorithm>

namespace ipu_tf {

void SumSegments(const float* x, const PickedRows& picked, const int32_t* id, int64_t rows, int64_t columns,
                 int64_t segments, float* sums, const Kernels& kernels, const Parallel& parallel) {
  // Threads share out whole cache lines of columns, so the order of a sum does not depend on their number.
  constexpr int64_t kLine = 16;
  const Parallel threads = ForFloats(rows * columns, parallel);
  const int64_t lines = CeilDivide(columns, kLine);
  const int64_t parts = std::clamp<int64_t>(lines, 1, std::max(1, threads.threads));
  threads(parts, [&](int64_t part) {
    const int64_t begin = part * lines / parts * kLine;
    const int64_t width = std::min(columns, (part + 1) * lines / parts * kLine) - begin;
    kernels.segment_sums({x + begin, columns, picked.from, picked.kept, id, rows, segments, width, sums + begin});
  });
}

void GatherRows(const float* x, const int32_t* from, const int32_t* id, int64_t rows, int64_t columns, float* y,
                const Parallel& parallel) {
  constexpr int64_t kRows = 1024;
  ForFloats(rows * columns, parallel)(CeilDivide(rows, kRows), [&](int64_t block) {
    for (int64_t r = block * kRows; r < std::min(rows, (block + 1) * kRows); ++r) {
      float* to = y + r * columns;
      if (id[r] >= 0) {
        std::copy_n(x + from[r] * columns, columns, to);
      } else {
        std::fill_n(to, columns, 0.0f);
      }
    }
  });
}

}  // namespace ipu_tf
