// Filter gradient: blocks of (input channels x output channels) summed over pixels. The pixels are taken in chunks
// that stay in the cache while every block of the work item reads them.
#include <algorithm>
#include <cstring>

#include "conv.h"
#include "scratch.h"
#include "tiled_conv.h"

namespace ipu_tf {
namespace {

constexpr int64_t kChunkPixels = 256;
constexpr int64_t kItemsPerThread = 4;
constexpr int64_t kEnoughUnits = 16;  // With fewer blocks, float32 sums are sliced over images too.

// A range of the pixels of dy whose products are summed from zero.
struct Piece {
  int64_t image_begin, image_end, row_begin, row_end, column_begin, column_end;
};

// The input as the filter gradient reads it: `rows` adjoining floats for each kernel position.
struct View {
  const float* x = nullptr;
  int64_t in_rows = 0, in_columns = 0, in_pixel = 0;
  int64_t pad_top = 0, pad_left = 0;
  int64_t kernel_columns = 0;  // 1 where a whole kernel row is one position.
  int64_t rows = 0;
};

class FilterGradient {
 public:
  FilterGradient(const ConvShape& shape, const ConvPlan& plan, const Numerics& numerics,
                 const View& view, const float* dy, const Kernels& kernels)
      : shape_(shape),
        view_(view),
        dy_(dy),
        kernels_(kernels),
        rounding_{numerics.pass_grain(plan.grain), numerics.nanoo},
        blocks_(CeilDivide(view.rows, kernels.block_rows)),
        panels_(CeilDivide(shape.group_out_channels(), kernels.block_columns)),
        positions_(shape.kernel_rows * view.kernel_columns) {
    AddPieces(plan, numerics.type == ElementType::kFloat);
  }

  void Run(float* dw, const Parallel& parallel) const {
    const int64_t units = shape_.groups * panels_ * positions_ * blocks_;
    const int64_t items = std::min(units, kItemsPerThread * parallel.threads);
    const int64_t pieces = static_cast<int64_t>(pieces_.size());
    const int64_t floats = shape_.filter_floats();
    // Few blocks: the pieces run side by side, each into its own sum. Many: one after another.
    const bool side_by_side = pieces > 1 && units < kEnoughUnits;
    Scratch sums(side_by_side ? (pieces - 1) * floats : pieces > 1 ? floats : 0);
    if (side_by_side) {
      parallel(items * pieces, [&](int64_t index) {
        const int64_t piece = index % pieces, item = index / pieces;
        float* to = piece == 0 ? dw : sums.data() + (piece - 1) * floats;
        RunUnits(units * item / items, units * (item + 1) / items, pieces_[piece], to);
      });
      for (int64_t i = 1; i < pieces; ++i) {
        kernels_.add(sums.data() + (i - 1) * floats, dw, floats);
      }
      return;
    }
    for (int64_t i = 0; i < pieces; ++i) {
      parallel(items, [&](int64_t item) {
        RunUnits(units * item / items, units * (item + 1) / items, pieces_[i],
                 i == 0 ? dw : sums.data());
      });
      if (i > 0) kernels_.add(sums.data(), dw, floats);
    }
  }

 private:
  // The plan's parts in order; where the order within a part is free, each is sliced by images.
  void AddPieces(const ConvPlan& plan, bool may_slice) {
    const int64_t units = shape_.groups * panels_ * positions_ * blocks_;
    const Partition images{shape_.batch, plan.batch, 1};
    const Partition rows{shape_.out_rows, plan.field_rows, 1};
    const Partition columns{shape_.out_columns, plan.field_columns, plan.grain};
    const int64_t parts = images.parts * rows.parts * columns.parts;
    const int64_t slices = may_slice ? CeilDivide(kEnoughUnits, units * parts) : 1;
    for (int64_t i = 0; i < images.parts; ++i) {
      const int64_t count = images.end(i) - images.begin(i);
      const Partition slice{count, std::min(slices, count), 1};
      for (int64_t r = 0; r < rows.parts; ++r) {
        for (int64_t c = 0; c < columns.parts; ++c) {
          for (int64_t s = 0; s < slice.parts; ++s) {
            pieces_.push_back({images.begin(i) + slice.begin(s), images.begin(i) + slice.end(s),
                               rows.begin(r), rows.end(r), columns.begin(c), columns.end(c)});
          }
        }
      }
    }
  }

  // Units count (group, panel, kernel position, block of rows), the last fastest.
  void RunUnits(int64_t begin, int64_t end, const Piece& piece, float* dw) const {
    std::vector<TransposedRun> runs;
    const int64_t piece_rows = piece.row_end - piece.row_begin;
    const int64_t lines = (piece.image_end - piece.image_begin) * piece_rows;
    const int64_t width = piece.column_end - piece.column_begin;
    const int64_t chunk = std::max<int64_t>(1, kChunkPixels / width);
    for (int64_t line = 0; line < lines; line += chunk) {
      int64_t position = -1;
      for (int64_t unit = begin; unit < end; ++unit) {
        if (unit / blocks_ % positions_ != position) {
          position = unit / blocks_ % positions_;
          FindRuns(piece, line, std::min(lines, line + chunk), position, &runs);
        }
        RunUnit(unit, runs, line > 0, dw);
      }
    }
  }

  // The stretches of pixels in lines [begin, end) whose tap lies inside the image.
  void FindRuns(const Piece& piece, int64_t begin, int64_t end, int64_t position,
                std::vector<TransposedRun>* runs) const {
    runs->clear();
    const int64_t piece_rows = piece.row_end - piece.row_begin;
    const int64_t row_offset =
        position / view_.kernel_columns * shape_.dilation_rows - view_.pad_top;
    const int64_t column_offset =
        position % view_.kernel_columns * shape_.dilation_columns - view_.pad_left;
    const int64_t step = shape_.stride_columns;
    const int64_t low = column_offset < 0 ? CeilDivide(-column_offset, step) : 0;
    const int64_t room = view_.in_columns - column_offset;
    const int64_t from = std::max(piece.column_begin, low);
    const int64_t to = std::min(piece.column_end, room > 0 ? CeilDivide(room, step) : 0);
    if (from >= to) return;
    const int64_t first =
        rounding_.grain > 0 ? rounding_.grain - (from - piece.column_begin) % rounding_.grain : 0;
    for (int64_t line = begin; line < end; ++line) {
      const int64_t n = piece.image_begin + line / piece_rows;
      const int64_t row = piece.row_begin + line % piece_rows;
      const int64_t in_row = row * shape_.stride_rows + row_offset;
      if (in_row < 0 || in_row >= view_.in_rows) continue;
      const float* a = view_.x + ((n * view_.in_rows + in_row) * view_.in_columns + from * step +
                                  column_offset) * view_.in_pixel;
      const float* b =
          dy_ + ((n * shape_.out_rows + row) * shape_.out_columns + from) * shape_.out_channels;
      if (rounding_.grain == 0 && !runs->empty()) {
        TransposedRun& last = runs->back();
        if (last.a + last.length * step * view_.in_pixel == a &&
            last.b + last.length * shape_.out_channels == b) {
          last.length += to - from;
          continue;
        }
      }
      runs->push_back({a, b, to - from, first});
    }
  }

  void RunUnit(int64_t unit, const std::vector<TransposedRun>& runs, bool load, float* dw) const {
    const int64_t block_index = unit % blocks_;
    const int64_t position = unit / blocks_ % positions_;
    const int64_t panel = unit / (blocks_ * positions_) % panels_;
    const int64_t group = unit / (blocks_ * positions_ * panels_);
    const int64_t row = view_.rows * block_index / blocks_;
    const int64_t rows = view_.rows * (block_index + 1) / blocks_ - row;
    const int64_t column = panel * kernels_.block_columns;
    const int64_t out_column = group * shape_.group_out_channels() + column;
    float* c[16];
    for (int64_t r = 0; r < rows; ++r) {
      c[r] = dw + (position * view_.rows + row + r) * shape_.out_channels + out_column;
    }
    TransposedBlock block{};
    block.runs = runs.data();
    block.run_count = static_cast<int64_t>(runs.size());
    block.a_offset = group * shape_.group_in_channels() + row;
    block.b_offset = out_column;
    block.a_step = shape_.stride_columns * view_.in_pixel;
    block.ldb = shape_.out_channels;
    block.c = c;
    block.rows = static_cast<int>(rows);
    block.columns = static_cast<int>(
        std::min<int64_t>(kernels_.block_columns, shape_.group_out_channels() - column));
    block.load = load;
    block.rounding = rounding_;
    kernels_.transposed(block);
  }

  const ConvShape& shape_;
  const View view_;
  const float* dy_;
  const Kernels& kernels_;
  const PassRounding rounding_;
  const int64_t blocks_, panels_, positions_;
  std::vector<Piece> pieces_;
};

}  // namespace

void ConvFilterGradient(const ConvShape& shape, const ConvPlan& plan, const Numerics& numerics,
                        const float* x, const float* dy, float* dw, const Kernels& kernels,
                        const Parallel& parallel) {
  if (numerics.stochastic()) {
    return TiledConvFilterGradient(shape, plan, numerics, x, dy, dw, parallel);
  }
  View view;
  Scratch padded;
  if (PaddedImage::Pays(shape, numerics)) {
    const PaddedImage image(shape);
    padded = Scratch(shape.batch * image.rows * image.columns * shape.in_channels);
    image.Copy(shape, x, padded.data(), parallel);
    view.x = padded.data();
    view.in_rows = image.rows;
    view.in_columns = image.columns;
    view.kernel_columns = 1;
    view.rows = shape.kernel_columns * shape.in_channels;
  } else {
    view.x = x;
    view.in_rows = shape.in_rows;
    view.in_columns = shape.in_columns;
    view.pad_top = shape.pad_top;
    view.pad_left = shape.pad_left;
    view.kernel_columns = shape.kernel_columns;
    view.rows = shape.group_in_channels();
  }
  view.in_pixel = shape.in_channels;
  FilterGradient(shape, plan, numerics, view, dy, kernels).Run(dw, parallel);
}

}  // namespace ipu_tf
