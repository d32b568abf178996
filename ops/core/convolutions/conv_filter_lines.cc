#include "conv_lines.h"

#include <algorithm>
#include <vector>

#include "../fetching.h"
#include "../ordered_sums.h"
#include "../scratch.h"
#include "padded_lines.h"

namespace ipu_tf {
namespace {

constexpr int64_t kChainPixels = 160;           // Of dy: with their input they stay in the L1 cache.
constexpr int64_t kSlices = 8;                  // Ranges of images with a sum of their own ...
constexpr int64_t kMostSlicedFloats = 1 << 18;  // ... where the filter is no larger than this.
constexpr int kMaxBlockRows = 16;
// Sums of a larger filter are fetched while products are added to them. Measured on a Zen 4: gradients of 3x3 x 512 and
// 256 channels take 0.93 and 0.99 of the time, with smaller filters 1.0 to 1.01.
constexpr int64_t kFloatsInCache = 1 << 18;

class Lines {
 public:
  Lines(const ConvShape& shape, const float* x, const float* dy, const Kernels& kernels)
      : shape_(shape),
        window_(ForwardWindow(shape)),
        x_(x),
        dy_(dy),
        kernels_(kernels),
        blocks_(CeilDivide(window_.run(), kernels.block_rows)),
        panels_(CeilDivide(shape.out_channels, kernels.block_columns)),
        chain_rows_(std::clamp<int64_t>(kChainPixels / shape.out_columns, 1, shape.out_rows)) {}

  void Run(float* dw, float* db, const Parallel& parallel) const {
    const int64_t floats = shape_.filter_floats(), channels = shape_.out_channels;
    // The slices depend on the shape alone, so the result does not depend on the number of threads.
    const int64_t slices = floats <= kMostSlicedFloats ? std::min(kSlices, shape_.batch) : 1;
    const int64_t units = shape_.kernel_rows * blocks_;
    const int64_t portions = std::min(units, CeilDivide(4 * parallel.threads, slices));
    Scratch sums(slices > 1 ? slices * floats : 0), bias_sums(db != nullptr ? slices * channels : 0);
    parallel(slices * portions, [&](int64_t item) {
      const int64_t slice = item / portions, portion = item % portions;
      float* to = slices > 1 ? sums.data() + slice * floats : dw;
      float* bias_to = db != nullptr && portion == 0 ? bias_sums.data() + slice * channels : nullptr;
      Item(*this, units * portion / portions, units * (portion + 1) / portions)
          .Run(shape_.batch * slice / slices, shape_.batch * (slice + 1) / slices, to, bias_to);
    });
    if (db != nullptr) kernels_.column_sums(bias_sums.data(), channels, slices, channels, false, db);
    if (slices == 1) return;
    AddInOrder(sums.data(), slices, floats, dw, kernels_, parallel);
  }

 private:
  // What is one panel already lies well.
  bool packs_gradient() const { return panels_ > 1; }
  int64_t gradient_step() const { return packs_gradient() ? kernels_.block_columns : shape_.out_channels; }

  // Some blocks of rows of some kernel rows (units, the block fastest), with all output channels.
  class Item {
   public:
    Item(const Lines& op, int64_t begin, int64_t end)
        : op_(op),
          begin_(begin),
          end_(end),
          packed_(op.packs_gradient() ? op.panels_ * op.chain_rows_ * op.shape_.out_columns * op.gradient_step() : 0),
          lines_(op.window_, op.chain_rows_, false) {}

    void Run(int64_t image_begin, int64_t image_end, float* dw, float* db) {
      bool add = false;
      for (int64_t image = image_begin; image < image_end; ++image) {
        for (int64_t row = 0; row < op_.shape_.out_rows; row += op_.chain_rows_) {
          RunChain(image, row, std::min(op_.shape_.out_rows, row + op_.chain_rows_), add, dw, db);
          add = true;
        }
      }
    }

   private:
    void RunChain(int64_t image, int64_t row, int64_t row_end, bool add, float* dw, float* db) {
      const int64_t rows = row_end - row, blocks = (end_ - begin_) * op_.panels_;
      LoadGradient(image, row, row_end);
      if (db != nullptr) SumGradient(rows * op_.shape_.out_columns, add, db);
      lines_.Load(op_.x_ + image * op_.shape_.in_rows * op_.shape_.in_columns * op_.shape_.in_channels, row, rows);
      Fetching gradient = GradientAfter(image, row_end, rows, blocks);
      int64_t kernel_row = -1;
      for (int64_t unit = begin_; unit < end_; ++unit) {
        if (unit / op_.blocks_ != kernel_row) {
          kernel_row = unit / op_.blocks_;
          FindRuns(rows, kernel_row);
        }
        for (int64_t panel = 0; panel < op_.panels_; ++panel) {
          gradient.Next();
          RunBlock(unit, panel, rows, add, dw);
        }
      }
    }

    void LoadGradient(int64_t image, int64_t row, int64_t row_end) {
      const ConvShape& s = op_.shape_;
      const int64_t width = op_.kernels_.block_columns, pixels = (row_end - row) * s.out_columns;
      const float* from = op_.dy_ + (image * s.out_rows + row) * s.out_columns * s.out_channels;
      gradient_ = op_.packs_gradient() ? packed_.data() : from;
      if (!op_.packs_gradient()) return;
      op_.kernels_.pack(from, s.out_channels, 1, pixels, s.out_channels, packed_.data(), pixels * width);
    }

    // So many rows of dy from `row` on; images adjoin. Measured on a Zen 4: fetched ahead, filter gradients of 1x1 take
    // 0.91 to 0.97 of the time, of 3x3 0.97 to 1.0. (Fetching the lines that are copied gains nothing.)
    Fetching GradientAfter(int64_t image, int64_t row, int64_t rows, int64_t times) const {
      const ConvShape& s = op_.shape_;
      const int64_t floats = s.out_columns * s.out_channels, begin = image * s.out_rows + row;
      const int64_t end = std::min(begin + rows, s.batch * s.out_rows);
      return {op_.dy_ + begin * floats, op_.dy_ + end * floats, times};
    }

    void SumGradient(int64_t pixels, bool add, float* db) const {
      const int64_t width = op_.kernels_.block_columns;
      for (int64_t panel = 0; panel < op_.panels_; ++panel) {
        op_.kernels_.column_sums(gradient_ + panel * pixels * width, op_.gradient_step(), pixels,
                                 std::min(width, op_.shape_.out_channels - panel * width), add, db + panel * width);
      }
    }

    // One run for every row of dy whose input row lies inside of the image.
    void FindRuns(int64_t chain_rows, int64_t kernel_row) {
      const ConvShape& s = op_.shape_;
      runs_.clear();
      for (int64_t r = 0; r < chain_rows; ++r) {
        const int64_t down = r * s.stride_rows + kernel_row * s.dilation_rows;
        if (!lines_.Readable(down)) continue;
        const float* b = gradient_ + r * s.out_columns * op_.gradient_step();
        runs_.push_back({lines_.Row(down), b, s.out_columns, 0});
      }
    }

    void RunBlock(int64_t unit, int64_t panel, int64_t chain_rows, bool add, float* dw) {
      const ConvShape& s = op_.shape_;
      const int64_t width = op_.kernels_.block_columns;
      const int64_t block = unit % op_.blocks_, kernel_row = unit / op_.blocks_;
      const int64_t run = op_.window_.run();
      const int64_t first = run * block / op_.blocks_, rows = run * (block + 1) / op_.blocks_ - first;
      float* c[kMaxBlockRows];
      for (int64_t r = 0; r < rows; ++r) {
        c[r] = dw + (kernel_row * run + first + r) * s.out_channels + panel * width;
        if (s.filter_floats() > kFloatsInCache) FetchToWrite(c[r], width);
      }
      TransposedBlock t;
      t.runs = runs_.data();
      t.run_count = static_cast<int64_t>(runs_.size());
      t.a_offset = first;
      t.b_offset = panel * chain_rows * s.out_columns * width;
      t.a_step = s.stride_columns * s.in_channels;
      t.fetches_ahead = lines_.in_place() && s.stride_rows == 1 && s.stride_columns == 1;
      t.ldb = op_.gradient_step();
      t.c = c;
      t.rows = static_cast<int>(rows);
      t.columns = static_cast<int>(std::min(width, s.out_channels - panel * width));
      t.add = add;
      op_.kernels_.transposed(t);
    }

    const Lines& op_;
    const int64_t begin_, end_;
    Scratch packed_;
    const float* gradient_ = nullptr;  // dy of the chain; packed, a panel after the other.
    PaddedLines lines_;
    std::vector<TransposedRun> runs_;
  };

  const ConvShape& shape_;
  const Window window_;
  const float* x_;
  const float* dy_;
  const Kernels& kernels_;
  const int64_t blocks_;  // Of the rows of the product for one kernel row.
  const int64_t panels_;  // Of output channels.
  const int64_t chain_rows_;
};

}  // namespace

void LinesFilterGradient(const ConvShape& shape, const float* x, const float* dy, float* dw, const Kernels& kernels,
                         const Parallel& parallel, float* db) {
  Lines(shape, x, dy, kernels).Run(dw, db, parallel);
}

}  // namespace ipu_tf
