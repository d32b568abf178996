// Filter gradient of a depthwise convolution of multiplier 1: vectors of channels, summed over pixels.
#include <algorithm>
#include <vector>

#include "depthwise.h"
#include "filter_pieces.h"

namespace ipu_tf {
namespace {

// Of dy, at a time: these and the input that they read stay in the second cache while each vector of channels
// passes over them.
constexpr int64_t kChunkFloats = int64_t{1} << 14;

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
    const int64_t rows = piece.row_end - piece.row_begin;
    const int64_t lines = (piece.image_end - piece.image_begin) * rows;
    const int64_t line_floats = (piece.column_end - piece.column_begin) * (channel_end - channel_begin);
    const int64_t chunk = std::max<int64_t>(1, kChunkFloats / line_floats);
    std::vector<float*> sums;
    for (int64_t tap = 0; tap < taps(); ++tap) sums.push_back(dw + tap * shape_.groups);
    Runs runs(*this);
    for (int64_t begin = 0; begin < lines; begin += chunk) {
      runs.Clear();
      for (int64_t line = begin; line < std::min(lines, begin + chunk); ++line) {
        runs.AddLine(piece.image_begin + line / rows, piece.row_begin + line % rows, piece);
      }
      DepthwiseGradientBlock block{};
      block.runs = runs.data();
      block.run_count = runs.size();
      block.x_step = shape_.stride_columns * shape_.in_channels;
      block.dy_step = shape_.out_channels;
      block.dw = sums.data();
      block.taps = taps();
      block.channel_begin = channel_begin;
      block.channel_end = channel_end;
      block.load = begin > 0;
      kernels_.depthwise_gradient(block);
    }
  }

  // The runs of some lines of output pixels: at the edges one pixel each, between them all that adjoin.
  class Runs {
   public:
    explicit Runs(const DepthwiseSums& op) : op_(op) {
      const ConvShape& s = op.shape_;
      const int64_t room = s.in_columns + s.pad_left - (s.kernel_columns - 1) * s.dilation_columns;
      inside_begin_ = CeilDivide(s.pad_left, s.stride_columns);
      inside_end_ = room > 0 ? CeilDivide(room, s.stride_columns) : 0;
    }

    void Clear() {
      runs_.clear();
      x_.clear();
    }

    void AddLine(int64_t image, int64_t row, const FilterPiece& piece) {
      const int64_t begin = std::min(std::max(piece.column_begin, inside_begin_), piece.column_end);
      const int64_t end = std::max(begin, std::min(piece.column_end, inside_end_));
      for (int64_t column = piece.column_begin; column < begin; ++column) Add(image, row, column, 1);
      if (begin < end) Add(image, row, begin, end - begin);
      for (int64_t column = end; column < piece.column_end; ++column) Add(image, row, column, 1);
    }

    const DepthwiseRun* data() {
      const float* const* x = x_.data();
      for (DepthwiseRun& run : runs_) {
        run.x = x;
        x += op_.taps();
      }
      return runs_.data();
    }
    int64_t size() const { return static_cast<int64_t>(runs_.size()); }

   private:
    void Add(int64_t image, int64_t row, int64_t column, int64_t pixels) {
      const ConvShape& s = op_.shape_;
      bool inside = true;
      for (int64_t r = 0; r < s.kernel_rows; ++r) {
        for (int64_t c = 0; c < s.kernel_columns; ++c) {
          const int64_t in_row = row * s.stride_rows + r * s.dilation_rows - s.pad_top;
          const int64_t in_column = column * s.stride_columns + c * s.dilation_columns - s.pad_left;
          const bool valid = in_row >= 0 && in_row < s.in_rows && in_column >= 0 && in_column < s.in_columns;
          const int64_t pixel = (image * s.in_rows + in_row) * s.in_columns + in_column;
          x_.push_back(valid ? op_.x_ + pixel * s.in_channels : nullptr);
          inside = inside && valid;
        }
      }
      const int64_t pixel = (image * s.out_rows + row) * s.out_columns + column;
      runs_.push_back({nullptr, op_.dy_ + pixel * s.out_channels, pixels, inside});
    }

    const DepthwiseSums& op_;
    int64_t inside_begin_, inside_end_;  // Columns all of whose taps lie inside the image.
    std::vector<DepthwiseRun> runs_;
    std::vector<const float*> x_;
  };

  const ConvShape& shape_;
  const float* x_;
  const float* dy_;
  const Kernels& kernels_;
};

}  // namespace

void DepthwiseFilterGradient(const ConvShape& shape, const ConvPlan& plan, const Numerics& numerics, const float* x,
                             const float* dy, float* dw, const Kernels& kernels, const Parallel& parallel) {
  const bool side_by_side = SumsSideBySide(shape, numerics);
  const std::vector<FilterPiece> pieces = FilterPieces(shape, plan, side_by_side);
  const int64_t count = static_cast<int64_t>(pieces.size());
  const DepthwiseSums sums(shape, x, dy, kernels);
  if (side_by_side) {
    return SumGroupsOfPieces(
        count, shape.filter_floats(), dw, kernels, parallel,
        [&](int64_t begin, int64_t end, float* to) { sums.Run(pieces, begin, end, 0, shape.groups, to); });
  }
  const Partition channels{shape.groups, std::min<int64_t>(parallel.threads, CeilDivide(shape.groups, kernels.lanes)),
                           kernels.lanes};
  parallel(channels.parts, [&](int64_t i) { sums.Run(pieces, 0, count, channels.begin(i), channels.end(i), dw); });
}

}  // namespace ipu_tf
