#include "depthwise.h"

#include <algorithm>

namespace ipu_tf {
namespace {

constexpr int64_t kItemRows = 96;

}  // namespace

void DepthwiseRows(const RowSource& source, int64_t rows, int64_t channels, const float* w,
                   const std::vector<int64_t>& tap_at, const std::vector<ReductionPart>& parts,
                   const PassRounding& rounding, const Kernels& kernels, const Parallel& parallel) {
  const int64_t taps = static_cast<int64_t>(tap_at.size());
  std::vector<const float*> weights;
  for (const int64_t at : tap_at) weights.push_back(w + at);
  parallel(CeilDivide(rows, kItemRows), [&](int64_t item) {
    const int64_t end = std::min(rows, (item + 1) * kItemRows);
    std::vector<const float*> x(taps * kernels.depthwise_pixels);
    std::vector<float*> y(kernels.depthwise_pixels);
    for (int64_t row = item * kItemRows; row < end; row += kernels.depthwise_pixels) {
      const int64_t pixels = std::min<int64_t>(kernels.depthwise_pixels, end - row);
      source.Fill(row, pixels, x.data(), pixels, y.data());
      DepthwiseBlock block{};
      block.y = y.data();
      block.channel_end = channels;
      block.pixels = static_cast<int>(pixels);
      block.round_taps = rounding.grain > 0;
      block.nanoo = rounding.nanoo;
      for (size_t i = 0; i < parts.size(); ++i) {
        block.x = x.data() + parts[i].tap_begin * pixels;
        block.w = weights.data() + parts[i].tap_begin;
        block.taps = parts[i].tap_end - parts[i].tap_begin;
        block.add = i > 0;
        kernels.depthwise(block);
      }
    }
  });
}

}  // namespace ipu_tf
