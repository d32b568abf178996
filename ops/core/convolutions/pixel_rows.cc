#include "pixel_rows.h"

#include <algorithm>
#include <utility>

namespace ipu_tf {
IndexRange InsideRange(const std::vector<Tap>& taps, int64_t Tap::* offset, int64_t count, int64_t step,
                       int64_t extent) {
  int64_t low = 0, high = 0;
  for (const Tap& tap : taps) {
    low = std::min(low, tap.*offset);
    high = std::max(high, tap.*offset);
  }
  const int64_t begin = std::min(count, CeilDivide(-low, step)), room = extent - high;
  return {begin, std::max(begin, room > 0 ? std::min(count, CeilDivide(room, step)) : 0)};
}

PixelRows::PixelRows(const Grid& grid, std::vector<Tap> taps)
    : grid_(grid),
      taps_(std::move(taps)),
      inside_rows_(InsideRange(taps_, &Tap::row_offset, grid.rows, grid.in_row_step, grid.in_rows)),
      inside_columns_(InsideRange(taps_, &Tap::column_offset, grid.columns, grid.in_column_step, grid.in_columns)) {
  for (const Tap& tap : taps_) {
    tap_floats_.push_back((tap.row_offset * grid.in_columns + tap.column_offset) * grid.in_pixel);
  }
  for (const int64_t floats : tap_floats_) tap_offsets_.push_back(floats - tap_floats_[0]);
}

void PixelRows::FillPixel(int64_t row, int64_t column, const float* image, const float** a, int64_t stride) const {
  const int64_t in_row = row * grid_.in_row_step, in_column = column * grid_.in_column_step;
  const bool inside = row >= inside_rows_.begin && row < inside_rows_.end && column >= inside_columns_.begin &&
                      column < inside_columns_.end;
  const float* pixel = image + (in_row * grid_.in_columns + in_column) * grid_.in_pixel;
  for (size_t t = 0; t < taps_.size(); ++t) {
    bool valid = inside;
    if (!inside) {
      const uint64_t r = in_row + taps_[t].row_offset, c = in_column + taps_[t].column_offset;
      valid = r < static_cast<uint64_t>(grid_.in_rows) && c < static_cast<uint64_t>(grid_.in_columns);
    }
    a[t * stride] = valid ? pixel + tap_floats_[t] : nullptr;
  }
}

void PixelRows::Fill(int64_t begin, int64_t count, const float** a, int64_t stride, float** c) const {
  int64_t column = begin % grid_.columns;
  int64_t row = begin / grid_.columns % grid_.rows;
  int64_t n = begin / (grid_.columns * grid_.rows);
  for (int64_t i = 0; i < count; ++i) {
    const float* image = grid_.in + n * grid_.in_rows * grid_.in_columns * grid_.in_pixel;
    FillPixel(row, column, image, a + i, stride);
    const int64_t out_row = n * grid_.out_rows + grid_.first_row + row * grid_.row_step;
    const int64_t out_column = grid_.first_column + column * grid_.column_step;
    c[i] = grid_.out + (out_row * grid_.out_columns + out_column) * grid_.out_pixel;
    if (++column < grid_.columns) continue;
    column = 0;
    if (++row < grid_.rows) continue;
    row = 0;
    ++n;
  }
}

}  // namespace ipu_tf
