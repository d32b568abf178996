#include "depthwise.h"

#include <algorithm>

#include "depthwise_runs.h"

namespace ipu_tf {

int64_t DepthwiseLines(int64_t line_floats) {
  constexpr int64_t kFloats = int64_t{1} << 14;
  return std::max<int64_t>(1, kFloats / line_floats);
}

void DepthwiseConv(const PixelRows::Grid& grid, const std::vector<Tap>& taps, int64_t images, const float* w,
                   const std::vector<int64_t>& tap_at, const std::vector<ReductionPart>& parts,
                   const PassRounding& rounding, const Kernels& kernels, const Parallel& parallel) {
  std::vector<const float*> weights;
  for (const int64_t at : tap_at) weights.push_back(w + at);
  const int64_t lines = images * grid.rows, chunk = DepthwiseLines(grid.columns * grid.out_pixel);
  ForFloats(lines * grid.columns * grid.out_pixel, parallel)(CeilDivide(lines, chunk), [&](int64_t item) {
    DepthwiseRuns runs(grid, taps);
    runs.Take(item * chunk, std::min(lines, (item + 1) * chunk));
    DepthwiseBlock block{};
    block.runs = runs.data();
    block.run_count = runs.size();
    block.x_step = runs.x_step();
    block.y_step = runs.pixel_step();
    block.w = weights.data();
    block.y = grid.out;
    block.channels = grid.out_pixel;
    block.round_taps = rounding.grain > 0;
    block.nanoo = rounding.nanoo;
    for (size_t i = 0; i < parts.size(); ++i) {
      block.tap_begin = parts[i].tap_begin;
      block.tap_end = parts[i].tap_end;
      block.add = i > 0;
      kernels.depthwise(block);
    }
  });
}

}  // namespace ipu_tf
