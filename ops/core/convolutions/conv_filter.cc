// Filter gradient: blocks of (input channels x output channels) summed over pixels. The pixels are taken in chunks
// that stay in the cache while every block of the work item reads them.
#include <algorithm>

#include "../scratch.h"
#include "conv.h"
#include "conv_lines.h"
#include "depthwise.h"
#include "filter_pieces.h"
#include "tiled_conv.h"

namespace ipu_tf {
namespace {

constexpr int64_t kChunkPixels = 192;
constexpr int64_t kItemsPerThread = 4;
constexpr int64_t kMostFloatsOfPieces = int64_t{1} << 22;
constexpr int64_t kPackChannels = 24;  // Input pixels further apart than this are copied together.
constexpr int64_t kPackPixels = 8;     // Copied at a time, all channels of them.
constexpr int kMaxBlockRows = 16;

// The output blocks of a work item: blocks of rows, panels of columns and kernel positions of one group.
struct Portion {
  int64_t group;
  int64_t block_begin, block_end, panel_begin, panel_end, position_begin, position_end;
};

class FilterGradient {
 public:
  FilterGradient(const ConvShape& shape, const ConvPlan& plan, const Numerics& numerics, const float* x,
                 const float* dy, const Kernels& kernels)
      : shape_(shape),
        x_(x),
        dy_(dy),
        kernels_(kernels),
        rounding_{numerics.pass_grain(plan.grain), numerics.nanoo},
        side_by_side_(SumsSideBySide(shape, numerics)),
        blocks_(CeilDivide(shape.group_in_channels(), kernels.block_rows)),
        panels_(CeilDivide(shape.group_out_channels(), kernels.block_columns)),
        positions_(shape.kernel_rows * shape.kernel_columns),
        pieces_(FilterPieces(shape, plan, side_by_side_)) {}

  void Run(float* dw, const Parallel& parallel) const {
    const int64_t pieces = static_cast<int64_t>(pieces_.size());
    if (side_by_side_) return RunSideBySide(kFilterGroups, dw, parallel);
    if (PiecesPay(parallel.threads)) return RunSideBySide(pieces, dw, parallel);
    const int64_t wanted = CeilDivide(kItemsPerThread * parallel.threads, shape_.groups);
    const int64_t enough = CeilDivide(2 * parallel.threads, shape_.groups);
    // Every range of rows copies dy again, every range of columns copies the input.
    int64_t rows = std::min(blocks_, wanted), columns = 1;
    if (panels_ * kernels_.block_columns > shape_.group_in_channels()) {
      columns = std::min(panels_, wanted);
      rows = columns < enough ? std::min(blocks_, CeilDivide(wanted, columns)) : 1;
    } else if (rows < enough) {
      columns = std::min(panels_, CeilDivide(wanted, rows));
    }
    const int64_t places = rows * columns < enough ? std::min(positions_, CeilDivide(wanted, rows * columns)) : 1;
    parallel(shape_.groups * rows * columns * places, [&](int64_t item) {
      const int64_t i = item / (columns * places) % rows, j = item / places % columns;
      const int64_t k = item % places;
      const Portion portion{item / (rows * columns * places), blocks_ * i / rows,
                            blocks_ * (i + 1) / rows,         panels_ * j / columns,
                            panels_ * (j + 1) / columns,      positions_ * k / places,
                            positions_ * (k + 1) / places};
      Chunk chunk(*this, portion);
      for (int64_t p = 0; p < pieces; ++p) RunPiece(pieces_[p], p > 0, &chunk, dw);
    });
  }

 private:
  class Chunk;

  int64_t block_row(int64_t block) const { return shape_.group_in_channels() * block / blocks_; }
  // dy is one panel already where its pixels have just as many channels.
  bool packs_gradient() const { return shape_.out_channels != kernels_.block_columns; }
  bool packs_input() const { return shape_.in_channels >= kPackChannels; }

  // Whether pieces are many, and their sums few enough for memory of their own until they are added in order. Items are
  // as long as each other then, and copy nothing that others copy, too.
  bool PiecesPay(int threads) const {
    const int64_t pieces = static_cast<int64_t>(pieces_.size());
    return threads > 1 && pieces >= 2 * kItemsPerThread * threads &&
           pieces * shape_.filter_floats() <= kMostFloatsOfPieces;
  }

  void RunSideBySide(int64_t groups, float* dw, const Parallel& parallel) const {
    const auto sum = [this](int64_t begin, int64_t end, float* to) {
      for (int64_t group = 0; group < shape_.groups; ++group) {
        Chunk chunk(*this, {group, 0, blocks_, 0, panels_, 0, positions_});
        for (int64_t i = begin; i < end; ++i) RunPiece(pieces_[i], i > begin, &chunk, to);
      }
    };
    SumGroupsOfPieces(static_cast<int64_t>(pieces_.size()), groups, shape_.filter_floats(), dw, kernels_, parallel,
                      sum);
  }

  // Sums a piece into (or, with `add`, adds it to) a portion of dw. A piece of one chunk of pixels goes from the
  // registers to dw; the chunks of a longer one that is to be added are summed apart first.
  void RunPiece(const FilterPiece& piece, bool add, Chunk* chunk, float* dw) const {
    const int64_t lines = (piece.image_end - piece.image_begin) * (piece.row_end - piece.row_begin);
    const int64_t width = piece.column_end - piece.column_begin;
    const int64_t chunks = std::min(lines, CeilDivide(lines * width, kChunkPixels));
    const bool apart = add && chunks > 1;
    Scratch sums(apart ? shape_.filter_floats() : 0);
    float* to = apart ? sums.data() : dw;
    for (int64_t i = 0; i < chunks; ++i) {
      chunk->Load(piece, lines * i / chunks, lines * (i + 1) / chunks);
      chunk->Run(i > 0, add && !apart, to);
    }
    if (apart) AddPortion(chunk->portion(), sums.data(), dw);
  }

  void AddPortion(const Portion& portion, const float* from, float* to) const {
    const int64_t column = portion.panel_begin * kernels_.block_columns;
    const int64_t columns = std::min(portion.panel_end * kernels_.block_columns, shape_.group_out_channels()) - column;
    for (int64_t position = portion.position_begin; position < portion.position_end; ++position) {
      for (int64_t row = block_row(portion.block_begin); row < block_row(portion.block_end); ++row) {
        const int64_t at = (position * shape_.group_in_channels() + row) * shape_.out_channels +
                           portion.group * shape_.group_out_channels() + column;
        kernels_.add(from + at, to + at, columns);
      }
    }
  }

  // Some lines (image, row) of a piece, copied so that the blocks of a portion read them in order.
  class Chunk {
   public:
    Chunk(const FilterGradient& op, const Portion& portion)
        : op_(op), portion_(portion), runs_(portion.position_end - portion.position_begin) {}

    const Portion& portion() const { return portion_; }

    void Load(const FilterPiece& piece, int64_t line_begin, int64_t line_end) {
      piece_ = piece;
      line_begin_ = line_begin;
      line_end_ = line_end;
      piece_rows_ = piece.row_end - piece.row_begin;
      width_ = piece.column_end - piece.column_begin;
      if (op_.packs_gradient()) PackGradient();
      if (op_.packs_input()) PackInput();
      for (size_t i = 0; i < runs_.size(); ++i) {
        FindRuns(portion_.position_begin + static_cast<int64_t>(i), &runs_[i]);
      }
    }

    void Run(bool load, bool add, float* dw) const {
      const int64_t positions = portion_.position_end - portion_.position_begin;
      for (int64_t block = portion_.block_begin; block < portion_.block_end; ++block) {
        for (int64_t panel = portion_.panel_begin; panel < portion_.panel_end; ++panel) {
          for (int64_t i = 0; i < positions; ++i) {
            RunBlock(block, panel, portion_.position_begin + i, runs_[i], load, add, dw);
          }
        }
      }
    }

   private:
    int64_t image(int64_t line) const { return piece_.image_begin + line / piece_rows_; }
    int64_t row(int64_t line) const { return piece_.row_begin + line % piece_rows_; }
    int64_t PanelFloats() const { return (line_end_ - line_begin_) * width_ * op_.kernels_.block_columns; }

    void PackGradient() {
      const ConvShape& s = op_.shape_;
      const int64_t block_columns = op_.kernels_.block_columns;
      const int64_t column = portion_.panel_begin * block_columns;
      const int64_t columns = std::min(portion_.panel_end * block_columns, s.group_out_channels()) - column;
      gradient_.Reserve((portion_.panel_end - portion_.panel_begin) * PanelFloats());
      for (int64_t line = line_begin_; line < line_end_; ++line) {
        const int64_t pixel = (image(line) * s.out_rows + row(line)) * s.out_columns + piece_.column_begin;
        const float* from = op_.dy_ + pixel * s.out_channels + portion_.group * s.group_out_channels() + column;
        float* to = gradient_.data() + (line - line_begin_) * width_ * block_columns;
        for (int64_t i = 0; i < width_; i += kPackPixels) {
          op_.kernels_.pack(from + i * s.out_channels, s.out_channels, 1, std::min(kPackPixels, width_ - i), columns,
                            to + i * block_columns, PanelFloats());
        }
      }
    }

    // The part of the input that the chunk reads, each block of rows in a plane of its own.
    void PackInput() {
      const ConvShape& s = op_.shape_;
      first_line_.clear();
      stretches_.clear();
      int64_t packed_lines = 0, last_image = -1, last_row = -1;
      for (int64_t line = line_begin_; line < line_end_; ++line) {
        if (image(line) != last_image) last_row = -1;
        last_image = image(line);
        const int64_t top = row(line) * s.stride_rows - s.pad_top;
        const int64_t bottom = top + (s.kernel_rows - 1) * s.dilation_rows;
        const int64_t begin = std::max<int64_t>({0, top, last_row + 1});
        const int64_t end = std::min(s.in_rows - 1, bottom) + 1;
        if (begin < end) {
          stretches_.push_back({image(line), begin, end, packed_lines});
          packed_lines += end - begin;
          last_row = end - 1;
        }
        // Packed line of input row 0 of this image, if it were there.
        first_line_.push_back(packed_lines - 1 - last_row);
      }
      const int64_t rows = op_.kernels_.block_rows;
      const int64_t left = piece_.column_begin * s.stride_columns - s.pad_left;
      const int64_t right =
          (piece_.column_end - 1) * s.stride_columns - s.pad_left + (s.kernel_columns - 1) * s.dilation_columns;
      in_left_ = std::min(std::max<int64_t>(0, left), s.in_columns);
      in_width_ = std::max<int64_t>(0, std::min(s.in_columns, right + 1) - in_left_);
      plane_floats_ = packed_lines * in_width_ * rows;
      input_.Reserve((portion_.block_end - portion_.block_begin) * plane_floats_ + rows);
      const int64_t channel = portion_.group * s.group_in_channels();
      for (const Stretch& stretch : stretches_) {
        for (int64_t row = stretch.begin; row < stretch.end; ++row) {
          const int64_t pixel = (stretch.image * s.in_rows + row) * s.in_columns + in_left_;
          const int64_t packed = stretch.packed + row - stretch.begin;
          PackInputLine(op_.x_ + pixel * s.in_channels + channel, input_.data() + packed * in_width_ * rows);
        }
      }
    }

    void PackInputLine(const float* from, float* to) const {
      const int64_t rows = op_.kernels_.block_rows, in_pixel = op_.shape_.in_channels;
      for (int64_t i = 0; i < in_width_; i += kPackPixels) {
        for (int64_t block = portion_.block_begin; block < portion_.block_end; ++block) {
          const int64_t first = op_.block_row(block);
          op_.kernels_.pack_rows(from + i * in_pixel + first, in_pixel, std::min(kPackPixels, in_width_ - i),
                                 op_.block_row(block + 1) - first,
                                 to + (block - portion_.block_begin) * plane_floats_ + i * rows);
        }
      }
    }

    // The stretches of pixels whose tap at a kernel position lies inside the image.
    void FindRuns(int64_t position, std::vector<TransposedRun>* runs) const {
      runs->clear();
      const ConvShape& s = op_.shape_;
      const int64_t grain = op_.rounding_.grain, block_columns = op_.kernels_.block_columns;
      const int64_t row_offset = position / s.kernel_columns * s.dilation_rows - s.pad_top;
      const int64_t column_offset = position % s.kernel_columns * s.dilation_columns - s.pad_left;
      const int64_t step = s.stride_columns;
      const int64_t low = column_offset < 0 ? CeilDivide(-column_offset, step) : 0;
      const int64_t room = s.in_columns - column_offset;
      const int64_t from = std::max(piece_.column_begin, low);
      const int64_t to = std::min(piece_.column_end, room > 0 ? CeilDivide(room, step) : 0);
      if (from >= to) return;
      const int64_t first = grain > 0 ? grain - (from - piece_.column_begin) % grain : 0;
      for (int64_t line = line_begin_; line < line_end_; ++line) {
        const int64_t in_row = row(line) * s.stride_rows + row_offset;
        if (in_row < 0 || in_row >= s.in_rows) continue;
        const int64_t column = from * step + column_offset;
        const float* a = InputPixel(line, in_row, column);
        const float* b = GradientPixel(line, from);
        if (grain == 0 && !runs->empty()) {
          TransposedRun& last = runs->back();
          if (last.a + last.length * a_step() == a && last.b + last.length * block_columns == b) {
            last.length += to - from;
            continue;
          }
        }
        runs->push_back({a, b, to - from, first});
      }
    }

    const float* GradientPixel(int64_t line, int64_t column) const {
      const ConvShape& s = op_.shape_;
      if (op_.packs_gradient()) {
        return gradient_.data() +
               ((line - line_begin_) * width_ + column - piece_.column_begin) * op_.kernels_.block_columns;
      }
      return op_.dy_ + ((image(line) * s.out_rows + row(line)) * s.out_columns + column) * s.out_channels;
    }

    const float* InputPixel(int64_t line, int64_t in_row, int64_t column) const {
      const ConvShape& s = op_.shape_;
      if (op_.packs_input()) {
        const int64_t packed = first_line_[line - line_begin_] + in_row;
        return input_.data() + (packed * in_width_ + column - in_left_) * op_.kernels_.block_rows;
      }
      return op_.x_ + ((image(line) * s.in_rows + in_row) * s.in_columns + column) * s.in_channels +
             portion_.group * s.group_in_channels();
    }

    int64_t a_step() const {
      return op_.shape_.stride_columns * (op_.packs_input() ? op_.kernels_.block_rows : op_.shape_.in_channels);
    }

    void RunBlock(int64_t block, int64_t panel, int64_t position, const std::vector<TransposedRun>& runs, bool load,
                  bool add, float* dw) const {
      const ConvShape& s = op_.shape_;
      const int64_t first = op_.block_row(block), rows = op_.block_row(block + 1) - first;
      const int64_t column = panel * op_.kernels_.block_columns;
      const int64_t group_column = portion_.group * s.group_out_channels() + column;
      float* c[kMaxBlockRows];
      for (int64_t r = 0; r < rows; ++r) {
        c[r] = dw + (position * op_.shape_.group_in_channels() + first + r) * s.out_channels + group_column;
      }
      TransposedBlock t;
      t.runs = runs.data();
      t.run_count = static_cast<int64_t>(runs.size());
      t.a_offset = op_.packs_input() ? (block - portion_.block_begin) * plane_floats_ : first;
      t.b_offset = op_.packs_gradient() ? (panel - portion_.panel_begin) * PanelFloats() : group_column;
      t.a_step = a_step();
      t.ldb = op_.kernels_.block_columns;
      t.c = c;
      t.rows = static_cast<int>(rows);
      t.columns = static_cast<int>(std::min<int64_t>(op_.kernels_.block_columns, s.group_out_channels() - column));
      t.load = load;
      t.add = add;
      t.rounding = op_.rounding_;
      op_.kernels_.transposed(t);
    }

    struct Stretch {
      int64_t image, begin, end, packed;
    };

    const FilterGradient& op_;
    const Portion portion_;
    FilterPiece piece_{};
    int64_t line_begin_ = 0, line_end_ = 0, piece_rows_ = 1, width_ = 0;
    Scratch gradient_, input_;
    std::vector<std::vector<TransposedRun>> runs_;  // By position of the portion.
    int64_t plane_floats_ = 0, in_left_ = 0, in_width_ = 0;
    std::vector<Stretch> stretches_;
    std::vector<int64_t> first_line_;
  };

  const ConvShape& shape_;
  const float* x_;
  const float* dy_;
  const Kernels& kernels_;
  const PassRounding rounding_;
  const bool side_by_side_;
  const int64_t blocks_, panels_, positions_;
  const std::vector<FilterPiece> pieces_;
};

}  // namespace

void ConvFilterGradient(const ConvShape& shape, const ConvPlan& plan, const Numerics& numerics, const float* x,
                        const float* dy, float* dw, const Kernels& kernels, const Parallel& threads, float* db) {
  const Parallel parallel = ForProducts(shape.multiplications(), threads);
  if (numerics.stochastic()) {
    return TiledConvFilterGradient(shape, plan, numerics, x, dy, dw, parallel);
  }
  if (LinesPay(ConvPass::kFilterGradient, shape, plan, numerics)) {
    return LinesFilterGradient(shape, x, dy, dw, kernels, parallel, db);
  }
  if (shape.plain_depthwise() && numerics.pass_grain(plan.grain) == 0) {
    DepthwiseFilterGradient(shape, plan, numerics, x, dy, dw, kernels, parallel);
  } else {
    FilterGradient(shape, plan, numerics, x, dy, kernels).Run(dw, parallel);
  }
  if (db == nullptr) return;
  ColumnSums(dy, shape.batch * shape.out_rows * shape.out_columns, shape.out_channels, db, kernels, parallel);
}

}  // namespace ipu_tf
