#include <algorithm>
#include <cstring>

#include "conv.h"

namespace ipu_tf {
namespace {

constexpr int64_t kFewChannels = 8;

}  // namespace

bool PaddedImage::Pays(const ConvShape& shape, const Numerics& numerics) {
  // With float16 inputs a run must stay one tap: that is where passes are rounded.
  return numerics.type == ElementType::kFloat && shape.groups == 1 &&
         shape.in_channels <= kFewChannels && shape.kernel_columns > 1 &&
         shape.dilation_columns == 1;
}

PaddedImage::PaddedImage(const ConvShape& shape)
    : rows((shape.out_rows - 1) * shape.stride_rows +
           (shape.kernel_rows - 1) * shape.dilation_rows + 1),
      columns((shape.out_columns - 1) * shape.stride_columns + shape.kernel_columns) {}

void PaddedImage::Copy(const ConvShape& shape, const float* x, float* padded,
                       const Parallel& parallel) const {
  const int64_t channels = shape.in_channels;
  const int64_t begin = std::min(columns, shape.pad_left);
  const int64_t end = std::max(begin, std::min(columns, shape.pad_left + shape.in_columns));
  parallel(shape.batch, [&](int64_t n) {
    for (int64_t r = 0; r < rows; ++r) {
      float* to = padded + (n * rows + r) * columns * channels;
      const int64_t row = r - shape.pad_top;
      if (row < 0 || row >= shape.in_rows) {
        std::memset(to, 0, columns * channels * sizeof(float));
        continue;
      }
      const float* from = x + ((n * shape.in_rows + row) * shape.in_columns) * channels;
      std::memset(to, 0, begin * channels * sizeof(float));
      std::memcpy(to + begin * channels, from + (begin - shape.pad_left) * channels,
                  (end - begin) * channels * sizeof(float));
      std::memset(to + end * channels, 0, (columns - end) * channels * sizeof(float));
    }
  });
}

}  // namespace ipu_tf
