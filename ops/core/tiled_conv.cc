#include "tiled_conv.h"

#include <algorithm>

#include "einsum.h"
#include "scratch.h"
#include "tile_interpreter.h"

namespace ipu_tf {
namespace {

// What forward convolution and input gradient have in common: an image read through a filter into an image.
// Kernel positions count as the plan counts them (flipped for the input gradient).
struct Field {
  int64_t batch = 0, groups = 1;
  int64_t in_rows = 0, in_columns = 0, in_channels = 0;  // Channels of a group.
  int64_t out_rows = 0, out_columns = 0, out_channels = 0;
  int64_t kernel_rows = 0, kernel_columns = 0;
  // Output position o and kernel position k meet input position (o * step + k * dilation - pad) / divisor.
  int64_t row_step = 1, row_dilation = 1, row_pad = 0, row_divisor = 1;
  int64_t column_step = 1, column_dilation = 1, column_pad = 0, column_divisor = 1;
  const float* in = nullptr;
  const float* w = nullptr;  // [kernel rows, kernel columns, in channels, groups * out channels].
  float* out = nullptr;
};

// The input position, or -1 where no product is formed.
int64_t InputPosition(int64_t at, int64_t divisor, int64_t extent) {
  if (at < 0 || at % divisor != 0 || at / divisor >= extent) return -1;
  return at / divisor;
}

class FieldTiles : public TiledOp {
 public:
  FieldTiles(const Field& field, const ConvPlan& plan)
      : TiledOp(Splits({{field.groups, plan.groups, 1},
                        {field.batch, plan.batch, 1},
                        {field.out_rows, plan.field_rows, 1},
                        {field.out_columns, plan.field_columns, 1},
                        {field.out_channels, plan.out_channels, 1}}),
                Splits({{field.kernel_rows, plan.kernel_rows, 1},
                        {field.kernel_columns, plan.kernel_columns, 1},
                        {field.in_channels, plan.in_channels, plan.grain}}),
                1, field.groups * field.out_channels),
        f_(field) {}

  std::vector<float*> OutputRows(const std::vector<Range>& block) const override {
    std::vector<float*> rows;
    ForEachPixel(block, [&](int64_t g, int64_t n, int64_t r, int64_t c) {
      const int64_t pixel = (n * f_.out_rows + r) * f_.out_columns + c;
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
    const int64_t position = kernel_row * f_.kernel_columns + kernel_column;
    const float* w = f_.w + (position * f_.in_channels + channels.begin) * b_step() + block[4].begin;
    ForEachPixel(block, [&](int64_t g, int64_t n, int64_t r, int64_t c) {
      const int64_t row =
          InputPosition(r * f_.row_step + kernel_row * f_.row_dilation - f_.row_pad, f_.row_divisor, f_.in_rows);
      const int64_t column = InputPosition(c * f_.column_step + kernel_column * f_.column_dilation - f_.column_pad,
                                           f_.column_divisor, f_.in_columns);
      if (row < 0 || column < 0) {
        *rows++ = {nullptr, nullptr, 0, 0};
        return;
      }
      const int64_t pixel = (n * f_.in_rows + row) * f_.in_columns + column;
      *rows++ = {f_.in + (pixel * f_.groups + g) * f_.in_channels + channels.begin, w + g * f_.out_channels, 0,
                 channels.size()};
    });
    return channels.size();
  }

 private:
  template <typename Visit>
  static void ForEachPixel(const std::vector<Range>& block, Visit visit) {
    for (int64_t g = block[0].begin; g < block[0].end; ++g) {
      for (int64_t n = block[1].begin; n < block[1].end; ++n) {
        for (int64_t r = block[2].begin; r < block[2].end; ++r) {
          for (int64_t c = block[3].begin; c < block[3].end; ++c) visit(g, n, r, c);
        }
      }
    }
  }

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
  template <typename Visit>
  static void ForEachRow(const std::vector<Range>& block, Visit visit) {
    for (int64_t g = block[0].begin; g < block[0].end; ++g) {
      for (int64_t r = block[1].begin; r < block[1].end; ++r) {
        for (int64_t c = block[2].begin; c < block[2].end; ++c) {
          for (int64_t i = block[3].begin; i < block[3].end; ++i) visit(g, r, c, i);
        }
      }
    }
  }

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
  Field field;
  field.batch = shape.batch;
  field.groups = shape.groups;
  field.in_rows = shape.in_rows;
  field.in_columns = shape.in_columns;
  field.in_channels = shape.group_in_channels();
  field.out_rows = shape.out_rows;
  field.out_columns = shape.out_columns;
  field.out_channels = shape.group_out_channels();
  field.kernel_rows = shape.kernel_rows;
  field.kernel_columns = shape.kernel_columns;
  field.row_step = shape.stride_rows;
  field.row_dilation = shape.dilation_rows;
  field.row_pad = shape.pad_top;
  field.column_step = shape.stride_columns;
  field.column_dilation = shape.dilation_columns;
  field.column_pad = shape.pad_left;
  field.in = x;
  field.w = w;
  field.out = y;
  InterpretTiles(FieldTiles(field, plan), plan.grain, numerics, parallel);
}

void TiledConvInputGradient(const ConvShape& shape, const ConvPlan& plan, const Numerics& numerics, const float* w,
                            const float* dy, float* dx, const Parallel& parallel) {
  const Scratch flipped = FlippedFilter(shape, w);
  Field field;
  field.batch = shape.batch;
  field.groups = shape.groups;
  field.in_rows = shape.out_rows;
  field.in_columns = shape.out_columns;
  field.in_channels = shape.group_out_channels();
  field.out_rows = shape.in_rows;
  field.out_columns = shape.in_columns;
  field.out_channels = shape.group_in_channels();
  field.kernel_rows = shape.kernel_rows;
  field.kernel_columns = shape.kernel_columns;
  field.row_dilation = shape.dilation_rows;
  field.row_pad = (shape.kernel_rows - 1) * shape.dilation_rows - shape.pad_top;
  field.row_divisor = shape.stride_rows;
  field.column_dilation = shape.dilation_columns;
  field.column_pad = (shape.kernel_columns - 1) * shape.dilation_columns - shape.pad_left;
  field.column_divisor = shape.stride_columns;
  field.in = dy;
  field.w = flipped.data();
  field.out = dx;
  InterpretTiles(FieldTiles(field, plan), plan.grain, numerics, parallel);
}

void TiledConvFilterGradient(const ConvShape& shape, const ConvPlan& plan, const Numerics& numerics, const float* x,
                             const float* dy, float* dw, const Parallel& parallel) {
  InterpretTiles(FilterTiles(shape, plan, x, dy, dw), plan.grain, numerics, parallel);
}

}  // namespace ipu_tf
