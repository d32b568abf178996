// What works element by element: conversions, rounding, epilogues, dropout, pooling.
#include <algorithm>
#include <cmath>
#include <limits>

#include "../../ops/core/elements/chains.h"
#include "../../ops/core/elements/dropout.h"
#include "../../ops/core/elements/label_loss.h"
#include "../../ops/core/elements/normalization.h"
#include "../../ops/core/elements/pool.h"
#include "../../ops/core/elements/rounding.h"
#include "../../ops/core/elements/segments.h"
#include "../../ops/core/elements/softmax.h"
#include "../../ops/core/elements/tree_sum.h"
#include "../../ops/core/products/epilogue.h"
#include "check.h"
#include "reference.h"

namespace ipu_tf::testing {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
const int64_t kCounts[] = {1, 3, 8, 15, 16, 17, 64, 1000};

// Numbers of all magnitudes that float16 has, its limits and what is beyond.
std::vector<float> Values() {
  std::vector<float> values = {0.0f,       -0.0f,    65504.0f, 65519.9f,   65520.0f, -65536.0f,     1e30f,
                               -1e-30f,    5.96e-8f, 2.98e-8f, 2.9803e-8f, 6.1e-5f,  NAN,           kInfinity,
                               -kInfinity, 1.0f,     2048.5f,  2049.5f,    -4098.0f, 1.00048828125f};
  const std::vector<float> numbers = Numbers(5000, 11);
  for (size_t i = 0; i < numbers.size(); ++i) {
    values.push_back(std::ldexp(numbers[i], static_cast<int>(i % 44) - 26));
  }
  return values;
}

TEST(HalfToFloatKnowsEveryHalf) {
  std::vector<uint16_t> bits(1 << 16);
  std::vector<float> wanted(bits.size());
  for (size_t i = 0; i < bits.size(); ++i) {
    bits[i] = static_cast<uint16_t>(i);
    wanted[i] = FromHalfBits(bits[i]);
  }
  for (const Kernels* kernels : KernelTables()) {
    const Context context(kernels->name);
    for (const int64_t count : {int64_t{1} << 16, int64_t{13}}) {
      std::vector<float> got(count);
      kernels->half_to_float(bits.data() + bits.size() - count, got.data(), count);
      CHECK_SAME(got, std::vector<float>(wanted.end() - count, wanted.end()));
    }
  }
}

TEST(FloatToHalfRoundsToNearest) {
  const std::vector<float> values = Values();
  for (const Kernels* kernels : KernelTables()) {
    for (const bool nanoo : {false, true}) {
      const Context context(std::string(kernels->name) + (nanoo ? " nanoo" : ""));
      std::vector<uint16_t> bits(values.size());
      kernels->float_to_half(values.data(), bits.data(), static_cast<int64_t>(values.size()),
                             nanoo ? Overflow::kNan : Overflow::kLargest);
      for (size_t i = 0; i < values.size(); ++i) {
        const float got = FromHalfBits(bits[i]), wanted = RoundNearest(values[i], nanoo);
        CHECK_SAME(std::vector<float>{got}, std::vector<float>{wanted});
        CHECK(std::isnan(wanted) || std::signbit(got) == std::signbit(wanted));
      }
    }
  }
}

TEST(FloatToHalfMayGiveInfinity) {
  const std::vector<float> values = {65519.0f, 65520.0f, -65520.0f, 1e30f, INFINITY, -INFINITY, NAN, 3e-8f, -0.0f};
  const std::vector<float> wanted = {65504.0f,  INFINITY, -INFINITY,     INFINITY, INFINITY,
                                     -INFINITY, NAN,      5.9604645e-8f, -0.0f};
  for (const Kernels* kernels : KernelTables()) {
    const Context context(kernels->name);
    std::vector<uint16_t> bits(values.size());
    kernels->float_to_half(values.data(), bits.data(), static_cast<int64_t>(values.size()), Overflow::kInfinity);
    std::vector<float> got;
    for (const uint16_t each : bits) got.push_back(FromHalfBits(each));
    CHECK_SAME(got, wanted);
  }
}

TEST(RoundStochasticUsesItsBitsInOrder) {
  for (const bool nanoo : {false, true}) {
    for (const int64_t count : {int64_t{5}, int64_t{256}, int64_t{5020}}) {
      std::vector<float> values = Values();
      values.resize(count);
      Random16 random({1, 2, 3}, 4), same({1, 2, 3}, 4);
      std::vector<uint16_t> bits(count);
      // Of any pieces, the sequence is the same.
      for (int64_t i = 0; i < count; ++i) same.Fill(&bits[i], 1);
      std::vector<float> wanted(count);
      for (int64_t i = 0; i < count; ++i) wanted[i] = RoundRandom(values[i], bits[i], nanoo);
      RoundStochastic(values.data(), count, nanoo, &random);
      CHECK_SAME(values, wanted);
    }
  }
}

TEST(EpilogueAddsTheBiasThenClips) {
  for (const Kernels* kernels : KernelTables()) {
    for (const int64_t columns : kCounts) {
      for (const bool relu : {false, true}) {
        const Context context(std::string(kernels->name) + ": " + std::to_string(columns));
        const int64_t rows = 7;
        const auto bias = Numbers(columns, 1);
        auto y = Numbers(rows * columns, 2);
        auto wanted = y;
        for (int64_t i = 0; i < rows * columns; ++i) {
          wanted[i] += bias[i % columns];
          if (relu && wanted[i] < 0) wanted[i] = 0.0f;
        }
        Epilogue epilogue;
        epilogue.bias = bias.data();
        epilogue.relu = relu;
        ApplyEpilogue(epilogue, y.data(), rows, columns, *kernels, ThreadedParallel(2));
        CHECK_SAME(y, wanted);
      }
    }
  }
}

TEST(EpilogueAddsThenMultipliesByTheGradientOfTheRelu) {
  for (const Kernels* kernels : KernelTables()) {
    for (const int64_t columns : kCounts) {
      for (const bool adds : {false, true}) {
        const Context context(std::string(kernels->name) + ": " + std::to_string(columns));
        auto x = Numbers(3 * columns, 3), y = Numbers(3 * columns, 4);
        const auto addend = Numbers(3 * columns, 5);
        x[0] = 0.0f;
        y[0] = kInfinity;
        auto wanted = y;
        for (size_t i = 0; i < y.size(); ++i) {
          wanted[i] = (adds ? y[i] + addend[i] : y[i]) * (x[i] > 0 ? 1.0f : 0.0f);
        }
        Epilogue epilogue;
        if (adds) epilogue.addend = addend.data();
        epilogue.relu_output = x.data();
        ApplyEpilogue(epilogue, y.data(), 3, columns, *kernels, {});
        CHECK_SAME(y, wanted);
      }
    }
  }
}

TEST(ColumnSumsDoNotDependOnThreads) {
  for (const Kernels* kernels : KernelTables()) {
    for (const int64_t columns : kCounts) {
      const Context context(std::string(kernels->name) + ": " + std::to_string(columns));
      const int64_t rows = 70000 / columns + 3;
      const auto x = Numbers(rows * columns, 5);
      Sums wanted(columns);
      for (size_t i = 0; i < x.size(); ++i) wanted.Add(static_cast<int64_t>(i) % columns, x[i]);
      std::vector<float> alone(columns), together(columns);
      ColumnSums(x.data(), rows, columns, alone.data(), *kernels, {});
      ColumnSums(x.data(), rows, columns, together.data(), *kernels, ThreadedParallel(3));
      CHECK_CLOSE(alone, wanted.value, wanted.Tolerance(1e-5));
      CHECK_SAME(together, alone);
    }
  }
}

// Philox4x32-10, a word at a time.
std::vector<uint32_t> Philox(uint64_t key, uint64_t low, uint64_t high) {
  uint32_t c[4] = {static_cast<uint32_t>(low), static_cast<uint32_t>(low >> 32), static_cast<uint32_t>(high),
                   static_cast<uint32_t>(high >> 32)};
  uint32_t key0 = static_cast<uint32_t>(key), key1 = static_cast<uint32_t>(key >> 32);
  for (int round = 0; round < 10; ++round) {
    const uint64_t first = uint64_t{0xd2511f53} * c[0], second = uint64_t{0xcd9e8d57} * c[2];
    c[0] = static_cast<uint32_t>(second >> 32) ^ c[1] ^ key0;
    c[2] = static_cast<uint32_t>(first >> 32) ^ c[3] ^ key1;
    c[1] = static_cast<uint32_t>(second);
    c[3] = static_cast<uint32_t>(first);
    key0 += 0x9e3779b9u;
    key1 += 0xbb67ae85u;
  }
  return {c[0], c[1], c[2], c[3]};
}

// The known answers of the paper's authors.
TEST(DropoutReferenceIsPhilox) {
  CHECK_SAME(Philox(0, 0, 0), (std::vector<uint32_t>{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  const uint64_t ones = ~uint64_t{0};
  CHECK_SAME(Philox(ones, ones, ones), (std::vector<uint32_t>{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
}

TEST(DropoutKeepsWhatReachesItsRate) {
  const uint64_t counters[][2] = {{0, 0}, {12345, 678}, {~uint64_t{0} - 2, 5}};
  for (const Kernels* kernels : KernelTables()) {
    for (const int64_t count : kCounts) {
      for (const float rate : {0.0f, 0.3f, 1.0f}) {
        for (const auto& counter : counters) {
          const Context context(std::string(kernels->name) + ": " + std::to_string(count));
          for (const int bits : {kFloatBits, kHalfBits}) {
            std::vector<uint8_t> wanted(count), kept(count);
            for (int64_t i = 0; i < count; ++i) {
              const uint64_t low = counter[0] + static_cast<uint64_t>(i / 4);
              const uint32_t word = Philox(99, low, counter[1] + (low < counter[0] ? 1 : 0))[i % 4];
              wanted[i] = std::ldexp(static_cast<double>(word % (1u << bits)), -bits) >= static_cast<double>(rate);
            }
            DrawKept(99, counter, bits, rate, kept.data(), count, *kernels, {});
            CHECK_SAME(kept, wanted);
          }
        }
      }
    }
  }
}

TEST(DropoutScalesWhatItKeeps) {
  for (const Kernels* kernels : KernelTables()) {
    for (const int64_t count : kCounts) {
      const Context context(std::string(kernels->name) + ": " + std::to_string(count));
      auto x = Numbers(count, 6);
      x[0] = NAN;
      std::vector<uint8_t> kept(count);
      std::vector<float> wanted(count), y(count);
      for (int64_t i = 0; i < count; ++i) {
        kept[i] = i % 3 == 1;
        wanted[i] = kept[i] ? x[i] * 1.25f : 0.0f;
      }
      ScaleKept(x.data(), kept.data(), 1.25f, y.data(), count, *kernels, {});
      CHECK_SAME(y, wanted);
    }
  }
}

struct Pool {
  PoolShape shape;
  std::vector<float> x, y, dy;
};

// Visits the elements of a window in order.
template <typename Visit>
void ForEachElement(const PoolShape& s, int64_t window, const Visit& visit) {
  const int64_t channel = window % s.channels, column = window / s.channels % s.out_columns;
  const int64_t row = window / s.channels / s.out_columns % s.out_rows;
  const int64_t image = window / s.channels / s.out_columns / s.out_rows;
  for (int64_t i = 0; i < s.kernel_rows * s.kernel_columns; ++i) {
    const int64_t r = row * s.stride_rows - s.pad_top + i / s.kernel_columns;
    const int64_t c = column * s.stride_columns - s.pad_left + i % s.kernel_columns;
    if (r < 0 || r >= s.in_rows || c < 0 || c >= s.in_columns) continue;
    visit(((image * s.in_rows + r) * s.in_columns + c) * s.channels + channel);
  }
}

Pool MakePool(int64_t channels, int64_t kernel, int64_t stride, int64_t padding) {
  Pool pool;
  PoolShape& s = pool.shape;
  s.batch = 2;
  s.channels = channels;
  s.in_rows = 7;
  s.in_columns = 6;
  s.kernel_rows = s.kernel_columns = kernel;
  s.stride_rows = s.stride_columns = stride;
  s.pad_top = s.pad_left = padding;
  s.out_rows = (s.in_rows + 2 * padding - kernel) / stride + 1;
  s.out_columns = (s.in_columns + 2 * padding - kernel) / stride + 1;
  pool.x = HalfNumbers(s.batch * s.in_rows * s.in_columns * channels, 7);
  for (size_t i = 0; i < pool.x.size(); i += 5) pool.x[i] = 0.5f;  // Some maxima are there twice.
  pool.y.assign(s.batch * s.out_rows * s.out_columns * channels, -kInfinity);
  pool.dy = Numbers(static_cast<int64_t>(pool.y.size()), 8);
  for (size_t window = 0; window < pool.y.size(); ++window) {
    float& largest = pool.y[window];
    ForEachElement(s, window, [&](int64_t at) { largest = std::max(largest, pool.x[at]); });
  }
  return pool;
}

TEST(MaxPoolGradientGoesToTheFirstMaximum) {
  const int64_t layouts[][3] = {{2, 2, 0}, {3, 2, 1}, {3, 1, 1}, {2, 3, 0}, {1, 1, 0}};
  for (const Kernels* kernels : KernelTables()) {
    for (const auto& [kernel, stride, padding] : layouts) {
      for (const int64_t channels : {1, 16, 19}) {
        for (const bool relu : {false, true}) {
          const Context context(std::string(kernels->name) + ": window " + std::to_string(kernel) + " by " +
                                std::to_string(stride) + ", channels " + std::to_string(channels));
          const Pool pool = MakePool(channels, kernel, stride, padding);
          std::vector<float> wanted(pool.x.size()), dx(pool.x.size(), NAN);
          for (size_t window = 0; window < pool.y.size(); ++window) {
            bool found = false;
            ForEachElement(pool.shape, static_cast<int64_t>(window), [&](int64_t at) {
              if (found || pool.x[at] != pool.y[window]) return;
              found = true;
              wanted[at] += relu && pool.y[window] <= 0 ? 0.0f : pool.dy[window];
            });
          }
          MaxPoolGradient(pool.shape, relu, pool.x.data(), pool.y.data(), pool.dy.data(), dx.data(), *kernels,
                          ThreadedParallel(2));
          CHECK_SAME(dx, wanted);
        }
      }
    }
  }
}

TEST(NormalizationAddsUpEachChannel) {
  // Of 300 channels, 54 rows are a block.
  const ChannelRows shapes[] = {{1, 1}, {7, 16}, {5, 33}, {4, 8}, {131, 300}, {40000, 3}};
  for (const Kernels* kernels : KernelTables()) {
    for (const ChannelRows& s : shapes) {
      const Context context(std::string(kernels->name) + " rows " + std::to_string(s.rows) + " channels " +
                            std::to_string(s.channels));
      const std::vector<float> x = Numbers(s.rows * s.channels, 1), dy = Numbers(s.rows * s.channels, 2);
      const std::vector<float> scale = Numbers(s.channels, 3), of_variance = Numbers(s.channels, 4);
      const std::vector<float> of_mean = Numbers(s.channels, 5);
      const double rows = static_cast<double>(s.rows);
      std::vector<double> mean(s.channels), variance(s.channels), sum(s.channels), dot(s.channels);
      for (size_t i = 0; i < x.size(); ++i) {
        mean[i % s.channels] += x[i] / rows;
        sum[i % s.channels] += dy[i];
        dot[i % s.channels] += static_cast<double>(x[i]) * dy[i];
      }
      for (size_t i = 0; i < x.size(); ++i) variance[i % s.channels] += std::pow(x[i] - mean[i % s.channels], 2) / rows;

      const std::vector<double> near(s.channels, 1e-6), near_sums(s.channels, 1e-6 * rows);
      std::vector<float> first(s.channels), second(s.channels);
      ChannelDots(s, x.data(), dy.data(), first.data(), second.data(), *kernels, Parallel{});
      CHECK_CLOSE(first, sum, near_sums);
      CHECK_CLOSE(second, dot, near_sums);
      ChannelMoments(s, x.data(), first.data(), second.data(), *kernels, Parallel{});
      CHECK_CLOSE(first, mean, near);
      CHECK_CLOSE(second, variance, near);

      std::vector<float> y(x.size()), up_to_six(x.size()), y_and_dy(x.size()), dx(x.size());
      std::vector<double> wanted_y(x.size()), wanted_up_to_six(x.size()), wanted_y_and_dy(x.size()),
          wanted_dx(x.size());
      ScaleShift(s, x.data(), scale.data(), of_mean.data(), nullptr, Activation::kRelu, y.data(), *kernels, Parallel{});
      // Of tens, so that some are greater than 6.
      std::vector<float> tens(s.channels, 10.0f);
      ScaleShift(s, x.data(), tens.data(), of_mean.data(), nullptr, Activation::kRelu6, up_to_six.data(), *kernels,
                 Parallel{});
      ScaleShift(s, x.data(), scale.data(), of_mean.data(), dy.data(), Activation::kNone, y_and_dy.data(), *kernels,
                 Parallel{});
      NormGradient(s, {scale.data(), first.data(), of_variance.data(), of_mean.data()}, dy.data(), x.data(), dx.data(),
                   *kernels, Parallel{});
      for (size_t i = 0; i < x.size(); ++i) {
        const size_t c = i % s.channels;
        const double scaled = static_cast<double>(x[i]) * scale[c] + of_mean[c];
        wanted_y[i] = std::max(0.0, scaled);
        wanted_up_to_six[i] = std::clamp(10.0 * x[i] + of_mean[c], 0.0, 6.0);
        wanted_y_and_dy[i] = scaled + dy[i];
        wanted_dx[i] =
            static_cast<double>(dy[i]) * scale[c] + 2.0 * of_variance[c] / rows * (x[i] - mean[c]) + of_mean[c] / rows;
      }
      CHECK_CLOSE(y, wanted_y, std::vector<double>(x.size(), 1e-6));
      CHECK_CLOSE(up_to_six, wanted_up_to_six, std::vector<double>(x.size(), 1e-5));
      CHECK_CLOSE(y_and_dy, wanted_y_and_dy, std::vector<double>(x.size(), 1e-6));
      CHECK_CLOSE(dx, wanted_dx, std::vector<double>(x.size(), 1e-6));
    }
  }
}

TEST(SoftmaxAndItsGradientAreThoseOfDoubles) {
  const int64_t rows = 70;
  const float scale = 1.25f;
  for (const Kernels* kernels : KernelTables()) {
    for (const int64_t columns : kCounts) {
      const Context context(std::string(kernels->name) + " " + std::to_string(columns) + " columns");
      std::vector<float> x = Numbers(rows * columns, 3), dy = Numbers(rows * columns, 4);
      std::vector<uint8_t> kept(x.size());
      for (size_t i = 0; i < kept.size(); ++i) kept[i] = i % 3 != 0;
      for (float& value : x) value *= 40.0f;
      std::vector<float> y(x.size()), dropped(x.size()), dx(x.size()), plain(x.size()), plain_dx(x.size());
      Softmax({rows, columns, x.data(), kept.data(), scale, y.data(), dropped.data()}, *kernels, Parallel{});
      Softmax({rows, columns, x.data(), nullptr, 1.0f, plain.data(), nullptr}, *kernels, Parallel{});
      SoftmaxGradient({y.data(), dy.data(), kept.data(), scale, dx.data(), columns}, rows, *kernels, Parallel{});
      SoftmaxGradient({y.data(), dy.data(), nullptr, 1.0f, plain_dx.data(), columns}, rows, *kernels, Parallel{});
      std::vector<double> wanted(x.size()), wanted_dropped(x.size()), wanted_dx(x.size()), wanted_plain(x.size());
      for (int64_t row = 0; row < rows; ++row) {
        const int64_t at = row * columns;
        const double largest = *std::max_element(x.begin() + at, x.begin() + at + columns);
        double total = 0.0, dot = 0.0, plain_dot = 0.0;
        for (int64_t i = at; i < at + columns; ++i) total += std::exp(x[i] - largest);
        for (int64_t i = at; i < at + columns; ++i) {
          wanted[i] = std::exp(x[i] - largest) / total;
          wanted_dropped[i] = kept[i] ? wanted[i] * scale : 0.0;
          dot += kept[i] ? wanted[i] * scale * dy[i] : 0.0;
          plain_dot += wanted[i] * dy[i];
        }
        for (int64_t i = at; i < at + columns; ++i) {
          wanted_dx[i] = ((kept[i] ? scale * dy[i] : 0.0) - dot) * wanted[i];
          wanted_plain[i] = (dy[i] - plain_dot) * wanted[i];
        }
      }
      const std::vector<double> tolerance(x.size(), 2e-6);
      CHECK_CLOSE(y, wanted, tolerance);
      CHECK_CLOSE(dropped, wanted_dropped, tolerance);
      CHECK_CLOSE(plain, wanted, tolerance);
      CHECK_CLOSE(dx, wanted_dx, tolerance);
      CHECK_CLOSE(plain_dx, wanted_plain, tolerance);
    }
  }
}

TEST(LabelLossesAreThoseOfDoubles) {
  const int64_t rows = 70;
  for (const Kernels* kernels : KernelTables()) {
    for (const int64_t columns : kCounts) {
      const Context context(std::string(kernels->name) + " " + std::to_string(columns) + " columns");
      std::vector<float> x = Numbers(rows * columns, 3), dx(x.size()), loss(rows);
      for (float& value : x) value *= 20.0f;
      std::vector<int32_t> labels(rows);
      std::vector<double> wanted(rows), wanted_dx(x.size());
      for (int64_t row = 0; row < rows; ++row) {
        const int64_t at = row * columns;
        labels[row] = static_cast<int32_t>(row * 7 % columns);
        double total = 0.0;
        for (int64_t i = at; i < at + columns; ++i) total += std::exp(static_cast<double>(x[i]));
        for (int64_t i = at; i < at + columns; ++i) wanted_dx[i] = std::exp(static_cast<double>(x[i])) / total;
        wanted_dx[at + labels[row]] -= 1.0;
        wanted[row] = std::log(total) - x[at + labels[row]];
      }
      LabelLoss(x.data(), labels.data(), rows, columns, loss.data(), dx.data(), *kernels, Parallel{});
      CHECK_CLOSE(loss, wanted, std::vector<double>(loss.size(), 1e-4));
      CHECK_CLOSE(dx, wanted_dx, std::vector<double>(dx.size(), 1e-6));
    }
  }
}

TEST(TheFirstOfTheLargestIsChosen) {
  const int64_t rows = 70;
  for (const Kernels* kernels : KernelTables()) {
    for (const int64_t columns : kCounts) {
      const Context context(std::string(kernels->name) + " " + std::to_string(columns) + " columns");
      std::vector<float> x(rows * columns);
      for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i * 7919 % 13) - 6.0f;
      std::vector<int64_t> at(rows), wanted(rows);
      for (int64_t row = 0; row < rows; ++row) {
        const auto begin = x.begin() + row * columns;
        wanted[row] = std::max_element(begin, begin + columns) - begin;
      }
      ArgMax(x.data(), rows, columns, /*signed_zeros=*/false, at.data(), *kernels, Parallel{});
      CHECK_SAME(at, wanted);
    }
  }
}

TEST(LayerNormalizationIsOfEachRow) {
  // Of 300 columns, 54 rows are a block.
  const ChannelRows shapes[] = {{1, 7}, {7, 16}, {5, 33}, {3, 64}, {131, 300}};
  for (const Kernels* kernels : KernelTables()) {
    for (const ChannelRows& s : shapes) {
      const Context context(std::string(kernels->name) + " rows " + std::to_string(s.rows) + " columns " +
                            std::to_string(s.channels));
      const size_t size = s.rows * s.channels;
      const std::vector<float> x = Numbers(size, 1), dy = Numbers(size, 2), added = Numbers(size, 3);
      const std::vector<float> gamma = Numbers(s.channels, 4), beta = Numbers(s.channels, 5);
      const double columns = static_cast<double>(s.channels);
      std::vector<double> mean(s.rows), variance(s.rows), inverse(s.rows), sum(s.rows), dot(s.rows);
      for (size_t i = 0; i < size; ++i) mean[i / s.channels] += x[i] / columns;
      for (size_t i = 0; i < size; ++i) variance[i / s.channels] += std::pow(x[i] - mean[i / s.channels], 2) / columns;
      for (int64_t r = 0; r < s.rows; ++r) inverse[r] = 1.0 / std::sqrt(variance[r] + 0.01);
      for (size_t i = 0; i < size; ++i) {
        const double scaled = static_cast<double>(dy[i]) * gamma[i % s.channels];
        sum[i / s.channels] += scaled;
        dot[i / s.channels] += scaled * (x[i] - mean[i / s.channels]);
      }
      std::vector<double> wanted_y(size), wanted_dx(size), wanted_dgamma(s.channels), wanted_dbeta(s.channels);
      for (size_t i = 0; i < size; ++i) {
        const size_t r = i / s.channels, c = i % s.channels;
        const double normal = (x[i] - mean[r]) * inverse[r];
        wanted_y[i] = normal * gamma[c] + beta[c];
        wanted_dx[i] = inverse[r] * (static_cast<double>(dy[i]) * gamma[c] - sum[r] / columns -
                                     normal * inverse[r] * dot[r] / columns) +
                       added[i];
        wanted_dgamma[c] += normal * dy[i];
        wanted_dbeta[c] += dy[i];
      }

      std::vector<float> y(size), dx(size), means(s.rows), inverses(s.rows), dgamma(s.channels), dbeta(s.channels);
      LayerNorm(
          {s.rows, s.channels, x.data(), gamma.data(), beta.data(), 0.01f, y.data(), means.data(), inverses.data()},
          *kernels, Parallel{});
      CHECK_CLOSE(y, wanted_y, std::vector<double>(size, 2e-5));
      CHECK_CLOSE(means, mean, std::vector<double>(s.rows, 1e-6));
      CHECK_CLOSE(inverses, inverse, std::vector<double>(s.rows, 2e-5));
      const float* const all_added[] = {added.data()};
      LayerNormGradient({s.rows, s.channels, x.data(), dy.data(), gamma.data(), means.data(), inverses.data(),
                         all_added, 1, dx.data(), dgamma.data(), dbeta.data()},
                        *kernels, Parallel{});
      CHECK_CLOSE(dx, wanted_dx, std::vector<double>(size, 2e-4));
      const std::vector<double> near_sums(s.channels, 2e-5 * static_cast<double>(s.rows));
      CHECK_CLOSE(dgamma, wanted_dgamma, near_sums);
      CHECK_CLOSE(dbeta, wanted_dbeta, near_sums);
    }
  }
}

TEST(GaussianErrorLinearUnitsAreThoseOfTheLibrary) {
  std::vector<float> x;
  for (int i = -2003; i <= 2003; ++i) x.push_back(static_cast<float>(i) * 0.01f);
  const std::vector<float> dy(x.size(), 1.0f);
  for (const Kernels* kernels : KernelTables()) {
    for (const bool approximate : {false, true}) {
      const Context context(std::string(kernels->name) + (approximate ? " by tanh" : " by erf"));
      std::vector<double> wanted_y, wanted_dx, near;
      for (const double v : x) {
        const double u = std::sqrt(2.0 / M_PI) * (v + 0.044715 * v * v * v);
        const double share = approximate ? 0.5 * (1.0 + std::tanh(u)) : 0.5 * std::erfc(-v / std::sqrt(2.0));
        const double slope = approximate ? 0.5 * (1.0 - std::pow(std::tanh(u), 2)) * std::sqrt(2.0 / M_PI) *
                                               (1.0 + 3.0 * 0.044715 * v * v)
                                         : std::exp(-0.5 * v * v) / std::sqrt(2.0 * M_PI);
        wanted_y.push_back(v * share);
        wanted_dx.push_back(share + v * slope);
        near.push_back(5e-7 * std::max(1.0, std::abs(v)));
      }
      std::vector<float> y(x.size()), dx(x.size());
      Gelu(x.data(), approximate, y.data(), static_cast<int64_t>(x.size()), *kernels, Parallel{});
      GeluGradient(x.data(), dy.data(), approximate, dx.data(), static_cast<int64_t>(x.size()), *kernels, Parallel{});
      CHECK_CLOSE(y, wanted_y, near);
      CHECK_CLOSE(dx, wanted_dx, near);
    }
  }
}

TEST(ChainsOfManyResultsHaveTheBitsOfTheirWritesThroughCaches) {
  constexpr int64_t kCount = (int64_t{1} << 21) + 77777;
  const std::vector<float> a = Numbers(kCount, 1), b = Numbers(kCount, 2);
  std::vector<float> square = Numbers(kCount, 3);
  for (float& value : square) value *= value;
  const Parallel parallel = ThreadedParallel(2);
  const auto check = [&](const std::function<void(float*)>& write, const std::function<float(int64_t)>& one) {
    const Written y = WriteBothWays(kCount, write);
    CHECK_SAME(y.past, y.through);
    std::vector<float> wanted(kCount);
    for (int64_t i = 0; i < kCount; ++i) wanted[i] = one(i);
    CHECK_SAME(y.past, wanted);
  };
  check([&](float* y) { ScaledDifference(a.data(), b.data(), 0.1f, true, true, y, kCount, parallel); },
        [&](int64_t i) { return b[i] + (a[i] * a[i] - b[i]) * 0.1f; });
  check([&](float* y) { ScaledUpdate(a.data(), b.data(), 0.1f, y, kCount, parallel); },
        [&](int64_t i) { return a[i] - b[i] * 0.1f; });
  check([&](float* y) { AdamUpdate(a.data(), b.data(), square.data(), 0.1f, 1e-3f, y, kCount, parallel); },
        [&](int64_t i) { return a[i] - b[i] * 0.1f / (std::sqrt(square[i]) + 1e-3f); });
  check([&](float* y) { Relu6Gradient(a.data(), b.data(), y, kCount, parallel); },
        [&](int64_t i) { return b[i] > 0.0f && b[i] < 6.0f ? a[i] : a[i] * 0.0f; });
  // Where an operand lies, nothing is written past the caches.
  std::vector<float> in_place = a;
  ScaledUpdate(in_place.data(), b.data(), 0.1f, in_place.data(), kCount, parallel);
  CHECK(in_place[5] == a[5] - b[5] * 0.1f);
}

TEST(SumSegmentsAddsRowsInTheirOrder) {
  constexpr int64_t kNodes = 30, kRows = 300, kSegments = 20;
  std::vector<int32_t> from(kRows), kept(kRows), id(kRows);
  for (int64_t r = 0; r < kRows; ++r) {
    from[r] = static_cast<int32_t>(7 * r % kNodes);
    kept[r] = static_cast<int32_t>(r % 11) - 1;
    id[r] = static_cast<int32_t>(5 * r % (kSegments + 3)) - 3;
  }
  for (const int64_t columns : {1, 8, 16, 17, 32, 40, 64, 100, 128, 256, 1000}) {
    const std::vector<float> x = Numbers(kRows * columns, 40);
    for (const PickedRows& picked : {PickedRows{}, PickedRows{from.data(), nullptr}, {from.data(), kept.data()}}) {
      std::vector<float> wanted(kSegments * columns);
      for (int64_t r = 0; r < kRows; ++r) {
        if (id[r] < 0 || (picked.kept != nullptr && kept[r] < 0)) continue;
        const int64_t row = picked.from == nullptr ? r : from[r];
        for (int64_t c = 0; c < columns; ++c) wanted[id[r] * columns + c] += x[row * columns + c];
      }
      for (const Kernels* kernels : KernelTables()) {
        const Context context(std::string(kernels->name) + ", columns: " + std::to_string(columns));
        for (const int threads : {1, 2, 3}) {
          std::vector<float> sums(kSegments * columns, NAN);
          SumSegments(x.data(), picked, id.data(), kRows, columns, kSegments, sums.data(), *kernels,
                      ThreadedParallel(threads));
          CHECK_SAME(sums, wanted);
        }
      }
    }
  }
}

TEST(TreeSumAddsNeighbours) {
  for (const int64_t count : {int64_t{1}, int64_t{1000}, int64_t{70001}}) {
    std::vector<std::vector<float>> values;
    std::vector<const float*> summands;
    for (int n = 1; n <= 13; ++n) {
      values.push_back(Numbers(count, 20 + n));
      for (float& value : values.back()) value *= std::ldexp(1.0f, 3 * (n % 5));
      summands.push_back(values.back().data());
      std::vector<std::vector<float>> nodes = values;
      while (nodes.size() > 1) {
        std::vector<std::vector<float>> sums;
        for (size_t left = 0; left < nodes.size(); left += 2) {
          sums.push_back(nodes[left]);
          if (left + 1 == nodes.size()) continue;
          for (int64_t i = 0; i < count; ++i) sums.back()[i] += nodes[left + 1][i];
        }
        nodes = sums;
      }
      std::vector<float> y(count);
      TreeSum(summands, y.data(), count, ThreadedParallel(2));
      CHECK_SAME(y, nodes[0]);
    }
  }
}

}  // namespace
}  // namespace ipu_tf::testing
