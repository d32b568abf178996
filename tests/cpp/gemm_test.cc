// Matrix products: the blocked driver and its kernels.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <sstream>
#include <utility>
#include <vector>

#include "../../ops/core/products/matmul.h"
#include "check.h"
#include "reference.h"

namespace ipu_tf::testing {
namespace {

struct Case {
  int64_t batch, rows, columns, depth;
  bool transpose_a, transpose_b;
};

const Case kCases[] = {
    {1, 1, 1, 1, false, false},       {1, 5, 7, 3, false, false},       {1, 13, 33, 17, false, false},
    {1, 13, 33, 17, true, false},     {1, 13, 33, 17, false, true},     {3, 6, 70, 40, false, false},
    {2, 40, 16, 129, false, true},    {2, 31, 97, 65, true, false},     {1, 200, 100, 1100, false, false},
    {2, 256, 40, 22, false, false},   {1, 40, 41, 256, true, false},    {1, 50, 72, 39, false, true},
    {1, 90, 1, 37, false, false},     {1, 90, 1, 37, true, true},       {3, 1, 130, 50, false, true},
    {1, 64, 110, 1100, false, false}, {1, 140, 170, 300, false, false}, {2, 30, 400, 60, false, false},
    {1, 150, 70, 1024, false, false}, {1, 150, 70, 1024, false, true},  {2, 35, 33, 2048, false, false},
    {1, 1000, 33, 40, false, true},   {1, 401, 32, 33, false, false},
};

MatMulShape ShapeOf(const Case& c) {
  MatMulShape shape;
  shape.rows = c.rows;
  shape.columns = c.columns;
  shape.depth = c.depth;
  shape.a_row_stride = c.transpose_a ? 1 : c.depth;
  shape.a_k_stride = c.transpose_a ? c.rows : 1;
  shape.b_k_stride = c.transpose_b ? 1 : c.columns;
  shape.b_n_stride = c.transpose_b ? c.depth : 1;
  shape.c_row_stride = c.columns;
  for (int64_t g = 0; g < c.batch; ++g) {
    shape.a_at.push_back(g * c.rows * c.depth);
    shape.b_at.push_back(g * c.depth * c.columns);
    shape.c_at.push_back(g * c.rows * c.columns);
  }
  return shape;
}

std::string ToText(const Case& c, const Kernels& kernels) {
  std::ostringstream text;
  text << kernels.name << ": " << c.batch << " of " << c.rows << " x " << c.depth << " by " << c.columns << ", "
       << c.transpose_a << c.transpose_b;
  return text.str();
}

// One chain of fused multiply-adds for each part of the reduction, rounded every `grain` elements unless that is 0.
std::vector<float> Naive(const MatMulShape& s, const Partition& parts, int64_t grain, bool nanoo,
                         const std::vector<float>& a, const std::vector<float>& b) {
  std::vector<float> c(s.batch() * s.rows * s.columns);
  for (int64_t g = 0; g < s.batch(); ++g) {
    for (int64_t i = 0; i < s.rows * s.columns; ++i) {
      float sum = 0.0f;
      for (int64_t part = 0; part < parts.parts; ++part) {
        float partial = 0.0f;
        for (int64_t k = parts.begin(part); k < parts.end(part); ++k) {
          partial = std::fma(a[s.a_at[g] + i / s.columns * s.a_row_stride + k * s.a_k_stride],
                             b[s.b_at[g] + k * s.b_k_stride + i % s.columns * s.b_n_stride], partial);
          const bool ends = k + 1 == parts.end(part) || (k + 1 - parts.begin(part)) % std::max<int64_t>(grain, 1) == 0;
          if (grain > 0 && ends) partial = RoundNearest(partial, nanoo);
        }
        sum = part == 0 ? partial : sum + partial;
      }
      c[s.c_at[g] + i] = sum;
    }
  }
  return c;
}

std::vector<float> Product(const MatMulShape& s, const MatMulPlan& plan, const Numerics& numerics,
                           const std::vector<float>& a, const std::vector<float>& b, const Kernels& kernels,
                           const Parallel& parallel = {}) {
  std::vector<float> c(s.batch() * s.rows * s.columns, NAN);
  MatMul(s, plan, numerics, a.data(), b.data(), c.data(), kernels, parallel);
  return c;
}

TEST(MatMulIsOneChainOfFusedMultiplyAdds) {
  for (const Kernels* kernels : KernelTables()) {
    for (const Case& c : kCases) {
      const Context context(ToText(c, *kernels));
      const MatMulShape shape = ShapeOf(c);
      const auto a = Numbers(c.batch * c.rows * c.depth, 1), b = Numbers(c.batch * c.depth * c.columns, 2);
      const auto wanted = Naive(shape, {c.depth, 1, 8}, 0, false, a, b);
      CHECK_SAME(Product(shape, {}, {}, a, b, *kernels), wanted);
      CHECK_SAME(Product(shape, {}, {}, a, b, *kernels, ThreadedParallel(3)), wanted);
    }
  }
}

// Rows that adjoin are read in place, or packed by each item, or for all, or part by part: by the shape and the
// threads.
TEST(MatMulOfRowsThatAdjoinHasTheBitsOfOthers) {
  const Case cases[] = {{1, 100, 98, 600, true, false},  {1, 24, 330, 520, true, false},
                        {1, 400, 100, 1700, true, true}, {1, 70, 60, 2500, true, false},
                        {1, 200, 20, 2500, true, true},  {8, 13, 98, 40, true, false},
                        {1, 40, 30, 13000, true, false}, {1, 33, 20, 13000, true, true}};
  for (const Kernels* kernels : KernelTables()) {
    for (const Case& c : cases) {
      const Context context(ToText(c, *kernels));
      const auto a = Numbers(c.batch * c.rows * c.depth, 5), b = Numbers(c.batch * c.depth * c.columns, 6);
      Case plain = c;
      plain.transpose_a = false;
      const MatMulShape from = ShapeOf(c), to = ShapeOf(plain);
      std::vector<float> turned(a.size());
      for (int64_t i = 0; i < c.batch * c.rows * c.depth; ++i) {
        const int64_t row = i / c.depth % c.rows, k = i % c.depth, g = i / (c.rows * c.depth);
        turned[i] = a[from.a_at[g] + row * from.a_row_stride + k * from.a_k_stride];
      }
      MatMulPlan plan;
      plan.reduction = (c.depth + 299) / 300;
      const auto wanted = Product(to, plan, {}, turned, b, *kernels);
      CHECK_SAME(Product(from, plan, {}, a, b, *kernels), wanted);
      CHECK_SAME(Product(from, plan, {}, a, b, *kernels, ThreadedParallel(3)), wanted);
    }
  }
}

// What follows a product, applied with it and to its result: of one part, and of several.
TEST(MatMulAppliesItsEpilogue) {
  std::vector<Case> cases(std::begin(kCases), std::end(kCases));
  cases.insert(cases.end(), {{1, 400, 100, 1700, true, true}, {1, 40, 30, 13000, true, false}});
  for (const Kernels* kernels : KernelTables()) {
    for (const Case& c : cases) {
      const Context context(ToText(c, *kernels));
      const MatMulShape shape = ShapeOf(c);
      const auto a = Numbers(c.batch * c.rows * c.depth, 1), b = Numbers(c.batch * c.depth * c.columns, 2);
      const auto bias = Numbers(c.columns, 3), addend = Numbers(c.batch * c.rows * c.columns, 4);
      const auto features = Numbers(c.batch * c.rows * c.columns, 5);
      MatMulPlan plan;
      plan.reduction = CeilDivide(c.depth, 1000);
      for (const Epilogue& epilogue : {Epilogue{bias.data(), true}, Epilogue{nullptr, false, addend.data()},
                                       Epilogue{nullptr, false, nullptr, features.data()},
                                       Epilogue{nullptr, false, addend.data(), features.data()}}) {
        std::vector<float> wanted = Product(shape, plan, {}, a, b, *kernels), got(wanted.size(), NAN);
        ApplyEpilogue(epilogue, wanted.data(), c.batch * c.rows, c.columns, *kernels, {});
        MatMul(shape, plan, {}, a.data(), b.data(), got.data(), *kernels, ThreadedParallel(2), {}, epilogue);
        CHECK_SAME(got, wanted);
      }
    }
  }
}

// The kernel updates weights by sums of one piece; else they are updated by the sums once these are whole, and after
// all where parts are products of their own.
TEST(MatMulUpdatesWeightsByItsSums) {
  const float rate = 0.3f;
  const Case cases[] = {{1, 13, 33, 17, true, false},   {1, 100, 98, 64, true, false},   {1, 7, 5, 64, true, false},
                        {1, 40, 141, 600, true, false}, {1, 24, 330, 2500, true, false}, {1, 13, 33, 17, false, false},
                        {1, 30, 40, 1200, false, true}, {1, 24, 40, 13000, true, false}};
  for (const Kernels* kernels : KernelTables()) {
    for (const Case& c : cases) {
      const Context context(ToText(c, *kernels));
      const MatMulShape shape = ShapeOf(c);
      const auto a = Numbers(c.rows * c.depth, 5), b = Numbers(c.depth * c.columns, 6);
      const auto weights = Numbers(c.rows * c.columns, 7);
      MatMulPlan plan;
      plan.reduction = (c.depth + 299) / 300;
      auto wanted = Product(shape, plan, {}, a, b, *kernels);
      for (size_t i = 0; i < wanted.size(); ++i) wanted[i] = weights[i] - wanted[i] * rate;
      for (const int threads : {1, 3}) {
        std::vector<float> updated(weights.size(), NAN), in_place = weights;
        MatMul(shape, plan, {}, a.data(), b.data(), updated.data(), *kernels, ThreadedParallel(threads),
               {weights.data(), updated.data(), rate});
        CHECK_SAME(updated, wanted);
        MatMul(shape, plan, {}, a.data(), b.data(), in_place.data(), *kernels, ThreadedParallel(threads),
               {in_place.data(), in_place.data(), rate});
        CHECK_SAME(in_place, wanted);
      }
    }
  }
}

// Results of 8 MiB are written past the caches if their rows begin at lines of the cache, else through them.
TEST(MatMulOfManyResultsHasTheBitsOfItsWritesThroughCaches) {
  for (const Kernels* kernels : KernelTables()) {
    for (const auto& [columns, transposed] : {std::pair{64, false}, {80, false}, {64, true}, {80, true}}) {
      const Case c = {1, 33000, columns, 3, transposed, false};
      const Context context(ToText(c, *kernels));
      const MatMulShape shape = ShapeOf(c);
      const auto a = Numbers(c.rows * c.depth, 1), b = Numbers(c.depth * columns, 2);
      const Written y = WriteBothWays(c.rows * columns, [&](float* to) {
        MatMul(shape, {}, {}, a.data(), b.data(), to, *kernels, ThreadedParallel(2));
      });
      CHECK_SAME(y.past, y.through);
      CHECK_SAME(y.past, Naive(shape, {c.depth, 1, 8}, 0, false, a, b));
    }
  }
}

TEST(MatMulOfHalvesAddsItsPartsInOrder) {
  std::vector<Case> cases(std::begin(kCases), std::end(kCases));
  // Of rows that adjoin, packed and in place, and of long ones: several parts are summed at a time.
  for (const Case& c : {Case{1, 24, 200, 1100, true, false}, Case{1, 200, 20, 1100, true, false},
                        Case{1, 300, 150, 1700, true, true}, Case{1, 20, 40, 2500, false, false}}) {
    cases.push_back(c);
  }
  for (const Kernels* kernels : KernelTables()) {
    for (const Case& c : cases) {
      const Context context(ToText(c, *kernels));
      const MatMulShape shape = ShapeOf(c);
      const auto a = HalfNumbers(c.batch * c.rows * c.depth, 3), b = HalfNumbers(c.batch * c.depth * c.columns, 4);
      for (const bool half_partials : {false, true}) {
        for (const int64_t parts : {3, 20}) {
          MatMulPlan plan;
          plan.grain = 16;
          plan.reduction = std::min(parts, (c.depth + 15) / 16);
          Numerics numerics;
          numerics.type = ElementType::kHalf;
          numerics.half_partials = half_partials;
          const Partition reduction{c.depth, plan.reduction, plan.grain};
          CHECK_SAME(Product(shape, plan, numerics, a, b, *kernels),
                     Naive(shape, reduction, half_partials ? 16 : 0, false, a, b));
        }
      }
    }
  }
}

TEST(MatMulOverflowsAsItIsTold) {
  const MatMulShape shape = ShapeOf({1, 2, 3, 32, false, false});
  const std::vector<float> a(2 * 32, 256.0f), b(32 * 3, 256.0f);
  for (const Kernels* kernels : KernelTables()) {
    for (const bool nanoo : {false, true}) {
      Numerics numerics;
      numerics.type = ElementType::kHalf;
      numerics.half_partials = true;
      numerics.nanoo = nanoo;
      MatMulPlan plan;
      plan.grain = 16;
      const auto c = Product(shape, plan, numerics, a, b, *kernels);
      CHECK_SAME(c, Naive(shape, {32, 1, 16}, 16, nanoo, a, b));
      CHECK(nanoo ? std::isnan(c[0]) : c[0] == 65504.0f);
    }
  }
}

TEST(MatMulWithRandomRoundingIsOneOfTheNeighbours) {
  const Case c = {2, 9, 20, 50, false, false};
  const MatMulShape shape = ShapeOf(c);
  const auto a = HalfNumbers(c.batch * c.rows * c.depth, 5), b = HalfNumbers(c.batch * c.depth * c.columns, 6);
  Numerics numerics;
  numerics.type = ElementType::kHalf;
  numerics.rounding = Rounding::kStochastic;
  numerics.random = {7, 8, 9};
  MatMulPlan plan;
  plan.grain = 16;
  plan.rows = 2;
  plan.columns = 3;
  const auto exact = Naive(shape, {c.depth, 1, 16}, 0, false, a, b);
  const auto got = Product(shape, plan, numerics, a, b, ActiveKernels(), ThreadedParallel(2));
  int up = 0;
  for (size_t i = 0; i < exact.size(); ++i) {
    const float low = RoundRandom(exact[i], 0, false), high = RoundRandom(exact[i], 65535, false);
    CHECK(got[i] == low || got[i] == high);
    up += low != high && got[i] == high;
  }
  CHECK(up > 0 && up < static_cast<int>(exact.size()));
  CHECK_SAME(Product(shape, plan, numerics, a, b, ActiveKernels()), got);
}

}  // namespace
}  // namespace ipu_tf::testing
