#include "depthwise_runs.h"

#include <algorithm>
#include <utility>

#include "../parallel.h"

namespace ipu_tf {

DepthwiseRuns::DepthwiseRuns(const PixelRows::Grid& grid, std::vector<Tap> taps)
    : grid_(grid),
      taps_(std::move(taps)),
      inside_rows_(InsideRange(taps_, &Tap::row_offset, grid.rows, grid.in_row_step, grid.in_rows)),
      inside_columns_(InsideRange(taps_, &Tap::column_offset, grid.columns, grid.in_column_step, grid.in_columns)) {}

void DepthwiseRuns::Take(int64_t begin, int64_t end) {
  runs_.clear();
  x_.clear();
  for (int64_t line = begin, lines; line < end; line += lines) {
    const int64_t image = line / grid_.rows, row = line % grid_.rows;
    const bool inside = row >= inside_rows_.begin && row < inside_rows_.end;
    lines = inside ? std::min(end - line, inside_rows_.end - row) : 1;
    const auto [column_begin, column_end] = inside_columns_;
    for (int64_t i = 0; i < lines && column_begin < column_end; ++i) {
      Add(image, row + i, column_begin, Direction::kAlong, column_end - column_begin);
    }
    for (int64_t column = 0; column < grid_.columns; ++column) {
      if (column == column_begin) column = column_end;
      if (column < grid_.columns) Add(image, row, column, Direction::kDown, lines);
    }
  }
  const float* const* x = x_.data();
  for (DepthwiseRun& run : runs_) {
    run.x = x;
    x += taps_.size();
  }
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
