#include "depthwise_runs.h"

#include <algorithm>
#include <utility>

#include "../parallel.h"

namespace ipu_tf {

DepthwiseRuns::DepthwiseRuns(const PixelRows::Grid& grid, std::vector<Tap> taps) : grid_(grid), taps_(std::move(taps)) {
  int64_t low = 0, high = 0;
  for (const Tap& tap : taps_) {
    low = std::min(low, tap.column_offset);
    high = std::max(high, tap.column_offset);
  }
  const int64_t room = grid.in_columns - high;
  inside_begin_ = std::min(grid.columns, CeilDivide(-low, grid.in_column_step));
  inside_end_ = room > 0 ? std::min(grid.columns, CeilDivide(room, grid.in_column_step)) : 0;
  inside_end_ = std::max(inside_begin_, inside_end_);
}

void DepthwiseRuns::Take(int64_t begin, int64_t end) {
  runs_.clear();
  x_.clear();
  for (int64_t line = begin; line < end; ++line) {
    const int64_t image = line / grid_.rows, row = line % grid_.rows;
    for (int64_t column = 0; column < inside_begin_; ++column) Add(image, row, column, 1);
    if (inside_begin_ < inside_end_) Add(image, row, inside_begin_, inside_end_ - inside_begin_);
    for (int64_t column = inside_end_; column < grid_.columns; ++column) Add(image, row, column, 1);
  }
  const float* const* x = x_.data();
  for (DepthwiseRun& run : runs_) {
    run.x = x;
    x += taps_.size();
  }
}

void DepthwiseRuns::Add(int64_t image, int64_t row, int64_t column, int64_t pixels) {
  bool inside = true;
  for (const Tap& tap : taps_) {
    const int64_t in_row = row * grid_.in_row_step + tap.row_offset;
    const int64_t in_column = column * grid_.in_column_step + tap.column_offset;
    const bool valid = in_row >= 0 && in_row < grid_.in_rows && in_column >= 0 && in_column < grid_.in_columns;
    const int64_t pixel = (image * grid_.in_rows + in_row) * grid_.in_columns + in_column;
    x_.push_back(valid ? grid_.in + pixel * grid_.in_pixel : nullptr);
    inside = inside && valid;
  }
  const int64_t out_row = image * grid_.out_rows + grid_.first_row + row * grid_.row_step;
  const int64_t out_column = grid_.first_column + column * grid_.column_step;
  runs_.push_back({nullptr, (out_row * grid_.out_columns + out_column) * grid_.out_pixel, pixels, inside});
}

}  // namespace ipu_tf
