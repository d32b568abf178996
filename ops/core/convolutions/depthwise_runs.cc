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
  for (int64_t line = begin, lines; line < end; line += lines) {
    const int64_t image = line / grid_.rows, row = line % grid_.rows;
    lines = std::max<int64_t>(1, LinesInside(row, end - line));
    for (int64_t i = 0; i < lines && inside_begin_ < inside_end_; ++i) {
      Add(image, row + i, inside_begin_, Direction::kAlong, inside_end_ - inside_begin_);
    }
    for (int64_t column = 0; column < grid_.columns; ++column) {
      if (column == inside_begin_) column = inside_end_;
      if (column < grid_.columns) Add(image, row, column, Direction::kDown, lines);
    }
  }
  const float* const* x = x_.data();
  for (DepthwiseRun& run : runs_) {
    run.x = x;
    x += taps_.size();
  }
}

bool DepthwiseRuns::RowsInside(int64_t row) const {
  for (const Tap& tap : taps_) {
    const int64_t in_row = row * grid_.in_row_step + tap.row_offset;
    if (in_row < 0 || in_row >= grid_.in_rows) return false;
  }
  return true;
}

// Of an image from a row on, those whose rows of taps are all inside.
int64_t DepthwiseRuns::LinesInside(int64_t row, int64_t most) const {
  int64_t lines = 0;
  while (lines < most && row + lines < grid_.rows && RowsInside(row + lines)) ++lines;
  return lines;
}

void DepthwiseRuns::Add(int64_t image, int64_t row, int64_t column, Direction direction, int64_t pixels) {
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
  const bool down = direction == Direction::kDown;
  const int64_t in_pixels = down ? grid_.in_row_step * grid_.in_columns : grid_.in_column_step;
  const int64_t out_pixels = down ? grid_.row_step * grid_.out_columns : grid_.column_step;
  runs_.push_back({nullptr, (out_row * grid_.out_columns + out_column) * grid_.out_pixel, pixels,
                   in_pixels * grid_.in_pixel, out_pixels * grid_.out_pixel, inside});
}

}  // namespace ipu_tf
