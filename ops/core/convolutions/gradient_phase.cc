#include "gradient_phase.h"

#include <algorithm>

#include "../parallel.h"

namespace ipu_tf {
namespace {

PhaseTaps TapsOf(int64_t remainder, int64_t kernel, int64_t stride, int64_t dilation, int64_t pad) {
  PhaseTaps taps;
  const int64_t first = (remainder + pad) % stride;
  if (first >= kernel) return taps;
  taps.count = (kernel - 1 - first) / stride + 1;
  taps.last = first + (taps.count - 1) * stride;
  taps.pad_before = (taps.last * dilation - remainder - pad) / stride;
  return taps;
}

GradientPhase MakePhase(const ConvShape& s, int64_t row, int64_t column) {
  GradientPhase phase{row,
                      column,
                      TapsOf(row, s.kernel_rows, s.stride_rows, s.dilation_rows, s.pad_top),
                      TapsOf(column, s.kernel_columns, s.stride_columns, 1, s.pad_left),
                      {}};
  Window& window = phase.window;
  window.batch = s.batch;
  window.in_rows = s.out_rows;
  window.in_columns = s.out_columns;
  window.channels = s.out_channels;
  window.out_rows = CeilDivide(s.in_rows - row, s.stride_rows);
  window.out_columns = CeilDivide(s.in_columns - column, s.stride_columns);
  window.kernel_rows = phase.rows.count;
  window.kernel_columns = phase.columns.count;
  window.dilation_rows = s.dilation_rows;
  window.pad_top = phase.rows.pad_before;
  window.pad_left = phase.columns.pad_before;
  return phase;
}

}  // namespace

std::vector<GradientPhase> GradientPhases(const ConvShape& shape) {
  std::vector<GradientPhase> phases;
  for (int64_t row = 0; row < std::min(shape.stride_rows, shape.in_rows); ++row) {
    for (int64_t column = 0; column < std::min(shape.stride_columns, shape.in_columns); ++column) {
      phases.push_back(MakePhase(shape, row, column));
    }
  }
  return phases;
}

}  // namespace ipu_tf
