#include "tiled_conv.h"

#include <algorithm>

#include "../plan/tile_interpreter.h"
#include "../products/einsum.h"
#include "../scratch.h"

namespace ipu_tf {
namespace {

// A dimension of an image that is read through a filter: output position o and kernel position k meet input position
// (o * step + k * dilation - pad) / divisor.
struct FieldAxis {
  int64_t in, out, kernel, step, dilation, pad, divisor;

  // The input position, or -1 where no product is formed.
  int64_t Input(int64_t o, int64_t k) const {
    const int64_t at = o * step + k * dilation - pad;
    return at < 0 || at % divisor != 0 || at / divisor >= in ? -1 : at / divisor;
  }
  // The axis of the input gradient, whose filter is flipped.
  FieldAxis Transposed() const { return {out, in, kernel, 1, dilation, (kernel - 1) * dilation - pad, step}; }
};

FieldAxis RowsOf(const ConvShape& s) {
  return {s.in_rows, s.out_rows, s.kernel_rows, s.stride_rows, s.dilation_rows, s.pad_top, 1};
}
FieldAxis ColumnsOf(const ConvShape& s) {
  return {s.in_columns, s.out_columns, s.kernel_columns, s.stride_columns, s.dilation_columns, s.pad_left, 1};
}

// What forward convolution and input gradient have in common: an image read through a filter into an image.
// Kernel positions count as the plan counts them (flipped for the input gradient).
struct Field {
  int64_t batch, groups;
  int64_t in_channels, out_channels;  // Of a group.
  FieldAxis rows, columns;
  const float* in;
  const float* w;  // [kernel rows, kernel columns, in channels, groups * out channels].
  float* out;
};

// Calls visit(i, j, k, l) for all that the first four ranges of an output block combine: its rows, in order.
template <typename Visit>
void ForEachRow(const std::vector<Range>& block, const Visit& visit) {
  for (int64_t i = block[0].begin; i < block[0].end; ++i) {
    for (int64_t j = block[1].begin; j < block[1].end; ++j) {
      for (int64_t k = block[2].begin; k < block[2].end; ++k) {
        for (int64_t l = block[3].begin; l < block[3].end; ++l) visit(i, j, k, l);
      }
    }
  }
}

class FieldTiles : public TiledOp {
 public:
  FieldTiles(const Field& field, const ConvPlan& plan)
      : TiledOp(Splits({{field.groups, plan.groups, 1},
                        {field.batch, plan.batch, 1},
                        {field.rows.out, plan.field_rows, 1},
                        {field.columns.out, plan.field_columns, 1},
                        {field.out_channels, plan.out_channels, 1}}),
                Splits({{field.rows.kernel, plan.kernel_rows, 1},
                        {field.columns.kernel, plan.kernel_columns, 1},
                        {field.in_channels, plan.in_channels, plan.grain}}),
                1, field.groups * field.out_channels),
        f_(field) {}

  std::vector<float*> OutputRows(const std::vector<Range>& block) const override {
    std::vector<float*> rows;
    ForEachRow(block, [&](int64_t g, int64_t n, int64_t r, int64_t c) {
      const int64_t pixel = (n * f_.rows.out + r) * f_.columns.out + c;
      rows.push_back(f_.out + (pixel * f_.groups + g) * f_.out_channels + block[4].begin);
    });
    return rows;
  }

  int64_t Runs(const std::vector<Range>& part) const override { return part[0].size() * part[1].size(); }

  int64_t FillRun(const std::vector<Range>& block, const std::vector<Range>& part, int64_t run,
                  RunRow* rows) const override {
    const int64_t kernel_row = part[0].begin + run / part[1].size();
    const int64_t kernel_column = part[1].begin + run % part[1].size();
    const Range channels = part[2];
    const int64_t position = kernel_row * f_.columns.kernel + kernel_column;
    const float* w = f_.w + (position * f_.in_channels + channels.begin) * b_step() + block[4].begin;
    ForEachRow(block, [&](int64_t g, int64_t n, int64_t r, int64_t c) {
      const int64_t row = f_.rows.Input(r, kernel_row), column = f_.columns.Input(c, kernel_column);
      if (row < 0 || column < 0) {
        *rows++ = {nullptr, nullptr, 0, 0};
        return;
      }
      const int64_t pixel = (n * f_.rows.in + row) * f_.columns.in + column;
      *rows++ = {f_.in + (pixel * f_.groups + g) * f_.in_channels + channels.begin, w + g * f_.out_channels, 0,
                 channels.size()};
    });
    return channels.size();
  }

 private:
  const Field& f_;
};

class FilterTiles : public TiledOp {
 public:
  FilterTiles(const ConvShape& shape, const ConvPlan& plan, const float* x, const float* dy, float* dw)
      : TiledOp(Splits({{shape.groups, plan.groups, 1},
                        {shape.kernel_rows, plan.kernel_rows, 1},
                        {shape.kernel_columns, plan.kernel_columns, 1},
                        {shape.group_in_channels(), plan.in_channels, 1},
                        {shape.group_out_channels(), plan.out_channels, 1}}),
                Splits({{shape.batch, plan.batch, 1},
                        {shape.out_rows, plan.field_rows, 1},
                        {shape.out_columns, plan.field_columns, plan.grain}}),
                shape.stride_columns * shape.in_channels, shape.out_channels),
        s_(shape),
        x_(x),
        dy_(dy),
        dw_(dw) {}

  std::vector<float*> OutputRows(const std::vector<Range>& block) const override {
    std::vector<float*> rows;
    ForEachRow(block, [&](int64_t g, int64_t r, int64_t c, int64_t i) {
      const int64_t position = r * s_.kernel_columns + c;
      rows.push_back(dw_ + (position * s_.group_in_channels() + i) * s_.out_channels + g * s_.group_out_channels() +
                     block[4].begin);
    });
    return rows;
  }

  int64_t Runs(const std::vector<Range>& part) const override { return part[0].size() * part[1].size(); }

  int64_t FillRun(const std::vector<Range>& block, const std::vector<Range>& part, int64_t run,
                  RunRow* rows) const override {
    const int64_t n = part[0].begin + run / part[1].size();
    const int64_t row = part[1].begin + run % part[1].size();
    const Range columns = part[2];
    const int64_t step = s_.stride_columns;
    const float* dy =
        dy_ + ((n * s_.out_rows + row) * s_.out_columns + columns.begin) * s_.out_channels + block[4].begin;
    ForEachRow(block, [&](int64_t g, int64_t r, int64_t c, int64_t i) {
      const int64_t in_row = row * s_.stride_rows + r * s_.dilation_rows - s_.pad_top;
      if (in_row < 0 || in_row >= s_.in_rows) {
        *rows++ = {nullptr, nullptr, 0, 0};
        return;
      }
      // Column k of the run reads input column `first + k * step`.
      const int64_t first = columns.begin * step + c * s_.dilation_columns - s_.pad_left;
      const int64_t begin = first < 0 ? CeilDivide(-first, step) : 0;
      const int64_t end = first < s_.in_columns ? CeilDivide(s_.in_columns - first, step) : 0;
      const int64_t pixel = (n * s_.in_rows + in_row) * s_.in_columns + first;
      *rows++ = {x_ + pixel * s_.in_channels + g * s_.group_in_channels() + i, dy + g * s_.group_out_channels(), begin,
                 std::min(end, columns.size())};
    });
    return columns.size();
  }

 private:
  const ConvShape& s_;
  const float *x_, *dy_;
  float* dw_;
};

// w flipped and transposed: [kernel rows, kernel columns, out channels of a group, groups * in channels].
Scratch FlippedFilter(const ConvShape& shape, const float* w) {
  Scratch flipped(shape.filter_floats());
  const int64_t from = shape.group_in_channels(), to = shape.group_out_channels();
  const int64_t positions = shape.kernel_rows * shape.kernel_columns, floats = from * shape.out_channels;
  for (int64_t position = 0; position < positions; ++position) {
    CopyStrided(w + (positions - 1 - position) * floats, {{to, 1}, {shape.groups, to}, {from, shape.out_channels}},
                flipped.data() + position * floats);
  }
  return flipped;
}

}  // namespace

void TiledConvForward(const ConvShape& shape, const ConvPlan& plan, const Numerics& numerics, const float* x,
                      const float* w, float* y, const Parallel& parallel) {
  const Field field = {shape.batch,
                       shape.groups,
                       shape.group_in_channels(),
                       shape.group_out_channels(),
                       RowsOf(shape),
                       ColumnsOf(shape),
                       x,
                       w,
                       y};
  InterpretTiles(FieldTiles(field, plan), plan.grain, numerics, parallel);
}

void TiledConvInputGradient(const ConvShape& shape, const ConvPlan& plan, const Numerics& numerics, const float* w,
                            const float* dy, float* dx, const Parallel& parallel) {
  const Scratch flipped = FlippedFilter(shape, w);
  const Field field = {shape.batch,
                       shape.groups,
                       shape.group_out_channels(),
                       shape.group_in_channels(),
                       RowsOf(shape).Transposed(),
                       ColumnsOf(shape).Transposed(),
                       dy,
                       flipped.data(),
                       dx};
  InterpretTiles(FieldTiles(field, plan), plan.grain, numerics, parallel);
}

void TiledConvFilterGradient(const ConvShape& shape, const ConvPlan& plan, const Numerics& numerics, const float* x,
                             const float* dy, float* dw, const Parallel& parallel) {
  InterpretTiles(FilterTiles(shape, plan, x, dy, dw), plan.grain, numerics, parallel);
}

}  // namespace ipu_tf
