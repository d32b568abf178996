#include "pool.h"

#include <algorithm>
#include <vector>

#include "../scratch.h"

namespace ipu_tf {
namespace {

// Whether every input pixel is in a window.
bool Cover(const PoolShape& s) {
  return s.stride_rows <= s.kernel_rows && s.stride_columns <= s.kernel_columns &&
         s.out_rows * s.stride_rows >= s.in_rows + s.pad_top &&
         s.out_columns * s.stride_columns >= s.in_columns + s.pad_left;
}

void ImageGradient(const PoolShape& s, bool relu, const float* x, const float* y, const float* dy, float* dx,
                   const Kernels& kernels) {
  std::vector<const float*> x_taps;
  std::vector<float*> dx_taps;
  PoolWindow window{};
  window.channels = s.channels;
  window.relu = relu;
  window.add = WindowsOverlap(s);
  if (window.add || !Cover(s)) std::fill_n(dx, s.in_rows * s.in_columns * s.channels, 0.0f);
  for (int64_t r = 0; r < s.out_rows; ++r) {
    const int64_t top = r * s.stride_rows - s.pad_top;
    for (int64_t c = 0; c < s.out_columns; ++c, y += s.channels, dy += s.channels) {
      const int64_t left = c * s.stride_columns - s.pad_left;
      x_taps.clear();
      dx_taps.clear();
      for (int64_t i = std::max<int64_t>(top, 0); i < std::min(top + s.kernel_rows, s.in_rows); ++i) {
        for (int64_t j = std::max<int64_t>(left, 0); j < std::min(left + s.kernel_columns, s.in_columns); ++j) {
          const int64_t at = (i * s.in_columns + j) * s.channels;
          x_taps.push_back(x + at);
          dx_taps.push_back(dx + at);
        }
      }
      window.x = x_taps.data();
      window.dx = dx_taps.data();
      window.taps = static_cast<int>(x_taps.size());
      window.y = y;
      window.dy = dy;
      kernels.max_pool_gradient(window);
    }
  }
}

// The values of float16 numbers.
Scratch Widened(const uint16_t* from, int64_t count, const Kernels& kernels) {
  Scratch values(count);
  kernels.half_to_float(from, values.data(), count);
  return values;
}

}  // namespace

bool WindowsOverlap(const PoolShape& s) { return s.stride_rows < s.kernel_rows || s.stride_columns < s.kernel_columns; }

void MaxPoolGradient(const PoolShape& s, bool relu, const float* x, const float* y, const float* dy, float* dx,
                     const Kernels& kernels, const Parallel& parallel) {
  const int64_t in = s.in_rows * s.in_columns * s.channels, out = s.out_rows * s.out_columns * s.channels;
  ForFloats(s.batch * in, parallel)(
      s.batch, [&](int64_t i) { ImageGradient(s, relu, x + i * in, y + i * out, dy + i * out, dx + i * in, kernels); });
}

void MaxPoolGradient(const PoolShape& s, bool relu, const uint16_t* x, const uint16_t* y, const uint16_t* dy,
                     uint16_t* dx, const Kernels& kernels, const Parallel& parallel) {
  const int64_t in = s.in_rows * s.in_columns * s.channels, out = s.out_rows * s.out_columns * s.channels;
  ForFloats(s.batch * in, parallel)(s.batch, [&](int64_t i) {
    const Scratch wide_x = Widened(x + i * in, in, kernels), wide_y = Widened(y + i * out, out, kernels);
    const Scratch wide_dy = Widened(dy + i * out, out, kernels);
    Scratch wide_dx(in);
    ImageGradient(s, relu, wide_x.data(), wide_y.data(), wide_dy.data(), wide_dx.data(), kernels);
    kernels.float_to_half(wide_dx.data(), dx + i * in, in, Overflow::kInfinity);
  });
}

}  // namespace ipu_tf
