// Image rows with the zeros of a convolution's padding to their left and right.
#ifndef IPU_TF_OPS_CORE_PADDED_LINES_H_
#define IPU_TF_OPS_CORE_PADDED_LINES_H_

#include <cstdint>

#include "../scratch.h"

namespace ipu_tf {

// A sliding window over images in NHWC, as one of the passes of a convolution sees it. With a column dilation of 1 a
// kernel row reads kernel_columns * channels adjoining floats of a padded image row.
struct Window {
  int64_t batch = 0;
  int64_t in_rows = 0, in_columns = 0, channels = 0;
  int64_t out_rows = 0, out_columns = 0;
  int64_t kernel_rows = 0, kernel_columns = 0;
  int64_t stride_rows = 1, stride_columns = 1;
  int64_t dilation_rows = 1;
  int64_t pad_top = 0, pad_left = 0;

  // Adjoining floats that a kernel row reads.
  int64_t run() const { return kernel_columns * channels; }
  // Columns of a padded image row that the output reads.
  int64_t columns() const { return (out_columns - 1) * stride_columns + kernel_columns; }
  // Image rows from the first to the last that `rows` output rows read.
  int64_t reach(int64_t rows) const { return (rows - 1) * stride_rows + (kernel_rows - 1) * dilation_rows + 1; }
  // Of an output of so many channels.
  int64_t floats(int64_t out_channels) const { return batch * out_rows * out_columns * out_channels; }
  bool pads_rows() const { return pad_top > 0 || reach(out_rows) > in_rows; }
  bool pads_columns() const { return pad_left > 0 || columns() > in_columns; }
};

// The image rows under some output rows. They are copied only where there is something to pad, and each once while the
// output rows of an image come one after the other.
class PaddedLines {
 public:
  // For up to `out_rows` output rows at a time. With `zero_rows` the rows above and below an image are rows of zeros,
  // else they may not be read.
  PaddedLines(const Window& window, int64_t out_rows, bool zero_rows);

  // Turns to the image rows under output rows [row, row + rows) of an image.
  void Load(const float* image, int64_t row, int64_t rows);

  // The padded image row that is `down` rows below the first one under the output rows.
  const float* Row(int64_t down) const { return first_ + down * row_floats_; }
  int64_t row_floats() const { return row_floats_; }
  // Whether image rows are not copied: then the pixels after the last one of a row are those of the next.
  bool in_place() const { return !copies_; }
  // Whether that row may be read.
  bool Readable(int64_t down) const { return zero_rows_ || InImage(down); }

 private:
  bool InImage(int64_t down) const { return top_ + down >= 0 && top_ + down < window_.in_rows; }
  float* Copied(int64_t row) const { return copy_.data() + (row - copied_begin_) * row_floats_; }
  void KeepFrom(const float* image, int64_t end);
  void CopyRow(int64_t row) const;

  const Window& window_;
  const bool zero_rows_, copies_;
  const int64_t row_floats_, most_rows_;
  Scratch copy_;
  const float* image_ = nullptr;
  int64_t copied_begin_ = 0, copied_end_ = 0;  // Rows of the image.
  const float* first_ = nullptr;
  int64_t top_ = 0;
};

}  // namespace ipu_tf

#endif  // IPU_TF_OPS_CORE_PADDED_LINES_H_
