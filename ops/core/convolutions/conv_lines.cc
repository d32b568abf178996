#include "conv_lines.h"

#include <algorithm>
#include <vector>

#include "../scratch.h"

namespace ipu_tf {
namespace {

constexpr int64_t kMostFilterChannels = 512;  // Beyond, pixels lie so far apart that copying their channels pays.
constexpr int64_t kChunkPixels = 192;  // Output pixels of a work item's inner loops, with their input in the cache.
constexpr int64_t kItemsPerThread = 4;
constexpr int kMaxBlockRows = 16;
constexpr int kLineFloats = 16;  // Of a line of the cache.

// The input gradient of strides 1 is the forward convolution of dy with the flipped filter.
Window InputGradientWindow(const ConvShape& s) {
  Window w;
  w.batch = s.batch;
  w.in_rows = s.out_rows;
  w.in_columns = s.out_columns;
  w.channels = s.out_channels;
  w.out_rows = s.in_rows;
  w.out_columns = s.in_columns;
  w.kernel_rows = s.kernel_rows;
  w.kernel_columns = s.kernel_columns;
  w.dilation_rows = s.dilation_rows;
  w.pad_top = (s.kernel_rows - 1) * s.dilation_rows - s.pad_top;
  w.pad_left = s.kernel_columns - 1 - s.pad_left;
  return w;
}

// Slides a window over images: every output pixel is the product of its window and the packed filter.
class Sliding {
 public:
  // `packed` holds a panel of the filter for every kernels.block_columns output channels: [kernel row][run][column].
  Sliding(const Window& window, int64_t out_channels, const float* x, const float* packed, float* y,
          const Kernels& kernels, const Epilogue& epilogue)
      : window_(window),
        out_channels_(out_channels),
        x_(x),
        packed_(packed),
        y_(y),
        kernels_(kernels),
        epilogue_(epilogue),
        panels_(CeilDivide(out_channels, kernels.block_columns)),
        panel_floats_(window.kernel_rows * window.run() * kernels.block_columns) {
    for (int64_t r = 0; r < window.kernel_rows; ++r) panel_at_.push_back(r * window.run() * kernels.block_columns);
  }

  void Run(const Parallel& parallel) const {
    const int64_t wanted = kItemsPerThread * parallel.threads;
    const int64_t rows = std::clamp<int64_t>(kChunkPixels / window_.out_columns, 1, window_.out_rows);
    const int64_t chunks = CeilDivide(window_.out_rows, rows);
    const int64_t portions = std::min(panels_, CeilDivide(wanted, window_.batch * chunks));
    const int64_t tall = window_.batch * chunks;
    const int64_t stretches = std::min(tall, std::max(wanted, CeilDivide(tall, 8)));
    parallel(stretches * portions, [&](int64_t item) {
      const int64_t stretch = item / portions, portion = item % portions;
      // Rows of the image's edge have fewer taps, but short rows alone would leave the register block half empty.
      PaddedLines lines(window_, rows, window_.out_columns < kernels_.block_rows);
      std::vector<const float*> a;
      std::vector<int64_t> a_tap(window_.kernel_rows);
      for (int64_t r = 0; r < window_.kernel_rows; ++r) a_tap[r] = r * window_.dilation_rows * lines.row_floats();
      for (int64_t chunk = tall * stretch / stretches; chunk < tall * (stretch + 1) / stretches; ++chunk) {
        const int64_t image = chunk / chunks, i = chunk % chunks;
        const int64_t begin = window_.out_rows * i / chunks, end = window_.out_rows * (i + 1) / chunks;
        lines.Load(x_ + image * window_.in_rows * window_.in_columns * window_.channels, begin, end - begin);
        RunChunk(lines, a_tap, image * window_.out_rows + begin, end - begin, panels_ * portion / portions,
                 panels_ * (portion + 1) / portions, &a);
      }
    });
  }

 private:
  // Kernel rows [begin, end).
  struct Taps {
    int64_t begin, end;
    bool operator==(const Taps& other) const { return begin == other.begin && end == other.end; }
  };

  // The kernel rows that meet a readable row at output row `row` under `lines`.
  Taps TapsInside(const PaddedLines& lines, int64_t row) const {
    Taps taps{0, window_.kernel_rows};
    const int64_t down = row * window_.stride_rows;
    while (taps.begin < taps.end && !lines.Readable(down + taps.begin * window_.dilation_rows)) ++taps.begin;
    while (taps.begin < taps.end && !lines.Readable(down + (taps.end - 1) * window_.dilation_rows)) --taps.end;
    return taps;
  }

  // Output rows [line, line + rows) over all images, `lines` being under them; rows of the same taps together.
  void RunChunk(const PaddedLines& lines, const std::vector<int64_t>& a_tap, int64_t line, int64_t rows,
                int64_t panel_begin, int64_t panel_end, std::vector<const float*>* a) const {
    const int64_t step = window_.stride_columns * window_.channels;
    for (int64_t begin = 0, end = 0; begin < rows; begin = end) {
      const Taps taps = TapsInside(lines, begin);
      for (end = begin + 1; end < rows && TapsInside(lines, end) == taps;) ++end;
      a->resize((end - begin) * window_.out_columns);
      const float** pixel = a->data();
      for (int64_t row = begin; row < end; ++row, pixel += window_.out_columns) {
        const float* from = lines.Row(row * window_.stride_rows);
        for (int64_t c = 0; c < window_.out_columns; ++c) pixel[c] = from + c * step;
      }
      float* to = y_ + (line + begin) * window_.out_columns * out_channels_;
      for (int64_t panel = panel_begin; panel < panel_end; ++panel) RunPanel(*a, a_tap, taps, panel, to);
    }
  }

  // One panel of output channels of the pixels whose windows begin at `a`.
  void RunPanel(const std::vector<const float*>& a, const std::vector<int64_t>& a_tap, Taps taps, int64_t panel,
                float* y) const {
    const int64_t column = panel * kernels_.block_columns, pixels = static_cast<int64_t>(a.size());
    IndirectBlock block{};
    block.a_tap = a_tap.data() + taps.begin;
    block.b = packed_ + panel * panel_floats_;
    block.b_tap = panel_at_.data() + taps.begin;
    block.ldb = kernels_.block_columns;
    block.taps = taps.end - taps.begin;
    block.k_end = window_.run();
    block.columns = static_cast<int>(std::min<int64_t>(kernels_.block_columns, out_channels_ - column));
    const int64_t blocks = CeilDivide(pixels, kernels_.block_rows);
    for (int64_t i = 0; i < blocks; ++i) {
      const int64_t pixel = pixels * i / blocks;
      float* c[kMaxBlockRows];
      block.rows = static_cast<int>(pixels * (i + 1) / blocks - pixel);
      for (int r = 0; r < block.rows; ++r) c[r] = y + (pixel + r) * out_channels_ + column;
      block.a = a.data() + pixel;
      block.c = c;
      Announce(block);
      kernels_.indirect(block);
      Finish(block, column);
    }
  }

  // Has what the epilogue will read fetched while a block is computed.
  void Announce(const IndirectBlock& block) const {
    if (epilogue_.relu_output == nullptr) return;
    for (int r = 0; r < block.rows; ++r) {
      const float* row = epilogue_.relu_output + (block.c[r] - y_);
      for (int column = 0; column < block.columns; column += kLineFloats) __builtin_prefetch(row + column);
    }
  }

  // Applies the epilogue to a block, from column `column` on.
  void Finish(const IndirectBlock& block, int64_t column) const {
    for (int r = 0; r < block.rows && epilogue_.bias != nullptr; ++r) {
      kernels_.add_bias(epilogue_.bias + column, epilogue_.relu, block.c[r], block.columns);
    }
    if (epilogue_.relu_output == nullptr) return;
    const bool adjoin = block.columns == out_channels_;
    const int runs = adjoin ? 1 : block.rows;
    for (int r = 0; r < runs; ++r) {
      kernels_.relu_gradient(epilogue_.relu_output + (block.c[r] - y_), block.c[r],
                             adjoin ? block.rows * block.columns : block.columns);
    }
  }

  const Window window_;
  const int64_t out_channels_;
  const float* x_;
  const float* packed_;
  float* y_;
  const Kernels& kernels_;
  const Epilogue epilogue_;
  const int64_t panels_, panel_floats_;
  std::vector<int64_t> panel_at_;
};

}  // namespace

Window ForwardWindow(const ConvShape& s) {
  Window w;
  w.batch = s.batch;
  w.in_rows = s.in_rows;
  w.in_columns = s.in_columns;
  w.channels = s.in_channels;
  w.out_rows = s.out_rows;
  w.out_columns = s.out_columns;
  w.kernel_rows = s.kernel_rows;
  w.kernel_columns = s.kernel_columns;
  w.stride_rows = s.stride_rows;
  w.stride_columns = s.stride_columns;
  w.dilation_rows = s.dilation_rows;
  w.pad_top = s.pad_top;
  w.pad_left = s.pad_left;
  return w;
}

bool LinesPay(ConvPass pass, const ConvShape& shape, const Numerics& numerics) {
  if (numerics.type != ElementType::kFloat || shape.groups != 1) return false;
  if (shape.dilation_columns != 1 && shape.kernel_columns != 1) return false;
  switch (pass) {
    case ConvPass::kForward:
      return true;
    case ConvPass::kInputGradient:
      return shape.stride_rows == 1 && shape.stride_columns == 1 &&
             shape.pad_top <= (shape.kernel_rows - 1) * shape.dilation_rows &&
             shape.pad_left <= shape.kernel_columns - 1;
    case ConvPass::kFilterGradient:
      return shape.in_channels <= kMostFilterChannels;
  }
  return false;
}

void LinesForward(const ConvShape& shape, const float* x, const float* w, float* y, const Kernels& kernels,
                  const Parallel& parallel, const Epilogue& epilogue) {
  const Window window = ForwardWindow(shape);
  const int64_t width = kernels.block_columns, panels = CeilDivide(shape.out_channels, width);
  if (shape.out_channels == width) return Sliding(window, shape.out_channels, x, w, y, kernels, epilogue).Run(parallel);
  const int64_t depth = window.kernel_rows * window.run();
  Scratch packed(panels * depth * width);
  ForFloats(panels * depth * width, parallel)(panels, [&](int64_t panel) {
    kernels.pack(w + panel * width, shape.out_channels, 1, depth, std::min(width, shape.out_channels - panel * width),
                 packed.data() + panel * depth * width);
  });
  Sliding(window, shape.out_channels, x, packed.data(), y, kernels, epilogue).Run(parallel);
}

void LinesInputGradient(const ConvShape& shape, const float* w, const float* dy, float* dx, const Kernels& kernels,
                        const Parallel& parallel, const Epilogue& epilogue) {
  const Window window = InputGradientWindow(shape);
  const int64_t width = kernels.block_columns, panels = CeilDivide(shape.in_channels, width);
  const int64_t positions = shape.kernel_rows * shape.kernel_columns;
  const int64_t tap_floats = shape.out_channels * width;
  Scratch packed(panels * positions * tap_floats);
  ForFloats(panels * positions * tap_floats, parallel)(panels * positions, [&](int64_t index) {
    const int64_t panel = index / positions, flipped = index % positions;
    const float* from = w + ((positions - 1 - flipped) * shape.in_channels + panel * width) * shape.out_channels;
    kernels.pack(from, 1, shape.out_channels, shape.out_channels, std::min(width, shape.in_channels - panel * width),
                 packed.data() + index * tap_floats);
  });
  Sliding(window, shape.in_channels, dy, packed.data(), dx, kernels, epilogue).Run(parallel);
}

}  // namespace ipu_tf
