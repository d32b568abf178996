#include "padded_lines.h"

#include <algorithm>
#include <cstring>

namespace ipu_tf {
namespace {

constexpr int64_t kOverread = 64;  // Floats that a masked or blocked read may touch behind the last row.
constexpr int64_t kLoads = 3;      // That go by before copied rows are moved to the front.

}  // namespace

PaddedLines::PaddedLines(const Window& window, int64_t out_rows, bool zero_rows)
    : window_(window),
      zero_rows_(zero_rows),
      copies_(window.pads_columns() || (zero_rows && window.pads_rows())),
      row_floats_((copies_ ? window.columns() : window.in_columns) * window.channels),
      most_rows_(window.reach(std::min(out_rows * kLoads, window.out_rows))),
      copy_(copies_ ? most_rows_ * row_floats_ + kOverread : 0) {}

void PaddedLines::Load(const float* image, int64_t row, int64_t rows) {
  top_ = row * window_.stride_rows - window_.pad_top;
  if (!copies_) {
    first_ = image + top_ * window_.in_columns * window_.channels;
    return;
  }
  KeepFrom(image, top_ + window_.reach(rows));
  first_ = Copied(top_);
  for (; copied_end_ < top_ + window_.reach(rows); ++copied_end_) CopyRow(copied_end_);
}

// Keeps the copies of the image's rows from the first one on, and makes room for those up to `end`.
void PaddedLines::KeepFrom(const float* image, int64_t end) {
  if (image != image_ || top_ < copied_begin_ || top_ > copied_end_) {
    image_ = image;
    copied_begin_ = copied_end_ = top_;
  }
  if (end - copied_begin_ <= most_rows_) return;
  std::memmove(copy_.data(), Copied(top_), (copied_end_ - top_) * row_floats_ * sizeof(float));
  copied_begin_ = top_;
}

void PaddedLines::CopyRow(int64_t row) const {
  float* to = Copied(row);
  if (row < 0 || row >= window_.in_rows) {
    if (zero_rows_) std::memset(to, 0, row_floats_ * sizeof(float));
    return;
  }
  const int64_t in_floats = window_.in_columns * window_.channels;
  const int64_t left = std::min(row_floats_, window_.pad_left * window_.channels);
  const int64_t right = std::min(row_floats_, left + in_floats);
  std::memset(to, 0, left * sizeof(float));
  std::memcpy(to + left, image_ + row * in_floats, (right - left) * sizeof(float));
  std::memset(to + right, 0, (row_floats_ - right) * sizeof(float));
}

}  // namespace ipu_tf
