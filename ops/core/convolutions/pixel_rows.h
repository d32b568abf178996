// The rows of a convolution seen as a matrix: one per output pixel, its taps scattered over the input image.
#ifndef IPU_TF_OPS_CORE_PIXEL_ROWS_H_
#define IPU_TF_OPS_CORE_PIXEL_ROWS_H_

#include <cstdint>
#include <vector>

#include "../products/gemm.h"

namespace ipu_tf {

// A tap reads input pixel (row * in_row_step + row_offset, column * in_column_step + column_offset).
struct Tap {
  int64_t row_offset, column_offset;
};

// Indices [begin, end).
struct IndexRange {
  int64_t begin, end;
};

// Of so many rows or columns, a step of the image apart, those all of whose taps lie inside of its extent; `offset` is
// that of the tap's rows or columns.
IndexRange InsideRange(const std::vector<Tap>& taps, int64_t Tap::* offset, int64_t count, int64_t step,
                       int64_t extent);

// Output pixels (first_row + row * row_step, first_column + column * column_step) of every image, row < rows,
// column < columns: all of them share the taps.
class PixelRows : public RowSource {
 public:
  struct Grid {
    const float* in = nullptr;
    int64_t in_rows = 0, in_columns = 0, in_pixel = 0;  // in_pixel: floats between pixels.
    int64_t in_row_step = 1, in_column_step = 1;
    float* out = nullptr;
    int64_t out_rows = 0, out_columns = 0, out_pixel = 0;
    int64_t first_row = 0, first_column = 0, row_step = 1, column_step = 1;
    int64_t rows = 0, columns = 0;
  };

  PixelRows(const Grid& grid, std::vector<Tap> taps);
  void Fill(int64_t begin, int64_t count, const float** a, int64_t stride, float** c) const override;
  const int64_t* TapOffsets() const override { return tap_offsets_.data(); }

 private:
  void FillPixel(int64_t row, int64_t column, const float* image, const float** a, int64_t stride) const;

  Grid grid_;
  std::vector<Tap> taps_;
  std::vector<int64_t> tap_floats_;          // From the tap at offset (0, 0).
  std::vector<int64_t> tap_offsets_;         // From the first tap.
  IndexRange inside_rows_, inside_columns_;  // From which every tap lies inside the image.
};

}  // namespace ipu_tf

#endif  // IPU_TF_OPS_CORE_PIXEL_ROWS_H_
