#include "conv_lines.h"

#include <algorithm>
#include <vector>

#include "../fetching.h"
#include "../scratch.h"
#include "../streaming.h"
#include "gradient_phase.h"

namespace ipu_tf {
namespace {

constexpr int64_t kMostFilterChannels = 512;  // Beyond, pixels lie so far apart that copying their channels pays.
constexpr int64_t kChunkPixels = 192;  // Output pixels of a work item's inner loops, with their input in the cache.
constexpr int64_t kFewestChunkPixels = 48;  // Measured of 1x1: as fast as 192.
constexpr int64_t kItemsPerThread = 4;
constexpr int64_t kChunksOfItem = 8;  // At most.
// Rows at the image's edge have fewer taps, and are blocks by themselves. Of fewer pixels, these would not have the
// eight sums that keep two units busy, of a latency of four cycles: such images get rows of zeros. Measured on a Zen 4,
// of 3x3 and images of 4 to 8 pixels a side: without zeros, 0.83 to 0.93 of the time, with AVX2 0.87 to 1.0; of 2
// pixels, with AVX2, 1.22.
constexpr int64_t kFewestPixels = 4;
constexpr int kMaxBlockRows = 16;

// Where the output pixels of a window lie: floats from one to the next, in each direction.
struct Places {
  int64_t image, row, column;
};

// Slides a window over images: every output pixel is the product of its window and the packed filter.
class Sliding {
 public:
  // `packed` holds a panel of the filter for every kernels.block_columns output channels: [kernel row][run][column].
  Sliding(const Window& window, int64_t out_channels, const float* x, const float* packed, float* y,
          const Places& places, const Kernels& kernels, const Epilogue& epilogue)
      : window_(window),
        out_channels_(out_channels),
        x_(x),
        packed_(packed),
        y_(y),
        places_(places),
        kernels_(kernels),
        epilogue_(epilogue),
        panels_(CeilDivide(out_channels, kernels.block_columns)),
        panel_floats_(window.kernel_rows * window.run() * kernels.block_columns),
        block_rows_(RowsOfBlock(kernels, window.stride_columns * window.channels)),
        pieces_(window.kernel_rows * CeilDivide(window.run(), kernels.piece_steps)),
        rows_of_piece_(RowsOfPiece(block_rows_, pieces_)) {
    for (int64_t r = 0; r < window.kernel_rows; ++r) panel_at_.push_back(r * window.run() * kernels.block_columns);
  }

  void Run(const Parallel& parallel) const {
    const int64_t wanted = kItemsPerThread * parallel.threads;
    const int64_t chunks = ChunksOfImage(wanted), rows = CeilDivide(window_.out_rows, chunks);
    const int64_t portions = std::min(panels_, CeilDivide(wanted, window_.batch * chunks));
    const int64_t tall = window_.batch * chunks;
    // So many for each thread that none waits for the last item of another.
    const int64_t of_thread = std::max(kItemsPerThread, CeilDivide(tall, kChunksOfItem * parallel.threads));
    const int64_t stretches = std::min(tall, of_thread * parallel.threads);
    parallel(stretches * portions, [&](int64_t item) {
      const int64_t stretch = item / portions, portion = item % portions;
      PaddedLines lines(window_, rows, window_.out_columns < kFewestPixels);
      Pixels pixels;
      std::vector<int64_t> a_tap(window_.kernel_rows);
      for (int64_t r = 0; r < window_.kernel_rows; ++r) a_tap[r] = r * window_.dilation_rows * lines.row_floats();
      for (int64_t chunk = tall * stretch / stretches; chunk < tall * (stretch + 1) / stretches; ++chunk) {
        const int64_t image = chunk / chunks, i = chunk % chunks;
        const int64_t begin = window_.out_rows * i / chunks, end = window_.out_rows * (i + 1) / chunks;
        const int64_t panel = panels_ * portion / portions, panel_end = panels_ * (portion + 1) / portions;
        lines.Load(x_ + image * window_.in_rows * window_.in_columns * window_.channels, begin, end - begin);
        Fetching ahead = Ahead(image, begin, end, panel_end - panel);
        RunChunk(lines, a_tap, y_ + image * places_.image + begin * places_.row, end - begin, panel, panel_end, &pixels,
                 &ahead);
      }
      StreamFence();
    });
  }

 private:
  // Kernel rows [begin, end).
  struct Taps {
    int64_t begin, end;
    bool operator==(const Taps& other) const { return begin == other.begin && end == other.end; }
  };

  // Where the windows of output pixels begin, and their results.
  struct Pixels {
    std::vector<const float*> a;
    std::vector<float*> c;
  };

  // As many chunks as items are wanted, or some times as many, where one image has enough pixels for that.
  int64_t ChunksOfImage(int64_t wanted) const {
    const int64_t rows = std::clamp<int64_t>(kChunkPixels / window_.out_columns, 1, window_.out_rows);
    const int64_t chunks = CeilDivide(window_.out_rows, rows), even = CeilDivide(chunks, wanted) * wanted;
    const bool fills = window_.batch == 1 && window_.out_rows * window_.out_columns >= even * kFewestChunkPixels;
    return fills ? std::min(even, window_.out_rows) : chunks;
  }

  // What is read after output rows [begin, end) of an image, to be fetched while so many panels of these are computed;
  // only where each pixel is read. Measured on a Zen 4: 1x1 convolutions of 256 channels take 0.85 to 0.89 of the time,
  // of 64 channels 0.95 to 0.99; 3x3 ones, whose lines are copied, 0.97 to 1.0.
  Fetching Ahead(int64_t image, int64_t begin, int64_t end, int64_t panels) const {
    if (window_.stride_rows != 1 || window_.stride_columns != 1) return {};
    const int64_t blocks = CeilDivide((end - begin) * window_.out_columns, block_rows_);
    const int64_t floats = window_.in_columns * window_.channels;
    const int64_t read = begin - window_.pad_top + window_.reach(end - begin);
    const int64_t row = image * window_.in_rows + std::clamp<int64_t>(read, 0, window_.in_rows);  // Images adjoin.
    const int64_t row_end = std::min(row + end - begin, window_.batch * window_.in_rows);
    return {x_ + row * floats, x_ + row_end * floats, panels * blocks, pieces_};
  }

  // The kernel rows that meet a readable row at output row `row` under `lines`.
  Taps TapsInside(const PaddedLines& lines, int64_t row) const {
    Taps taps{0, window_.kernel_rows};
    const int64_t down = row * window_.stride_rows;
    while (taps.begin < taps.end && !lines.Readable(down + taps.begin * window_.dilation_rows)) ++taps.begin;
    while (taps.begin < taps.end && !lines.Readable(down + (taps.end - 1) * window_.dilation_rows)) --taps.end;
    return taps;
  }

  // Output rows from that at `y` on, `lines` being under them; rows of the same taps together.
  void RunChunk(const PaddedLines& lines, const std::vector<int64_t>& a_tap, float* y, int64_t rows,
                int64_t panel_begin, int64_t panel_end, Pixels* pixels, Fetching* ahead) const {
    const int64_t step = window_.stride_columns * window_.channels;
    for (int64_t begin = 0, end = 0; begin < rows; begin = end) {
      const Taps taps = TapsInside(lines, begin);
      for (end = begin + 1; end < rows && TapsInside(lines, end) == taps;) ++end;
      pixels->a.resize((end - begin) * window_.out_columns);
      pixels->c.resize(pixels->a.size());
      for (int64_t row = begin, i = 0; row < end; ++row) {
        const float* a = lines.Row(row * window_.stride_rows);
        float* c = y + row * places_.row;
        for (const int64_t row_end = i + window_.out_columns; i < row_end; ++i, a += step, c += places_.column) {
          pixels->a[i] = a;
          pixels->c[i] = c;
        }
      }
      for (int64_t panel = panel_begin; panel < panel_end; ++panel) RunPanel(*pixels, a_tap, taps, panel, ahead);
    }
  }

  // One panel of output channels. What a block writes is fetched while it is computed: measured on a Zen 4, 3x3
  // convolutions take 0.95 to 1.0 of the time.
  void RunPanel(const Pixels& all, const std::vector<int64_t>& a_tap, Taps taps, int64_t panel, Fetching* ahead) const {
    const int64_t column = panel * kernels_.block_columns, pixels = static_cast<int64_t>(all.a.size());
    IndirectBlock block{};
    block.a_tap = a_tap.data() + taps.begin;
    block.b = packed_ + panel * panel_floats_;
    block.b_tap = panel_at_.data() + taps.begin;
    block.ldb = kernels_.block_columns;
    block.c_offset = column;
    block.taps = taps.end - taps.begin;
    block.k_end = window_.run();
    block.columns = static_cast<int>(std::min<int64_t>(kernels_.block_columns, out_channels_ - column));
    if (epilogue_.bias != nullptr) block.bias = epilogue_.bias + column;
    block.relu = epilogue_.relu;
    Fetch fetch;
    fetch.rows_of_piece = rows_of_piece_;
    block.fetch = &fetch;
    const float *addend[kMaxBlockRows], *features[kMaxBlockRows];
    if (epilogue_.addend != nullptr) block.addend = addend;
    if (epilogue_.relu_output != nullptr) block.features = features;
    const bool streams = block.columns == kernels_.block_columns && StreamingPays(window_.floats(out_channels_));
    const int64_t blocks = CeilDivide(pixels, block_rows_);
    for (int64_t i = 0; i < blocks; ++i) {
      const int64_t pixel = pixels * i / blocks;
      block.rows = static_cast<int>(pixels * (i + 1) / blocks - pixel);
      block.a = all.a.data() + pixel;
      block.c = all.c.data() + pixel;
      block.stream = streams && BeginAtLines(block.c, block.rows, column);
      fetch.results = !block.stream;
      ahead->Next(&fetch);
      if (block.addend != nullptr) FindRows(epilogue_.addend, block, addend);
      if (block.features != nullptr) FindRows(epilogue_.relu_output, block, features);
      kernels_.indirect(block);
    }
  }

  // The rows of a tensor like the output that belong to those of a block.
  void FindRows(const float* tensor, const IndirectBlock& block, const float** rows) const {
    for (int r = 0; r < block.rows; ++r) rows[r] = tensor + (block.c[r] - y_);
  }

  const Window window_;
  const int64_t out_channels_;
  const float* x_;
  const float* packed_;
  float* y_;
  const Places places_;
  const Kernels& kernels_;
  const Epilogue epilogue_;
  const int64_t panels_, panel_floats_;
  const int64_t block_rows_;  // Pixels of a block, at most.
  const int64_t pieces_;      // Of the reduction, at most.
  const int64_t rows_of_piece_;
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

namespace {

// Whether the plan sums as lines do, which float16 must.
bool IsOneChain(ConvPass pass, const ConvPlan& plan, const Numerics& numerics) {
  return pass != ConvPass::kFilterGradient && numerics.pass_grain(plan.grain) == 0 && plan.in_channels == 1 &&
         plan.kernel_rows == 1 && plan.kernel_columns == 1;
}

// A window may begin above dy or to its left, but not within.
bool GradientLinesPay(const ConvShape& shape) {
  if (shape.stride_rows != 1 && shape.dilation_rows != 1) return false;
  const std::vector<GradientPhase> phases = GradientPhases(shape);
  return std::all_of(phases.begin(), phases.end(), [](const GradientPhase& phase) {
    return phase.window.pad_top >= 0 && phase.window.pad_left >= 0;
  });
}

}  // namespace

bool LinesPay(ConvPass pass, const ConvShape& shape, const ConvPlan& plan, const Numerics& numerics) {
  if (shape.groups != 1) return false;
  if (numerics.type != ElementType::kFloat && !IsOneChain(pass, plan, numerics)) return false;
  if (shape.dilation_columns != 1 && shape.kernel_columns != 1) return false;
  switch (pass) {
    case ConvPass::kForward:
      return true;
    case ConvPass::kInputGradient:
      return GradientLinesPay(shape);
    case ConvPass::kFilterGradient:
      return shape.in_channels <= kMostFilterChannels;
  }
  return false;
}

void LinesForward(const ConvShape& shape, const float* x, const float* w, float* y, const Kernels& kernels,
                  const Parallel& parallel, const Epilogue& epilogue) {
  const Window window = ForwardWindow(shape);
  const int64_t channels = shape.out_channels, row = shape.out_columns * channels;
  const Places places{shape.out_rows * row, row, channels};
  const int64_t width = kernels.block_columns, panels = CeilDivide(channels, width);
  if (channels == width) return Sliding(window, channels, x, w, y, places, kernels, epilogue).Run(parallel);
  const int64_t depth = window.kernel_rows * window.run();
  Scratch packed(panels * depth * width);
  ForFloats(panels * depth * width, parallel)(panels, [&](int64_t panel) {
    kernels.pack(w + panel * width, channels, 1, depth, std::min(width, channels - panel * width),
                 packed.data() + panel * depth * width, depth * width);
  });
  Sliding(window, channels, x, packed.data(), y, places, kernels, epilogue).Run(parallel);
}

namespace {

// Packs the part of the flipped filter that reaches a phase.
void PackPhase(const ConvShape& shape, const GradientPhase& phase, const float* w, float* packed,
               const Kernels& kernels, const Parallel& parallel) {
  const int64_t width = kernels.block_columns, panels = CeilDivide(shape.in_channels, width);
  const int64_t positions = phase.rows.count * phase.columns.count, tap_floats = shape.out_channels * width;
  ForFloats(panels * positions * tap_floats, parallel)(panels * positions, [&](int64_t index) {
    const int64_t panel = index / positions, position = index % positions;
    const int64_t row = phase.rows.last - position / phase.columns.count * shape.stride_rows;
    const int64_t column = phase.columns.last - position % phase.columns.count * shape.stride_columns;
    const int64_t at = (row * shape.kernel_columns + column) * shape.tap_floats() + panel * width * shape.out_channels;
    kernels.pack(w + at, 1, shape.out_channels, shape.out_channels, std::min(width, shape.in_channels - panel * width),
                 packed + index * tap_floats, tap_floats);
  });
}

}  // namespace

void LinesInputGradient(const ConvShape& shape, const float* w, const float* dy, float* dx, const Kernels& kernels,
                        const Parallel& parallel, const Epilogue& epilogue) {
  const int64_t channels = shape.in_channels, image_row = shape.in_columns * channels;
  const Places places{shape.in_rows * image_row, shape.stride_rows * image_row, shape.stride_columns * channels};
  const int64_t panels = CeilDivide(channels, kernels.block_columns);
  for (const GradientPhase& phase : GradientPhases(shape)) {
    const int64_t offset = phase.row * image_row + phase.column * channels;
    Epilogue of_phase = epilogue;
    if (epilogue.addend != nullptr) of_phase.addend += offset;
    if (epilogue.relu_output != nullptr) of_phase.relu_output += offset;
    Scratch packed(panels * phase.window.kernel_rows * phase.window.run() * kernels.block_columns);
    PackPhase(shape, phase, w, packed.data(), kernels, parallel);
    Sliding(phase.window, channels, dy, packed.data(), dx + offset, places, kernels, of_phase).Run(parallel);
  }
}

}  // namespace ipu_tf
