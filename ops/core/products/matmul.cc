#include "matmul.h"

#include <utility>
#include <vector>

#include "../convolutions/conv_lines.h"
#include "../elements/chains.h"
#include "../ordered_sums.h"
#include "../scratch.h"
#include "gemm.h"
#include "gemm_blocking.h"
#include "small_matmul.h"
#include "tiled_matmul.h"

namespace ipu_tf {
namespace {

// The longest chain of float32 sums that parts are joined to. A choice between the parts of the plan, whose length is
// whatever the tiles need, and one chain, whose roundings add up: of 4,096 products of normal numbers the sum errs by
// 3.7e-5 (measured, root mean square), by 7.7e-5 as one chain and by 1.9e-5 in chains of 256; all take equally long, to
// about 10%. Another length changes float32 results.
constexpr int64_t kFloatChain = 1024;
// Parts that are products of their own: at least so many for each thread, so that all are busy to the end. Measured on
// a Xeon: with 2, gradients over 2,048 samples take up to 1.07 times as long.
constexpr int64_t kPartsPerThread = 4;
// Their sums may take this much. Measured: sums of 16 MiB pay.
constexpr int64_t kMostFloatsOfParts = int64_t{1} << 22;
// Shorter ones, as float16 may have, cost more to keep apart than they gain. Measured on one thread: 128 parts of 16
// products take 1.9 times as long, 8 of 256 take 0.9 of the time.
constexpr int64_t kFewestProductsOfPart = 256;
// Reductions that leave time to fetch what is read next. Measured on a Zen 4, of 1x1 convolutions instead of products:
// of 8, they take 1.08 times as long, of 16 as long.
constexpr int64_t kFewestChannelsOfPixel = 32;

// Rows `row_stride` floats apart.
class StridedRows : public RowSource {
 public:
  StridedRows(const float* a, int64_t row_stride, float* c, int64_t ldc)
      : a_(a), row_stride_(row_stride), c_(c), ldc_(ldc) {}

  void Fill(int64_t begin, int64_t count, const float** a, int64_t /*stride*/, float** c) const override {
    for (int64_t r = 0; r < count; ++r) {
      a[r] = a_ + (begin + r) * row_stride_;
      c[r] = c_ + (begin + r) * ldc_;
    }
  }

 private:
  const float* a_;
  int64_t row_stride_;
  float* c_;
  int64_t ldc_;
};

// The longest stretch of the reduction whose parts are joined.
int64_t Chain(const Numerics& numerics) { return numerics.type == ElementType::kFloat ? kFloatChain : 0; }

bool IsOnePart(const Partition& reduction, const Numerics& numerics) {
  return reduction.parts == 1 || reduction.end(reduction.parts - 1) <= Chain(numerics);
}

// The parts of the reduction. In float32, where their sums need not be kept apart, neighbours are joined.
std::vector<ReductionPart> Parts(const Partition& reduction, const Numerics& numerics) {
  const int64_t chain = Chain(numerics);
  std::vector<ReductionPart> parts;
  for (int64_t i = 0; i < reduction.parts; ++i) {
    if (!parts.empty() && reduction.end(i) - parts.back().k_begin <= chain) {
      parts.back().k_end = reduction.end(i);
    } else {
      parts.push_back({0, 1, reduction.begin(i), reduction.end(i)});
    }
  }
  return parts;
}

// The product of a batch element but for its reduction.
GemmProblem ProblemOf(const MatMulShape& shape, const float* b, const RowSource* source) {
  GemmProblem problem;
  problem.rows = shape.rows;
  problem.columns = shape.columns;
  problem.weights = {b, {0}, shape.b_k_stride, shape.b_n_stride};
  problem.source = source;
  problem.transposed_step = shape.a_k_stride == 1 ? 0 : shape.a_k_stride;
  return problem;
}

// Whether the second operand adjoins in memory, as it is or turned round.
bool IsFilter(const MatMulShape& shape) {
  return (shape.b_n_stride == 1 && shape.b_k_stride == shape.columns) ||
         (shape.b_k_stride == 1 && shape.b_n_stride == shape.depth);
}

// Whether the rows are the pixels of an image, of which the second operand is a filter of 1x1. Beside its products, a
// convolution fetches the rows that it reads next and those that it writes. Measured on one thread of a Zen 4, where
// operands come from memory: 2,048 x 256 x 256 takes 0.86 of the time, other products of 150 to 8,000 rows 0.9 to 1.0.
// Few rows pass their weights once, and copy these as they read them: 64 x 784 x 512 would take 1.1 times as long.
bool RowsArePixels(const MatMulShape& shape, const std::vector<ReductionPart>& parts, const PassRounding& rounding,
                   const Kernels& kernels) {
  return shape.batch() == 1 && !AreFewRows(shape.rows, kernels) && shape.depth >= kFewestChannelsOfPixel &&
         shape.a_k_stride == 1 && shape.a_row_stride == shape.depth && shape.c_row_stride == shape.columns &&
         shape.c_at[0] == 0 && parts.size() == 1 && rounding.grain == 0 && IsFilter(shape);
}

// The convolution, or the gradient of the input of one if the filter's channels are turned round.
void Convolve(const MatMulShape& shape, const float* a, const float* b, float* c, const Kernels& kernels,
              const Parallel& parallel, const Epilogue& epilogue) {
  const bool turned = shape.b_n_stride != 1;
  ConvShape image;
  image.batch = image.in_columns = image.out_columns = image.kernel_rows = image.kernel_columns = 1;
  image.in_rows = image.out_rows = shape.rows;
  image.in_channels = turned ? shape.columns : shape.depth;
  image.out_channels = turned ? shape.depth : shape.columns;
  if (turned) return LinesInputGradient(image, b, a, c, kernels, parallel, epilogue);
  LinesForward(image, a, b, c, kernels, parallel, epilogue);
}

// Whether each part of a long reduction over rows that adjoin is a product of its own. Then an item reads a stretch of
// both operands once, where otherwise every item reads all of one of them.
bool PartsPay(const MatMulShape& shape, const std::vector<ReductionPart>& parts, const PassRounding& rounding,
              int threads) {
  const int64_t count = static_cast<int64_t>(parts.size());
  return shape.batch() == 1 && shape.a_k_stride != 1 && shape.c_row_stride == shape.columns && rounding.grain == 0 &&
         count >= kPartsPerThread * threads && shape.depth >= count * kFewestProductsOfPart &&
         count * shape.rows * shape.columns <= kMostFloatsOfParts;
}

// The sum of the parts' products in order, or weights that are updated by it.
void MultiplyParts(const MatMulShape& shape, const std::vector<ReductionPart>& parts, const float* a, const float* b,
                   float* c, const Kernels& kernels, const Parallel& parallel, const WeightUpdate& update) {
  const int64_t count = static_cast<int64_t>(parts.size()), floats = shape.rows * shape.columns;
  Scratch sums(count * floats);
  std::vector<StridedRows> sources;
  std::vector<GemmProblem> problems;
  sources.reserve(count);
  for (const ReductionPart& part : parts) {
    float* sum = sums.data() + static_cast<int64_t>(problems.size()) * floats;
    sources.emplace_back(a + part.k_begin * shape.a_k_stride, shape.a_row_stride, sum, shape.columns);
    problems.push_back(ProblemOf(shape, b + part.k_begin * shape.b_k_stride, &sources.back()));
    problems.back().run = part.k_end - part.k_begin;
    problems.back().parts = {{0, 1, 0, problems.back().run}};
  }
  RunGemms(problems, kernels, parallel);
  if (update.weights == nullptr) return AddInOrder(sums.data(), count, floats, c, kernels, parallel);
  const Scratch gradient(floats);
  AddInOrder(sums.data(), count, floats, gradient.data(), kernels, parallel);
  const float* weights = update.weights + (c - update.outputs);
  ScaledUpdate(weights, gradient.data(), update.rate, c, floats, parallel);
}

}  // namespace

std::string CheckPlan(const MatMulPlan& plan, const MatMulShape& shape) {
  return CheckPartitions({{"batch", {shape.batch(), plan.batch, 1}},
                          {"rows", {shape.rows, plan.rows, 1}},
                          {"columns", {shape.columns, plan.columns, 1}},
                          {"reduction", {shape.depth, plan.reduction, plan.grain}}});
}

void MatMul(const MatMulShape& shape, const MatMulPlan& plan, const Numerics& numerics, const float* a, const float* b,
            float* c, const Kernels& kernels, const Parallel& threads, const WeightUpdate& update,
            const Epilogue& epilogue) {
  const Parallel parallel = ForProducts(shape.batch() * shape.rows * shape.columns * shape.depth, threads);
  const int64_t output_rows = shape.batch() * shape.rows;
  if (numerics.stochastic()) {
    TiledMatMul(shape, plan, numerics, a, b, c, parallel);
    return ApplyEpilogue(epilogue, c, output_rows, shape.columns, kernels, parallel);
  }
  const Partition reduction{shape.depth, plan.reduction, plan.grain};
  const PassRounding rounding{numerics.pass_grain(plan.grain), numerics.nanoo};
  if (update.weights == nullptr && rounding.grain == 0 && IsSmall(shape) && IsOnePart(reduction, numerics)) {
    SmallMatMul(shape, a, b, c, kernels, parallel);
    return ApplyEpilogue(epilogue, c, output_rows, shape.columns, kernels, parallel);
  }
  const std::vector<ReductionPart> parts = Parts(reduction, numerics);
  if (PartsPay(shape, parts, rounding, parallel.threads)) {
    c += shape.c_at[0];
    MultiplyParts(shape, parts, a + shape.a_at[0], b + shape.b_at[0], c, kernels, parallel, update);
    return ApplyEpilogue(epilogue, c, output_rows, shape.columns, kernels, parallel);
  }
  if (update.weights == nullptr && RowsArePixels(shape, parts, rounding, kernels)) {
    return Convolve(shape, a + shape.a_at[0], b + shape.b_at[0], c, kernels, parallel, epilogue);
  }
  std::vector<StridedRows> sources;
  std::vector<GemmProblem> problems;
  sources.reserve(shape.batch());
  for (int64_t g = 0; g < shape.batch(); ++g) {
    sources.emplace_back(a + shape.a_at[g], shape.a_row_stride, c + shape.c_at[g], shape.c_row_stride);
    GemmProblem problem = ProblemOf(shape, b + shape.b_at[g], &sources.back());
    problem.run = shape.depth;
    problem.parts = parts;
    problem.rounding = rounding;
    problem.update = update;
    problem.epilogue = epilogue;
    problem.outputs = c;
    problems.push_back(std::move(problem));
  }
  RunGemms(problems, kernels, parallel);
}

}  // namespace ipu_tf
