#include "padded_lines.h"

#include <algorithm>
#include <cstring>

namespace ipu_tf {
namespace {

constexpr int64_t kOverread = 64;  // Floats that a masked or blocked read may touch behind the last row.

}  // namespace

PaddedLines::PaddedLines(const Window& window, int64_t out_rows, bool zero_rows)
    : window_(window),
      zero_rows_(zero_rows),
      copies_(window.pads_columns() || (zero_rows && window.pads_rows())),
      row_floats_((copies_ ? window.columns() : window.in_columns) * window.channels),
      copy_(copies_ ? window.reach(out_rows) * row_floats_ + kOverread : 0) {}

void PaddedLines::Load(const float* image, int64_t row, int64_t rows) {
  top_ = row * window_.stride_rows - window_.pad_top;
  const int64_t in_floats = window_.in_columns * window_.channels;
  if (!copies_) {
    first_ = image + top_ * in_floats;
    return;
  }
  first_ = copy_.data();
  const int64_t left = std::min(row_floats_, window_.pad_left * window_.channels);
  const int64_t right = std::min(row_floats_, left + in_floats);
  for (int64_t down = 0; down < window_.reach(rows); ++down) {
    float* to = copy_.data() + down * row_floats_;
    if (!InImage(down)) {
      if (zero_rows_) std::memset(to, 0, row_floats_ * sizeof(float));
      continue;
    }
    std::memset(to, 0, left * sizeof(float));
    std::memcpy(to + left, image + (top_ + down) * in_floats, (right - left) * sizeof(float));
    std::memset(to + right, 0, (row_floats_ - right) * sizeof(float));
  }
}

}  // namespace ipu_tf
