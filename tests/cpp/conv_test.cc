// Convolutions and their gradients, depthwise ones included.
#include <cmath>

#include "../../ops/core/convolutions/conv.h"
#include "check.h"
#include "reference.h"

namespace ipu_tf::testing {
namespace {

constexpr double kFloatError = 1e-5;
constexpr double kHalfError = 1e-3;    // Of one rounding to float16, from its smallest normal number on.
constexpr double kHalfSpacing = 6e-8;  // Below it.

std::vector<ConvShape> Shapes() {
  return {
      MakeConvShape(1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0),     MakeConvShape(2, 7, 9, 3, 5, 1, 3, 3, 1, 1, 1),
      MakeConvShape(2, 8, 8, 16, 33, 1, 3, 3, 1, 1, 0),   MakeConvShape(1, 9, 7, 4, 6, 1, 3, 2, 2, 1, 1),
      MakeConvShape(1, 12, 11, 6, 8, 2, 3, 3, 1, 2, 2),   MakeConvShape(3, 6, 6, 40, 70, 1, 1, 1, 1, 1, 0),
      MakeConvShape(1, 5, 5, 2, 3, 1, 2, 2, 3, 1, 0),     MakeConvShape(1, 20, 20, 12, 24, 1, 5, 5, 1, 1, 2),
      MakeConvShape(2, 10, 10, 8, 8, 4, 3, 3, 2, 1, 1),   MakeConvShape(1, 9, 9, 37, 37, 37, 3, 3, 1, 1, 1),
      MakeConvShape(2, 11, 8, 16, 16, 16, 3, 2, 2, 1, 0), MakeConvShape(1, 8, 8, 5, 10, 5, 3, 3, 1, 2, 2),
  };
}

struct Operands {
  Operands(const ConvShape& s, bool halves) {
    const auto numbers = halves ? HalfNumbers : Numbers;
    x = numbers(s.batch * s.in_rows * s.in_columns * s.in_channels, 1);
    w = numbers(s.filter_floats(), 2);
    dy = numbers(s.batch * s.out_rows * s.out_columns * s.out_channels, 3);
  }
  std::vector<float> x, w, dy;
};

// The three passes of a convolution, each into memory of NaNs.
std::vector<float> Run(ConvPass pass, const ConvShape& s, const ConvPlan& plan, const Numerics& numerics,
                       const Operands& o, const Kernels& kernels, const Parallel& parallel) {
  if (pass == ConvPass::kForward) {
    std::vector<float> y(o.dy.size(), NAN);
    ConvForward(s, plan, numerics, o.x.data(), o.w.data(), y.data(), kernels, parallel);
    return y;
  }
  if (pass == ConvPass::kInputGradient) {
    std::vector<float> dx(o.x.size(), NAN);
    ConvInputGradient(s, plan, numerics, o.w.data(), o.dy.data(), dx.data(), kernels, parallel);
    return dx;
  }
  std::vector<float> dw(o.w.size(), NAN);
  ConvFilterGradient(s, plan, numerics, o.x.data(), o.dy.data(), dw.data(), kernels, parallel);
  return dw;
}

Sums Naive(ConvPass pass, const ConvShape& s, const Operands& o) {
  const bool forward = pass == ConvPass::kForward, input = pass == ConvPass::kInputGradient;
  Sums sums(forward ? o.dy.size() : input ? o.x.size() : o.w.size());
  ForEachProduct(s, [&](int64_t x, int64_t w, int64_t y) {
    const double a = input ? o.dy[y] : o.x[x], b = forward || input ? o.w[w] : o.dy[y];
    sums.Add(forward ? y : input ? x : w, a * b);
  });
  return sums;
}

void CheckPass(ConvPass pass, bool halves, const ConvPlan& plan = {}, const std::vector<ConvShape>& shapes = Shapes()) {
  Numerics numerics;
  numerics.type = halves ? ElementType::kHalf : ElementType::kFloat;
  for (const ConvShape& s : shapes) {
    if (!CheckPlan(pass, plan, s).empty()) continue;
    const Operands operands(s, halves);
    const Sums wanted = Naive(pass, s, operands);
    for (const Kernels* kernels : KernelTables()) {
      const Context context(std::string(kernels->name) + ": " + ToText(s));
      const auto alone = Run(pass, s, plan, numerics, operands, *kernels, {});
      CHECK_CLOSE(alone, wanted.value, wanted.Tolerance(kFloatError));
      CHECK_SAME(Run(pass, s, plan, numerics, operands, *kernels, ThreadedParallel(3)), alone);
    }
  }
}

TEST(ConvForwardIsTheSumOfItsProducts) {
  CheckPass(ConvPass::kForward, false);
  CheckPass(ConvPass::kForward, true);
}

TEST(ConvInputGradientIsTheSumOfItsProducts) {
  CheckPass(ConvPass::kInputGradient, false);
  CheckPass(ConvPass::kInputGradient, true);
}

TEST(ConvFilterGradientIsTheSumOfItsProducts) {
  CheckPass(ConvPass::kFilterGradient, false);
  CheckPass(ConvPass::kFilterGradient, true);
}

// What follows a convolution, applied with it and to its result.
void CheckEpilogue(ConvPass pass, const Epilogue& epilogue, const ConvShape& s, const Operands& o,
                   const Kernels& kernels) {
  const bool forward = pass == ConvPass::kForward;
  std::vector<float> wanted = Run(pass, s, {}, {}, o, kernels, {}), got(wanted.size(), NAN);
  const int64_t channels = forward ? s.out_channels : s.in_channels;
  ApplyEpilogue(epilogue, wanted.data(), wanted.size() / channels, channels, kernels, {});
  if (forward) {
    ConvForward(s, {}, {}, o.x.data(), o.w.data(), got.data(), kernels, ThreadedParallel(2), epilogue);
  } else {
    ConvInputGradient(s, {}, {}, o.w.data(), o.dy.data(), got.data(), kernels, ThreadedParallel(2), epilogue);
  }
  CHECK_SAME(got, wanted);
}

TEST(ConvAppliesItsEpilogue) {
  for (const ConvShape& s : Shapes()) {
    const Operands operands(s, false);
    const std::vector<float> bias = Numbers(s.out_channels, 4);
    const std::vector<float> features = Numbers(operands.x.size(), 5), addend = Numbers(operands.x.size(), 6);
    for (const Kernels* kernels : KernelTables()) {
      const Context context(std::string(kernels->name) + ": " + ToText(s));
      for (const bool relu : {false, true}) {
        CheckEpilogue(ConvPass::kForward, {bias.data(), relu, nullptr, nullptr}, s, operands, *kernels);
      }
      for (const float* added : {static_cast<const float*>(nullptr), addend.data()}) {
        for (const float* relu_output : {static_cast<const float*>(nullptr), features.data()}) {
          CheckEpilogue(ConvPass::kInputGradient, {nullptr, false, added, relu_output}, s, operands, *kernels);
        }
      }
    }
  }
}

void CheckPasses(const ConvShape& s, const Kernels& kernels) {
  const Operands operands(s, false);
  const Context context(std::string(kernels.name) + ": " + ToText(s));
  for (const ConvPass pass : {ConvPass::kForward, ConvPass::kInputGradient, ConvPass::kFilterGradient}) {
    const Sums wanted = Naive(pass, s, operands);
    const auto got = Run(pass, s, {}, {}, operands, kernels, {});
    CHECK_CLOSE(got, wanted.value, wanted.Tolerance(kFloatError));
    CHECK_SAME(Run(pass, s, {}, {}, operands, kernels, ThreadedParallel(5)), got);
  }
}

// Depthwise ones of several chunks of lines and threads, which share the channels of the filter gradient in halves.
TEST(DepthwiseConvOfLargeImagesIsTheSumOfItsProducts) {
  const std::vector<ConvShape> shapes = {MakeConvShape(2, 45, 41, 100, 100, 100, 3, 3, 1, 1, 1),
                                         MakeConvShape(3, 46, 39, 100, 100, 100, 3, 3, 2, 1, 0)};
  for (const ConvPass pass : {ConvPass::kForward, ConvPass::kInputGradient, ConvPass::kFilterGradient}) {
    for (const bool halves : {false, true}) CheckPass(pass, halves, {}, shapes);
  }
}

// Images of many rows, whose padded rows are copied once and moved on.
TEST(ConvOfTallImagesIsTheSumOfItsProducts) {
  for (const ConvShape& s :
       {MakeConvShape(2, 61, 40, 2, 3, 1, 3, 3, 1, 1, 1), MakeConvShape(1, 64, 50, 1, 2, 1, 2, 3, 3, 1, 1),
        MakeConvShape(1, 50, 70, 1, 17, 1, 5, 5, 2, 2, 4)}) {
    CheckPasses(s, ActiveKernels());
  }
}

// Images of which several are summed at a time.
TEST(ConvOfManySmallImagesIsTheSumOfItsProducts) {
  for (const Kernels* kernels : KernelTables()) {
    for (const ConvShape& s :
         {MakeConvShape(43, 3, 5, 7, 40, 1, 3, 3, 1, 1, 1), MakeConvShape(19, 8, 8, 5, 70, 1, 3, 3, 1, 1, 1),
          MakeConvShape(50, 4, 3, 6, 33, 1, 2, 2, 1, 1, 0), MakeConvShape(33, 7, 7, 3, 20, 1, 3, 3, 2, 2, 1),
          MakeConvShape(70, 1, 1, 9, 35, 1, 3, 3, 1, 1, 1)}) {
      CheckPasses(s, *kernels);
    }
  }
}

// As products of many results in gemm_test.cc.
TEST(ConvOfManyResultsHasTheBitsOfItsWritesThroughCaches) {
  const std::vector<float> bias = Numbers(64, 4);
  for (const int64_t kernel : {1, 3}) {
    const ConvShape s = MakeConvShape(2, 130, 130, 2, 64, 1, kernel, kernel, 1, 1, 1);
    const Operands operands(s, false);
    const int64_t floats = s.batch * s.out_rows * s.out_columns * s.out_channels;
    for (const Kernels* kernels : KernelTables()) {
      const Context context(std::string(kernels->name) + ": " + ToText(s));
      const Written y = WriteBothWays(floats, [&](float* to) {
        ConvForward(s, {}, {}, operands.x.data(), operands.w.data(), to, *kernels, ThreadedParallel(2),
                    {bias.data(), true, nullptr});
      });
      CHECK_SAME(y.past, y.through);
    }
  }
}

TEST(ConvOfPlansInPartsIsTheSameSum) {
  ConvPlan plan;
  plan.kernel_rows = 2;
  plan.field_rows = 2;
  plan.grain = 4;
  for (const ConvPass pass : {ConvPass::kForward, ConvPass::kInputGradient, ConvPass::kFilterGradient}) {
    CheckPass(pass, false, plan);
    CheckPass(pass, true, plan);
  }
}

TEST(ConvWithRandomRoundingIsNearTheSum) {
  Numerics numerics;
  numerics.type = ElementType::kHalf;
  numerics.rounding = Rounding::kStochastic;
  numerics.random = {1, 2, 3};
  for (const ConvPass pass : {ConvPass::kForward, ConvPass::kInputGradient, ConvPass::kFilterGradient}) {
    for (const ConvShape& s : Shapes()) {
      const Context context(ToText(s));
      const Operands operands(s, true);
      const Sums wanted = Naive(pass, s, operands);
      const auto got = Run(pass, s, {}, numerics, operands, ActiveKernels(), ThreadedParallel(2));
      std::vector<double> tolerance = wanted.Tolerance(kHalfError);
      for (double& each : tolerance) each += kHalfSpacing;
      CHECK_CLOSE(got, wanted.value, tolerance);
      for (const float value : got) CHECK(value == RoundNearest(value, false));
      CHECK_SAME(Run(pass, s, {}, numerics, operands, ActiveKernels(), {}), got);
    }
  }
}

// A depthwise convolution of halves with float16 partials: rounded after every tap.
TEST(DepthwiseRoundsAfterEveryTap) {
  Numerics numerics;
  numerics.type = ElementType::kHalf;
  numerics.half_partials = true;
  ConvPlan plan;
  plan.grain = 16;
  for (const ConvShape& s : Shapes()) {
    if (s.groups == 1 || s.groups != s.in_channels || s.groups != s.out_channels) continue;
    const Operands operands(s, true);
    std::vector<float> wanted(operands.dy.size());
    ForEachProduct(s, [&](int64_t x, int64_t w, int64_t y) {
      wanted[y] = RoundNearest(std::fma(operands.x[x], operands.w[w], wanted[y]), false);
    });
    for (const Kernels* kernels : KernelTables()) {
      const Context context(std::string(kernels->name) + ": " + ToText(s));
      CHECK_SAME(Run(ConvPass::kForward, s, plan, numerics, operands, *kernels, {}), wanted);
    }
  }
}

TEST(ConvFilterGradientSumsItsBiasToo) {
  for (const ConvShape& s : Shapes()) {
    const Operands o(s, false);
    Sums wanted(s.out_channels);
    for (size_t i = 0; i < o.dy.size(); ++i) wanted.Add(static_cast<int64_t>(i) % s.out_channels, o.dy[i]);
    for (const Kernels* kernels : KernelTables()) {
      const Context context(std::string(kernels->name) + ": " + ToText(s));
      std::vector<float> dw(o.w.size()), db(s.out_channels, NAN);
      ConvFilterGradient(s, {}, {}, o.x.data(), o.dy.data(), dw.data(), *kernels, {}, db.data());
      CHECK_CLOSE(db, wanted.value, wanted.Tolerance(kFloatError));
      CHECK_SAME(dw, Run(ConvPass::kFilterGradient, s, {}, {}, o, *kernels, {}));
    }
  }
}

}  // namespace
}  // namespace ipu_tf::testing
