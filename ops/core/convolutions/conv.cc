// Forward convolution and input gradient: both reduce taps x channels for every output pixel.
#include "conv.h"

#include <deque>

#include "../products/gemm.h"
#include "../scratch.h"
#include "conv_lines.h"
#include "depthwise.h"
#include "pixel_rows.h"
#include "tiled_conv.h"

namespace ipu_tf {
namespace {

// The reduction of a set of pixels that share their taps, in the plan's order of parts.
struct Reduction {
  std::vector<Tap> taps;
  std::vector<int64_t> tap_at;  // Floats to the tap's weights.
  std::vector<ReductionPart> parts;

  // Closes the taps added since `begin`: one part for every part of the channels.
  void AddParts(int64_t begin, const Partition& channels) {
    const int64_t end = static_cast<int64_t>(taps.size());
    for (int64_t i = 0; i < channels.parts; ++i) {
      parts.push_back({begin, end, channels.begin(i), channels.end(i)});
    }
  }
};

// Calls visit(kernel row, kernel column) for each combination of parts, then done() after each combination.
template <typename Visit, typename Done>
void ForEachKernelPart(const ConvShape& shape, const ConvPlan& plan, Visit visit, Done done) {
  const Partition rows{shape.kernel_rows, plan.kernel_rows, 1};
  const Partition columns{shape.kernel_columns, plan.kernel_columns, 1};
  for (int64_t i = 0; i < rows.parts; ++i) {
    for (int64_t j = 0; j < columns.parts; ++j) {
      for (int64_t r = rows.begin(i); r < rows.end(i); ++r) {
        for (int64_t c = columns.begin(j); c < columns.end(j); ++c) visit(r, c);
      }
      done();
    }
  }
}

Reduction ForwardReduction(const ConvShape& shape, const ConvPlan& plan) {
  Reduction reduction;
  int64_t begin = 0;
  const Partition channels{shape.group_in_channels(), plan.in_channels, plan.grain};
  ForEachKernelPart(
      shape, plan,
      [&](int64_t r, int64_t c) {
        reduction.taps.push_back(
            {r * shape.dilation_rows - shape.pad_top, c * shape.dilation_columns - shape.pad_left});
        reduction.tap_at.push_back((r * shape.kernel_columns + c) * shape.tap_floats());
      },
      [&] {
        reduction.AddParts(begin, channels);
        begin = static_cast<int64_t>(reduction.taps.size());
      });
  return reduction;
}

// The taps that reach the dx pixels whose row and column leave these remainders modulo the strides. Kernel
// positions count in the flipped filter.
Reduction PhaseReduction(const ConvShape& shape, const ConvPlan& plan, int64_t phase_row, int64_t phase_column) {
  Reduction reduction;
  int64_t begin = 0;
  const Partition channels{shape.group_out_channels(), plan.in_channels, plan.grain};
  ForEachKernelPart(
      shape, plan,
      [&](int64_t flipped_row, int64_t flipped_column) {
        const int64_t r = shape.kernel_rows - 1 - flipped_row;
        const int64_t c = shape.kernel_columns - 1 - flipped_column;
        const int64_t row = phase_row + shape.pad_top - r * shape.dilation_rows;
        const int64_t column = phase_column + shape.pad_left - c * shape.dilation_columns;
        if (row % shape.stride_rows != 0 || column % shape.stride_columns != 0) return;
        reduction.taps.push_back({row / shape.stride_rows, column / shape.stride_columns});
        reduction.tap_at.push_back((r * shape.kernel_columns + c) * shape.tap_floats());
      },
      [&] {
        reduction.AddParts(begin, channels);
        begin = static_cast<int64_t>(reduction.taps.size());
      });
  return reduction;
}

GemmProblem MakeProblem(const PixelRows::Grid& grid, int64_t batch, const Reduction& reduction, const ConvPlan& plan,
                        const Numerics& numerics) {
  GemmProblem problem;
  problem.rows = batch * grid.rows * grid.columns;
  problem.weights.tap_at = reduction.tap_at;
  problem.parts = reduction.parts;
  problem.skip_outside = numerics.pass_grain(plan.grain) > 0;
  problem.rounding = {numerics.pass_grain(plan.grain), numerics.nanoo};
  return problem;
}

PixelRows::Grid ForwardGrid(const ConvShape& shape, const float* x, float* y) {
  PixelRows::Grid grid;
  grid.in = x;
  grid.in_rows = shape.in_rows;
  grid.in_columns = shape.in_columns;
  grid.in_pixel = shape.in_channels;
  grid.in_row_step = shape.stride_rows;
  grid.in_column_step = shape.stride_columns;
  grid.out = y;
  grid.out_rows = grid.rows = shape.out_rows;
  grid.out_columns = grid.columns = shape.out_columns;
  grid.out_pixel = shape.out_channels;
  return grid;
}

// Tap by tap, in the plan's parts of the reduction.
void PlannedForward(const ConvShape& shape, const ConvPlan& plan, const Numerics& numerics, const float* x,
                    const float* w, float* y, const Kernels& kernels, const Parallel& parallel) {
  const Reduction reduction = ForwardReduction(shape, plan);
  if (shape.plain_depthwise()) {
    return DepthwiseConv(ForwardGrid(shape, x, y), reduction.taps, shape.batch, w, reduction.tap_at, reduction.parts,
                         {numerics.pass_grain(plan.grain), numerics.nanoo}, kernels, parallel);
  }
  std::deque<PixelRows> sources;
  std::vector<GemmProblem> problems;
  for (int64_t g = 0; g < shape.groups; ++g) {
    const PixelRows::Grid grid = ForwardGrid(shape, x + g * shape.group_in_channels(), y);
    sources.emplace_back(grid, reduction.taps);
    GemmProblem problem = MakeProblem(grid, shape.batch, reduction, plan, numerics);
    problem.columns = shape.group_out_channels();
    problem.run = shape.group_in_channels();
    problem.weights.data = w + g * shape.group_out_channels();
    problem.weights.k_stride = shape.out_channels;
    problem.column_offset = g * shape.group_out_channels();
    problem.source = &sources.back();
    problems.push_back(problem);
  }
  RunGemms(problems, kernels, parallel);
}

void PlannedInputGradient(const ConvShape& shape, const ConvPlan& plan, const Numerics& numerics, const float* w,
                          const float* dy, float* dx, const Kernels& kernels, const Parallel& parallel) {
  std::deque<PixelRows> sources;
  std::vector<GemmProblem> problems;
  PixelRows::Grid grid;
  grid.in_rows = shape.out_rows;
  grid.in_columns = shape.out_columns;
  grid.in_pixel = shape.out_channels;
  grid.out = dx;
  grid.out_rows = shape.in_rows;
  grid.out_columns = shape.in_columns;
  grid.out_pixel = shape.in_channels;
  grid.row_step = shape.stride_rows;
  grid.column_step = shape.stride_columns;
  const int64_t phases = shape.stride_rows * shape.stride_columns;
  for (int64_t phase = 0; phase < phases; ++phase) {
    grid.first_row = phase / shape.stride_columns;
    grid.first_column = phase % shape.stride_columns;
    if (grid.first_row >= shape.in_rows || grid.first_column >= shape.in_columns) continue;
    grid.rows = CeilDivide(shape.in_rows - grid.first_row, shape.stride_rows);
    grid.columns = CeilDivide(shape.in_columns - grid.first_column, shape.stride_columns);
    const Reduction reduction = PhaseReduction(shape, plan, grid.first_row, grid.first_column);
    if (shape.plain_depthwise()) {
      grid.in = dy;
      DepthwiseConv(grid, reduction.taps, shape.batch, w, reduction.tap_at, reduction.parts,
                    {numerics.pass_grain(plan.grain), numerics.nanoo}, kernels, parallel);
      continue;
    }
    for (int64_t g = 0; g < shape.groups; ++g) {
      grid.in = dy + g * shape.group_out_channels();
      sources.emplace_back(grid, reduction.taps);
      GemmProblem problem = MakeProblem(grid, shape.batch, reduction, plan, numerics);
      problem.columns = shape.group_in_channels();
      problem.run = shape.group_out_channels();
      problem.weights.data = w + g * shape.group_out_channels();
      problem.weights.k_stride = 1;
      problem.weights.n_stride = shape.out_channels;
      problem.column_offset = g * shape.group_in_channels();
      problem.source = &sources.back();
      problems.push_back(problem);
    }
  }
  if (!problems.empty()) RunGemms(problems, kernels, parallel);
}

}  // namespace

void ConvForward(const ConvShape& shape, const ConvPlan& plan, const Numerics& numerics, const float* x, const float* w,
                 float* y, const Kernels& kernels, const Parallel& threads, const Epilogue& epilogue) {
  const Parallel parallel = ForProducts(shape.multiplications(), threads);
  if (numerics.stochastic()) return TiledConvForward(shape, plan, numerics, x, w, y, parallel);
  if (LinesPay(ConvPass::kForward, shape, plan, numerics)) {
    return LinesForward(shape, x, w, y, kernels, parallel, epilogue);
  }
  PlannedForward(shape, plan, numerics, x, w, y, kernels, parallel);
  ApplyEpilogue(epilogue, y, shape.batch * shape.out_rows * shape.out_columns, shape.out_channels, kernels, parallel);
}

void ConvInputGradient(const ConvShape& shape, const ConvPlan& plan, const Numerics& numerics, const float* w,
                       const float* dy, float* dx, const Kernels& kernels, const Parallel& threads,
                       const Epilogue& epilogue) {
  const Parallel parallel = ForProducts(shape.multiplications(), threads);
  if (numerics.stochastic()) {
    return TiledConvInputGradient(shape, plan, numerics, w, dy, dx, parallel);
  }
  if (LinesPay(ConvPass::kInputGradient, shape, plan, numerics)) {
    return LinesInputGradient(shape, w, dy, dx, kernels, parallel, epilogue);
  }
  PlannedInputGradient(shape, plan, numerics, w, dy, dx, kernels, parallel);
  ApplyEpilogue(epilogue, dx, shape.batch * shape.in_rows * shape.in_columns, shape.in_channels, kernels, parallel);
}

}  // namespace ipu_tf
