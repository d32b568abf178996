#include "reference.h"

#include <cmath>
#include <limits>
#include <random>
#include <sstream>

#include "../../ops/core/streaming.h"

namespace ipu_tf::testing {
namespace {

constexpr double kLargest = 65504.0;

// Rounds the magnitude of a number to a multiple of float16's spacing there; `round` gets it in spacings.
template <typename Round>
float RoundMagnitude(float value, bool nanoo, const Round& round) {
  if (std::isnan(value)) return value;
  const double magnitude = std::abs(static_cast<double>(value));
  double rounded = std::numeric_limits<double>::infinity();
  if (!std::isinf(magnitude)) {
    const double spacing =
        magnitude < std::ldexp(1.0, -14) ? std::ldexp(1.0, -24) : std::ldexp(1.0, std::ilogb(magnitude) - 10);
    rounded = round(magnitude / spacing) * spacing;
  }
  if (rounded > kLargest) rounded = nanoo ? std::numeric_limits<double>::quiet_NaN() : kLargest;
  return std::copysign(static_cast<float>(rounded), value);
}

}  // namespace

std::vector<const Kernels*> KernelTables() {
  std::vector<const Kernels*> tables = {&Avx2Kernels()};
  if (&ActiveKernels() != tables[0]) tables.push_back(&ActiveKernels());
  return tables;
}

Written WriteBothWays(int64_t floats, const std::function<void(float*)>& write) {
  std::vector<float> memory(floats + 2 * kCacheLineFloats, NAN);
  const int64_t bytes = reinterpret_cast<uintptr_t>(memory.data()) % (kCacheLineFloats * sizeof(float));
  float* line = memory.data() + kCacheLineFloats - bytes / sizeof(float);
  write(line);
  Written written{{line, line + floats}, {}};
  write(line + 1);
  written.through.assign(line + 1, line + 1 + floats);
  return written;
}

Parallel ThreadedParallel(int threads) {
  Parallel parallel;
  parallel.threads = threads;
  parallel.run = [threads](int64_t items, const std::function<void(int64_t)>& work, bool /*is_long*/) {
    IdlePool pool;
    DealItems(items, threads - 1, work, pool.Scheduler());
  };
  return parallel;
}

std::vector<float> Numbers(int64_t count, uint32_t seed) {
  std::mt19937 generator(seed);
  std::uniform_real_distribution<float> uniform(-1.0f, 1.0f);
  std::vector<float> numbers(count);
  for (float& number : numbers) number = uniform(generator);
  return numbers;
}

std::vector<float> HalfNumbers(int64_t count, uint32_t seed) {
  std::vector<float> numbers = Numbers(count, seed);
  for (float& number : numbers) number = RoundNearest(number, false);
  return numbers;
}

float RoundNearest(float value, bool nanoo) {
  return RoundMagnitude(value, nanoo, [](double steps) { return std::nearbyint(steps); });
}

float RoundRandom(float value, uint16_t random, bool nanoo) {
  return RoundMagnitude(value, nanoo, [random](double steps) {
    const double whole = std::floor(steps);
    return std::floor((steps - whole) * 65536.0) + random >= 65536.0 ? whole + 1.0 : whole;
  });
}

float FromHalfBits(uint16_t bits) {
  const int exponent = (bits >> 10) & 31, mantissa = bits & 1023;
  float magnitude = exponent == 0 ? std::ldexp(static_cast<float>(mantissa), -24)
                                  : std::ldexp(static_cast<float>(mantissa + 1024), exponent - 25);
  if (exponent == 31) {
    magnitude = mantissa == 0 ? std::numeric_limits<float>::infinity() : std::numeric_limits<float>::quiet_NaN();
  }
  return (bits & 0x8000) != 0 ? -magnitude : magnitude;
}

std::vector<double> Sums::Tolerance(double relative) const {
  std::vector<double> tolerance;
  for (const double each : magnitude) tolerance.push_back(relative * each);
  return tolerance;
}

ConvShape MakeConvShape(int64_t batch, int64_t in_rows, int64_t in_columns, int64_t in_channels, int64_t out_channels,
                        int64_t groups, int64_t kernel_rows, int64_t kernel_columns, int64_t stride, int64_t dilation,
                        int64_t padding) {
  ConvShape shape;
  shape.batch = batch;
  shape.in_rows = in_rows;
  shape.in_columns = in_columns;
  shape.in_channels = in_channels;
  shape.out_channels = out_channels;
  shape.groups = groups;
  shape.kernel_rows = kernel_rows;
  shape.kernel_columns = kernel_columns;
  shape.stride_rows = shape.stride_columns = stride;
  shape.dilation_rows = shape.dilation_columns = dilation;
  shape.pad_top = shape.pad_left = padding;
  shape.out_rows = (in_rows + 2 * padding - (kernel_rows - 1) * dilation - 1) / stride + 1;
  shape.out_columns = (in_columns + 2 * padding - (kernel_columns - 1) * dilation - 1) / stride + 1;
  return shape;
}

std::string ToText(const ConvShape& s) {
  std::ostringstream text;
  text << s.batch << " x " << s.in_rows << " x " << s.in_columns << " x " << s.in_channels << " by " << s.kernel_rows
       << " x " << s.kernel_columns << " to " << s.out_channels << ", groups " << s.groups << ", stride "
       << s.stride_rows << ", dilation " << s.dilation_rows << ", padding " << s.pad_top;
  return text.str();
}

void ForEachProduct(const ConvShape& s, const std::function<void(int64_t, int64_t, int64_t)>& visit) {
  const int64_t from = s.group_in_channels(), to = s.group_out_channels();
  for (int64_t y = 0; y < s.batch * s.out_rows * s.out_columns * s.out_channels; ++y) {
    const int64_t o = y % s.out_channels, column = y / s.out_channels % s.out_columns;
    const int64_t row = y / s.out_channels / s.out_columns % s.out_rows;
    const int64_t image = y / s.out_channels / s.out_columns / s.out_rows;
    for (int64_t tap = 0; tap < s.kernel_rows * s.kernel_columns; ++tap) {
      const int64_t in_row = row * s.stride_rows + tap / s.kernel_columns * s.dilation_rows - s.pad_top;
      const int64_t in_column = column * s.stride_columns + tap % s.kernel_columns * s.dilation_columns - s.pad_left;
      if (in_row < 0 || in_row >= s.in_rows || in_column < 0 || in_column >= s.in_columns) continue;
      const int64_t pixel = (image * s.in_rows + in_row) * s.in_columns + in_column;
      for (int64_t i = 0; i < from; ++i) {
        visit(pixel * s.in_channels + o / to * from + i, (tap * from + i) * s.out_channels + o, y);
      }
    }
  }
}

}  // namespace ipu_tf::testing
