// Filter gradient of a depthwise convolution of multiplier 1: vectors of channels, summed over pixels.
#include <algorithm>
#include <vector>

#include "../fetching.h"
#include "depthwise.h"
#include "depthwise_runs.h"
#include "filter_pieces.h"

namespace ipu_tf {
namespace {

class DepthwiseSums {
 public:
  DepthwiseSums(const ConvShape& shape, const float* x, const float* dy, const Kernels& kernels)
      : shape_(shape), x_(x), dy_(dy), kernels_(kernels) {}

  // Sums pieces [begin, end), each from zero, into these channels of dw.
  void Run(const std::vector<FilterPiece>& pieces, int64_t begin, int64_t end, int64_t channel_begin,
           int64_t channel_end, float* dw) const {
    Scratch apart(end - begin > 1 ? shape_.filter_floats() : 0);
    for (int64_t i = begin; i < end; ++i) {
      RunPiece(pieces[i], channel_begin, channel_end, i > begin ? apart.data() : dw);
      if (i == begin) continue;
      for (int64_t tap = 0; tap < taps(); ++tap) {
        const int64_t at = tap * shape_.groups + channel_begin;
        kernels_.add(apart.data() + at, dw + at, channel_end - channel_begin);
      }
    }
  }

 private:
  int64_t taps() const { return shape_.kernel_rows * shape_.kernel_columns; }

  void RunPiece(const FilterPiece& piece, int64_t channel_begin, int64_t channel_end, float* dw) const {
    const int64_t rows = piece.row_end - piece.row_begin, columns = piece.column_end - piece.column_begin;
    const int64_t lines = (piece.image_end - piece.image_begin) * rows;
    // Of all channels: the order of the sums, of which each chunk has its own, does not depend on the threads.
    const int64_t chunk = DepthwiseLines(columns * shape_.groups);
    std::vector<float*> sums;
    for (int64_t tap = 0; tap < taps(); ++tap) sums.push_back(dw + tap * shape_.groups);
    const PixelRows::Grid grid = GridOf(piece);
    const std::vector<Tap> offsets = TapsOf(piece);
    DepthwiseRuns runs(grid, offsets);
    for (int64_t begin = 0; begin < lines; begin += chunk) {
      runs.Take(begin, std::min(lines, begin + chunk));
      DepthwiseGradientBlock block{};
      block.runs = runs.data();
      block.run_count = runs.size();
      block.dy = dy_ + piece.image_begin * shape_.out_rows * shape_.out_columns * shape_.out_channels;
      block.dw = sums.data();
      block.taps = taps();
      block.channel_begin = channel_begin;
      block.channel_end = channel_end;
      block.load = begin > 0;
      if (channel_end - channel_begin == shape_.groups) {
        FetchAfter(grid, offsets, std::min(lines, begin + chunk), chunk, &block);
      }
      kernels_.depthwise_gradient(block);
    }
  }

  // As much as a chunk reads, after the lines before `end`: images adjoin, and most pieces are some of them. Measured
  // on one thread of a Zen 4, where operands come from memory: 0.68 to 0.75 of the time, with strides 0.9.
  void FetchAfter(const PixelRows::Grid& grid, const std::vector<Tap>& offsets, int64_t end, int64_t chunk,
                  DepthwiseGradientBlock* block) const {
    const ConvShape& s = shape_;
    const float* x_end = x_ + s.batch * s.in_rows * s.in_columns * s.in_channels;
    const float* dy_end = dy_ + s.batch * s.out_rows * s.out_columns * s.out_channels;
    const int64_t row_floats = s.in_columns * s.in_channels, line_floats = s.out_columns * s.out_channels;
    const int64_t times = chunk * grid.columns * CeilDivide(s.groups, kernels_.lanes);
    const float* x = grid.in + RowEnd(grid, offsets, end - 1) * row_floats;
    const float* dy = block->dy + end * line_floats;
    block->x_ahead = AheadOf(x, std::min(chunk * grid.in_row_step * row_floats, x_end - x), times);
    block->dy_ahead = AheadOf(dy, std::min(chunk * line_floats, dy_end - dy), times);
  }

  PixelRows::Grid GridOf(const FilterPiece& piece) const {
    const ConvShape& s = shape_;
    PixelRows::Grid grid;
    grid.in = x_ + piece.image_begin * s.in_rows * s.in_columns * s.in_channels;
    grid.in_rows = s.in_rows;
    grid.in_columns = s.in_columns;
    grid.in_pixel = s.in_channels;
    grid.in_row_step = s.stride_rows;
    grid.in_column_step = s.stride_columns;
    grid.out_rows = s.out_rows;
    grid.out_columns = s.out_columns;
    grid.out_pixel = s.out_channels;
    grid.first_row = piece.row_begin;
    grid.first_column = piece.column_begin;
    grid.rows = piece.row_end - piece.row_begin;
    grid.columns = piece.column_end - piece.column_begin;
    return grid;
  }

  std::vector<Tap> TapsOf(const FilterPiece& piece) const {
    const ConvShape& s = shape_;
    std::vector<Tap> taps;
    for (int64_t r = 0; r < s.kernel_rows; ++r) {
      for (int64_t c = 0; c < s.kernel_columns; ++c) {
        taps.push_back({piece.row_begin * s.stride_rows + r * s.dilation_rows - s.pad_top,
                        piece.column_begin * s.stride_columns + c * s.dilation_columns - s.pad_left});
      }
    }
    return taps;
  }

  const ConvShape& shape_;
  const float* x_;
  const float* dy_;
  const Kernels& kernels_;
};

}  // namespace

void DepthwiseFilterGradient(const ConvShape& shape, const ConvPlan& plan, const Numerics& numerics, const float* x,
                             const float* dy, float* dw, const Kernels& kernels, const Parallel& threads) {
  const Parallel parallel = ForFloats(shape.batch * shape.out_rows * shape.out_columns * shape.out_channels, threads);
  const bool side_by_side = SumsSideBySide(shape, numerics);
  const std::vector<FilterPiece> pieces = FilterPieces(shape, plan, side_by_side);
  const int64_t count = static_cast<int64_t>(pieces.size());
  const DepthwiseSums sums(shape, x, dy, kernels);
  if (side_by_side) {
    return SumGroupsOfPieces(
        count, kFilterGroups, shape.filter_floats(), dw, kernels, parallel,
        [&](int64_t begin, int64_t end, float* to) { sums.Run(pieces, begin, end, 0, shape.groups, to); });
  }
  const Partition channels{shape.groups, std::min<int64_t>(parallel.threads, CeilDivide(shape.groups, kernels.lanes)),
                           kernels.lanes};
  parallel(channels.parts, [&](int64_t i) { sums.Run(pieces, 0, count, channels.begin(i), channels.end(i), dw); });
}

}  // namespace ipu_tf
