#include "pixel_rows.h"

#include <algorithm>
#include <utility>

namespace ipu_tf {
namespace {

// The indices i in [0, count) with 0 <= i * step + low and i * step + high < extent.
void InsideRange(int64_t count, int64_t step, int64_t low, int64_t high, int64_t extent, int64_t* begin, int64_t* end) {
  *begin = low < 0 ? CeilDivide(-low, step) : 0;
  *end = extent - high > 0 ? std::min(count, CeilDivide(extent - high, step)) : 0;
}

}  // namespace

PixelRows::PixelRows(const Grid& grid, std::vector<Tap> taps) : grid_(grid), taps_(std::move(taps)) {
  int64_t row_low = 0, row_high = 0, column_low = 0, column_high = 0;
  for (const Tap& tap : taps_) {
    row_low = std::min(row_low, tap.row_offset);
    row_high = std::max(row_high, tap.row_offset);
    column_low = std::min(column_low, tap.column_offset);
    column_high = std::max(column_high, tap.column_offset);
    tap_floats_.push_back((tap.row_offset * grid.in_columns + tap.column_offset) * grid.in_pixel);
  }
  for (const int64_t floats : tap_floats_) tap_offsets_.push_back(floats - tap_floats_[0]);
  InsideRange(grid.rows, grid.in_row_step, row_low, row_high, grid.in_rows, &row_begin_, &row_end_);
  InsideRange(grid.columns, grid.in_column_step, column_low, column_high, grid.in_columns, &column_begin_,
              &column_end_);
}

void PixelRows::FillPixel(int64_t row, int64_t column, const float* image, const float** a, int64_t stride) const {
  const int64_t in_row = row * grid_.in_row_step, in_column = column * grid_.in_column_step;
  const bool inside = row >= row_begin_ && row < row_end_ && column >= column_begin_ && column < column_end_;
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
