#include "gemm.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "../scratch.h"
#include "../streaming.h"

namespace ipu_tf {
namespace {

// "Measured" is one thread of a Xeon with AVX-512 and 2 MiB of L2 cache a core, on ten products of the sizes of
// ResNet-50 and BERT, by CPU time in turns, to about 10%. None of these changes a result.

// Weights that stay in the cache while rows stream past them: all, or as many panels as take this much. Measured, also
// on a Zen 5 with 1 MiB of L2 cache a core: 256 KiB takes 0.8 to 0.95 of the time of 640 KiB where there are more
// weights, else as long.
constexpr int64_t kWeightsInCacheBytes = int64_t{256} << 10;
// Groups of fewer panels do not pay for streaming the rows once more: then rows stay, and panels stream. Modelled: at
// 250 GFLOP/s, groups of four read their rows at 4 GB/s.
constexpr int64_t kPanelsOfGroup = 4;
// Rows that stay in the cache while panels stream. Measured: 0.5 to 4 MiB take equally long, 256 KiB up to 1.6 times;
// on a Zen 5, 1 MiB takes 1.05 times as long as 0.5.
constexpr int64_t kRowsInCacheBytes = int64_t{1} << 19;
// Rows that are read in place may be more: each panel is packed where it is used, and not by all threads before.
// Measured on a Zen 5, of two threads: 512 x 768 x 3,072 takes 0.93 of the time.
constexpr int64_t kRowsInPlaceBytes = int64_t{1} << 21;
// So that a thread that is late holds up the others by an eighth of its share. Measured for one thread: 1 to 32 take
// equally long.
constexpr int64_t kItemsPerThread = 8;
// Beyond, items differ in their rows alone, so that each packs its weights once. Measured: 4 to 64 take equally long.
constexpr int64_t kManyBlocksOfRows = 16;
// Of an item, so that what it prepares pays. Measured: 1 to 8 take equally long.
constexpr int64_t kFewestBlocksOfRows = 4;
// Of the reduction where rows are packed, so that rows and weights of an item stay in the cache. Measured: 256 to 1,024
// take equally long; on a Zen 5, 256 takes up to 1.1 times as long.
constexpr int64_t kDepthOfPiece = 512;
// Rows of more channels are read in place in pieces, of which weights stay in the first cache. Measured on a Zen 5, of
// two threads: products of 512 x 3,072 x 768 take 0.93 of the time in pieces of 256, those of 80 x 30,522 x 768 take
// 0.65; in pieces of 384 to 512, 0.65 to 1. Of 768 channels, some take longer in pieces.
constexpr int64_t kLongRow = 1024;
constexpr int64_t kDepthOfLongRows = 256;
// Weights are read in place by so few blocks of rows; by more, only if there are few weights. Measured on a Zen 5: of
// 24 to 48 rows, and of 60 to 72 with up to 1.6 MiB of weights, products take 0.8 to 0.9 of the time; beyond, up to 1.3
// times as long.
constexpr int64_t kBlocksOfRowsInPlace = 4;
constexpr int64_t kMoreBlocksOfRowsInPlace = 6;
constexpr int64_t kFewWeightsBytes = int64_t{7} << 18;
// Panels that read the same rows, from which on a copy of rows that adjoin pays. Measured: of eight panels, products of
// 256 to 1,024 rows over 2,048 channels take 0.4 to 0.8 of the time.
constexpr int64_t kPanelsThatPayForRows = 4;
// A copy of all rows may take this much. A choice: as much as the activations of a large layer.
constexpr int64_t kPackedRowsBytes = int64_t{32} << 20;
// Room for the largest register block of a table of kernels, 12 x 32 in kernels_avx512.cc.
constexpr int kMaxBlockRows = 16;
constexpr int kMaxBlockColumns = 32;

enum class Packing { kDirect, kLocal, kShared };

// How one problem is cut into work items, and where its packed weights are.
struct Blocking {
  int64_t row_chunk = 1, row_chunks = 1;
  int64_t panels = 1, panel_group = 1, panel_groups = 1;
  Packing packing = Packing::kDirect;
  bool rows_outer = true;  // All weights stay in the cache while rows stream (else a panel at a time).
  int64_t first_item = 0;
  int64_t first_panel = 0;  // Of the shared panels.
  Scratch shared;
  Packing row_packing = Packing::kDirect;  // Of rows that adjoin in memory: packed, the channels of a block adjoin.
  int64_t chunk_blocks = 1;                // Blocks of rows of a whole chunk.
  Scratch rows;

  int64_t items() const { return row_chunks * panel_groups; }
};

int64_t Depth(const GemmProblem& problem) { return problem.taps() * problem.run; }

// A stretch of the reduction that a kernel sums in one call.
struct Piece {
  ReductionPart part;
  bool load;  // Continue from the sums of the piece before.
  bool add;   // Add to them.
};

// Whether the reduction of rows that are read in place is long enough to be summed in pieces.
bool HasLongRows(const GemmProblem& problem) {
  return problem.transposed_step == 0 && problem.taps() == 1 && problem.run > kLongRow &&
         problem.update.weights == nullptr && problem.rounding.grain == 0;
}

// Whether the kernel of a block adds the bias to sums of one part; else it is added once they are written.
bool KernelAddsBias(const GemmProblem& problem) {
  return problem.transposed_step == 0 && !problem.skip_outside && problem.rounding.grain == 0;
}

// Channels of a piece of the reduction at most: where rows are packed or long, pieces are short, so that they stay in
// the cache.
int64_t DepthOfPiece(const GemmProblem& problem, bool packs_rows) {
  if (packs_rows) return std::min(problem.run, kDepthOfPiece);
  return HasLongRows(problem) ? kDepthOfLongRows : problem.run;
}

// The pieces of the reduction, in order. A chain of sums that is stored and goes on from there stays the same chain.
std::vector<Piece> PiecesOf(const GemmProblem& problem, bool packs_rows) {
  std::vector<Piece> pieces;
  const bool splits = problem.rounding.grain == 0;
  const int64_t depth = DepthOfPiece(problem, packs_rows);
  for (ReductionPart part : problem.parts) {
    const bool add = !pieces.empty();
    bool load = false;
    const int64_t end = part.k_end;
    for (; splits && !add && end - part.k_begin > depth; part.k_begin = part.k_end, load = true) {
      part.k_end = part.k_begin + depth;
      pieces.push_back({part, load, false});
    }
    part.k_end = end;
    pieces.push_back({part, load, add});
  }
  return pieces;
}

// Whether packing the weights would cost more than it gains.
bool ReadsWeightsInPlace(const GemmProblem& problem, const Kernels& kernels) {
  if (problem.weights.n_stride != 1) return false;
  const int64_t bytes = 4 * Depth(problem) * problem.columns;
  const int64_t blocks = bytes <= kFewWeightsBytes ? kMoreBlocksOfRowsInPlace : kBlocksOfRowsInPlace;
  return problem.columns <= kernels.block_columns || problem.rows <= blocks * kernels.block_rows;
}

Blocking ChooseBlocking(const GemmProblem& problem, const Kernels& kernels, int64_t wanted_items) {
  Blocking b;
  const int64_t block_rows = kernels.block_rows, block_columns = kernels.block_columns;
  b.panels = CeilDivide(problem.columns, block_columns);
  const int64_t panel_bytes = std::max<int64_t>(1, 4 * Depth(problem) * block_columns);
  const int64_t panels_in_cache = kWeightsInCacheBytes / panel_bytes;
  const bool in_groups = b.panels > panels_in_cache && panels_in_cache >= kPanelsOfGroup;
  b.rows_outer = in_groups || b.panels <= panels_in_cache;
  const bool direct = ReadsWeightsInPlace(problem, kernels);
  if (!b.rows_outer || direct) b.panel_groups = std::min(b.panels, wanted_items);
  if (problem.rows > kManyBlocksOfRows * block_rows && b.rows_outer) b.panel_groups = 1;
  if (in_groups) b.panel_groups = std::max(b.panel_groups, CeilDivide(b.panels, panels_in_cache));
  const bool packs_rows = problem.transposed_step > 0 && b.panels >= kPanelsThatPayForRows;
  if (packs_rows && problem.rows >= problem.columns && !in_groups) b.panel_groups = 1;
  int64_t chunk = CeilDivide(problem.rows, CeilDivide(wanted_items, b.panel_groups));
  const int64_t bytes = packs_rows ? kRowsInCacheBytes : kRowsInPlaceBytes;
  if (!b.rows_outer) chunk = std::min(chunk, bytes / (4 * DepthOfPiece(problem, packs_rows)));
  // Chunks are equally long, or else the last one would pay for its weights with few rows.
  chunk = CeilDivide(problem.rows, CeilDivide(problem.rows, std::max<int64_t>(1, chunk)));
  chunk = std::max(CeilDivide(chunk, block_rows), kFewestBlocksOfRows) * block_rows;
  b.row_chunk = std::min(chunk, problem.rows);
  b.row_chunks = CeilDivide(problem.rows, b.row_chunk);
  const int64_t groups = CeilDivide(wanted_items, b.row_chunks);
  b.panel_group = CeilDivide(b.panels, std::min(b.panels, std::max(groups, b.panel_groups)));
  b.panel_groups = CeilDivide(b.panels, b.panel_group);
  b.packing = direct ? Packing::kDirect : b.row_chunks > 1 ? Packing::kShared : Packing::kLocal;
  b.chunk_blocks = CeilDivide(b.row_chunk, block_rows);
  if (packs_rows && b.panel_groups == 1) {
    b.row_packing = Packing::kLocal;
  } else if (packs_rows && 4 * problem.rows * problem.run <= kPackedRowsBytes) {
    b.row_packing = Packing::kShared;
  }
  return b;
}

// Channels of each tap.
struct Channels {
  int64_t begin, end;
};

// Packs panels from `panel` on, `panel_floats` apart.
void PackPanels(const GemmProblem& problem, const Kernels& kernels, int64_t panel, int64_t panels, const Channels& k,
                float* to, int64_t panel_floats) {
  const Weights& w = problem.weights;
  const int64_t column = panel * kernels.block_columns;
  const int64_t columns = std::min<int64_t>(panels * kernels.block_columns, problem.columns - column);
  for (const int64_t at : w.tap_at) {
    const float* from = w.data + at + k.begin * w.k_stride + column * w.n_stride;
    kernels.pack(from, w.k_stride, w.n_stride, k.end - k.begin, columns, to, panel_floats);
    to += (k.end - k.begin) * kernels.block_columns;
  }
}

// A block of a chunk of rows. Rows are dealt evenly over the blocks, so that no block is left with very few.
struct RowBlock {
  int64_t first;
  int rows;

  RowBlock(int64_t index, int64_t blocks, int64_t rows_of_all)
      : first(rows_of_all * index / blocks), rows(static_cast<int>(rows_of_all * (index + 1) / blocks - first)) {}
};

// The rows that a work item holds ready.
struct Workspace {
  std::vector<const float*> a;
  std::vector<float*> c;
  std::vector<const float*> updated;  // Of the weights that are updated.
  std::vector<char> outside;          // Per row: some tap lies outside.
  std::vector<RowBlock> blocks;
  std::vector<int64_t> packed_taps;
};

class Item {
 public:
  Item(const GemmProblem& problem, const Blocking& blocking, const Kernels& kernels, const float* zeros)
      : problem_(problem),
        blocking_(blocking),
        kernels_(kernels),
        zeros_(zeros),
        offsets_(problem.source->TapOffsets()),
        pieces_(PiecesOf(problem, blocking.row_packing != Packing::kDirect)),
        may_stream_(pieces_.size() == 1 && problem.update.weights == nullptr && !problem.skip_outside &&
                    (problem.epilogue.bias == nullptr || KernelAddsBias(problem)) &&
                    StreamingPays(problem.rows * problem.columns)) {}

  void Run(int64_t index) {
    chunk_ = index % blocking_.row_chunks;
    const int64_t row = chunk_ * blocking_.row_chunk;
    const int64_t panel = index / blocking_.row_chunks * blocking_.panel_group;
    rows_ = std::min(blocking_.row_chunk, problem_.rows - row);
    blocks_ = CeilDivide(rows_, kernels_.block_rows);
    const int64_t panels = std::min(blocking_.panel_group, blocking_.panels - panel);
    FillRows(row);
    if (blocking_.rows_outer) {
      RunRowsOuter(panel, panels);
    } else {
      RunPanelsOuter(panel, panels);
    }
    if (streams_) StreamFence();
  }

 private:
  int64_t PanelFloats() const { return Depth(problem_) * kernels_.block_columns; }

  void FillRows(int64_t row) {
    const int64_t taps = problem_.taps();
    space_.a.resize((taps + 1) * rows_);  // One more: a kernel loads addresses before it counts taps.
    space_.c.resize(rows_);
    space_.outside.assign(rows_, 0);
    space_.blocks.clear();
    for (int64_t i = 0; i < blocks_; ++i) space_.blocks.emplace_back(i, blocks_, rows_);
    has_outside_ = false;
    problem_.source->Fill(row, rows_, space_.a.data(), rows_, space_.c.data());
    const WeightUpdate& update = problem_.update;
    space_.updated.clear();
    for (const float* c : space_.c) {
      if (update.weights != nullptr) space_.updated.push_back(update.weights + (c - update.outputs));
    }
    streams_ = may_stream_ && BeginAtLines(space_.c.data(), rows_, problem_.column_offset);
    for (int64_t tap = 0; tap < taps; ++tap) {
      const float** a = space_.a.data() + tap * rows_;
      for (int64_t r = 0; r < rows_; ++r) {
        if (a[r] != nullptr) continue;
        has_outside_ = true;
        space_.outside[r] = 1;
        if (!problem_.skip_outside) a[r] = zeros_;
      }
    }
    if (blocking_.packing == Packing::kDirect) {
      b_tap_ = problem_.weights.tap_at.data();
      ldb_ = problem_.weights.k_stride;
      return;
    }
    space_.packed_taps.resize(taps);
    for (int64_t tap = 0; tap < taps; ++tap) {
      space_.packed_taps[tap] = tap * problem_.run * kernels_.block_columns;
    }
    b_tap_ = space_.packed_taps.data();
    ldb_ = kernels_.block_columns;
  }

  // Pieces that are summed for all blocks before the next ones: where rows are packed, each by itself. One stage of all
  // pieces is right, too, and what needs whole sums at once must have it.
  struct Stage {
    size_t begin, end;
    Channels channels;
  };

  std::vector<Stage> Stages() const {
    const bool whole_sums = problem_.update.weights != nullptr;
    const bool in_pieces = blocking_.row_packing != Packing::kDirect || HasLongRows(problem_);
    if (whole_sums || !in_pieces) return {{0, pieces_.size(), {0, problem_.run}}};
    std::vector<Stage> stages;
    for (size_t i = 0; i < pieces_.size(); ++i) {
      stages.push_back({i, i + 1, {pieces_[i].part.k_begin, pieces_[i].part.k_end}});
    }
    return stages;
  }

  int64_t LongestStage(const std::vector<Stage>& stages) const {
    int64_t longest = 0;
    for (const Stage& stage : stages) longest = std::max(longest, stage.channels.end - stage.channels.begin);
    return longest;
  }

  // The address of the first of so many panels, as if all its channels were there; `local` is where to pack some,
  // PanelFloats() apart, if nobody has.
  const float* Panels(int64_t first, int64_t panels, const Channels& channels, float* local) {
    switch (blocking_.packing) {
      case Packing::kDirect:
        return problem_.weights.data + first * kernels_.block_columns;
      case Packing::kShared:
        return blocking_.shared.data() + first * PanelFloats();
      case Packing::kLocal:
        PackPanels(problem_, kernels_, first, panels, channels, local, PanelFloats());
        return local - channels.begin * kernels_.block_columns;
    }
    return nullptr;
  }

  // The address of a block of rows that adjoin, as if all its channels were there; `local` is where to pack some if
  // nobody has. nullptr: they are read in place.
  const float* Rows(int64_t block, const Channels& channels, float* local) {
    switch (blocking_.row_packing) {
      case Packing::kDirect:
        return nullptr;
      case Packing::kShared:
        return blocking_.rows.data() + (chunk_ * blocking_.chunk_blocks + block) * problem_.run * kernels_.block_rows;
      case Packing::kLocal: {
        const RowBlock& rows = space_.blocks[block];
        kernels_.pack_rows(space_.a[rows.first] + channels.begin * problem_.transposed_step, problem_.transposed_step,
                           channels.end - channels.begin, rows.rows, local);
        return local - channels.begin * kernels_.block_rows;
      }
    }
    return nullptr;
  }

  bool PacksRows() const { return blocking_.row_packing == Packing::kLocal; }

  void RunRowsOuter(int64_t panel, int64_t panels) {
    const bool local = blocking_.packing == Packing::kLocal;
    Scratch packed(local ? panels * PanelFloats() : 0);
    const float* first = Panels(panel, panels, {0, problem_.run}, packed.data());
    const int64_t step = blocking_.packing == Packing::kDirect ? kernels_.block_columns : PanelFloats();
    const std::vector<Stage> stages = Stages();
    const Scratch rows(PacksRows() ? LongestStage(stages) * kernels_.block_rows : 0);
    for (const Stage& stage : stages) {
      for (int64_t i = 0; i < blocks_; ++i) {
        const float* block_rows = Rows(i, stage.channels, rows.data());
        for (int64_t p = 0; p < panels; ++p) AddStage(i, panel + p, stage, block_rows, first + p * step);
      }
    }
  }

  void RunPanelsOuter(int64_t panel, int64_t panels) {
    const std::vector<Stage> stages = Stages();
    const int64_t depth = LongestStage(stages), row_floats = depth * kernels_.block_rows;
    Scratch packed(blocking_.packing == Packing::kLocal ? problem_.taps() * depth * kernels_.block_columns : 0);
    const Scratch rows(PacksRows() ? blocks_ * row_floats : 0);
    std::vector<const float*> block_rows(blocks_);
    for (const Stage& stage : stages) {
      for (int64_t i = 0; i < blocks_; ++i) {
        block_rows[i] = Rows(i, stage.channels, rows.data() + (PacksRows() ? i * row_floats : 0));
      }
      for (int64_t p = panel; p < panel + panels; ++p) {
        const float* b = Panels(p, 1, stage.channels, packed.data());
        for (int64_t i = 0; i < blocks_; ++i) AddStage(i, p, stage, block_rows[i], b);
      }
    }
  }

  // Adds a stage to the sums of a block; they are whole after the last one, which `stage.end == pieces_.size()` tells.
  // The sums are kept in the outputs from one stage to the next. `packed_rows` are those of the block if they are
  // packed, else nullptr.
  void AddStage(int64_t index, int64_t panel, const Stage& stage, const float* packed_rows, const float* b) {
    const RowBlock& block = space_.blocks[index];
    const int64_t column = panel * kernels_.block_columns;
    const int columns = static_cast<int>(std::min<int64_t>(kernels_.block_columns, problem_.columns - column));
    const float* bias = problem_.epilogue.bias;
    if (stage.end < pieces_.size()) bias = nullptr;  // The sums are not whole.
    if (bias != nullptr) bias += column;
    FetchResults(block, column);
    if (problem_.transposed_step > 0) {
      AddTransposed(block, column, columns, stage, packed_rows, b);
    } else {
      AddIndirect(block, column, columns, stage, b, &bias);
    }
    for (int r = 0; bias != nullptr && r < block.rows; ++r) {
      kernels_.add_bias(bias, problem_.epilogue.relu, Result(block, r, column), columns);
    }
  }

  float* Result(const RowBlock& block, int row, int64_t column) const {
    return space_.c[block.first + row] + problem_.column_offset + column;
  }

  // Adds the pieces of a stage; then `bias` is null if it is added, too.
  void AddIndirect(const RowBlock& rows, int64_t column, int columns, const Stage& stage, const float* b,
                   const float** bias) {
    float sums[kMaxBlockRows * kMaxBlockColumns], *sum_rows[kMaxBlockRows];
    const bool updates = problem_.update.weights != nullptr, outside = AnyOutside(rows);
    IndirectBlock block;  // Its fields are all set below: clearing it first takes a tenth of a product of short rows.
    block.a_tap_stride = rows_;
    block.b = b;
    block.ldb = ldb_;
    block.c = updates ? PlaceSums(sums, rows.rows, sum_rows) : space_.c.data() + rows.first;
    block.c_offset = updates ? 0 : problem_.column_offset + column;
    block.rows = rows.rows;
    block.columns = columns;
    block.rounding = problem_.rounding;
    block.stream = streams_ && columns == kernels_.block_columns;
    const int64_t* offsets = outside ? nullptr : offsets_;
    for (size_t i = stage.begin; i < stage.end; ++i) {
      const ReductionPart& part = pieces_[i].part;
      block.a = space_.a.data() + (offsets == nullptr ? part.tap_begin * rows_ : 0) + rows.first;
      block.a_tap = offsets == nullptr ? nullptr : offsets + part.tap_begin;
      block.b_tap = b_tap_ + part.tap_begin;
      block.taps = part.tap_end - part.tap_begin;
      block.k_begin = part.k_begin;
      block.k_end = part.k_end;
      block.load = pieces_[i].load;
      block.add = pieces_[i].add;
      if (*bias != nullptr && i + 1 == pieces_.size() && !block.add && KernelAddsBias(problem_)) {
        block.bias = std::exchange(*bias, nullptr);
        block.relu = problem_.epilogue.relu;
      }
      if (outside && problem_.skip_outside) {
        RunInside(block);
      } else {
        kernels_.indirect(block);
      }
    }
    if (updates) Update(sums, rows, column, columns);
  }

  // Adds the pieces of a stage, whose rows adjoin. The kernel updates weights by sums of one piece; by those of
  // several, they are updated once the sums are whole.
  void AddTransposed(const RowBlock& rows, int64_t column, int columns, const Stage& stage, const float* packed_rows,
                     const float* b) {
    float sums[kMaxBlockRows * kMaxBlockColumns], *sum_rows[kMaxBlockRows];
    const bool updates = problem_.update.weights != nullptr;
    const bool updates_sums = updates && (pieces_.size() > 1 || problem_.rounding.grain > 0);
    TransposedRun run;
    TransposedBlock block;
    block.runs = &run;
    block.run_count = 1;
    block.a_step = packed_rows == nullptr ? problem_.transposed_step : kernels_.block_rows;
    block.ldb = ldb_;
    block.c = updates_sums ? PlaceSums(sums, rows.rows, sum_rows) : space_.c.data() + rows.first;
    block.c_offset = updates_sums ? 0 : problem_.column_offset + column;
    block.rows = rows.rows;
    block.columns = columns;
    block.rounding = problem_.rounding;
    block.stream = streams_ && columns == kernels_.block_columns;
    if (updates && !updates_sums) block.weights = space_.updated.data() + rows.first;
    block.rate = problem_.update.rate;
    const float* a = packed_rows == nullptr ? space_.a[rows.first] : packed_rows;
    for (size_t i = stage.begin; i < stage.end; ++i) {
      const ReductionPart& part = pieces_[i].part;
      run = {a + part.k_begin * block.a_step, b + b_tap_[0] + part.k_begin * ldb_, part.k_end - part.k_begin,
             problem_.rounding.grain};
      block.load = pieces_[i].load;
      block.add = pieces_[i].add;
      kernels_.transposed(block);
    }
    if (updates_sums) Update(sums, rows, column, columns);
  }

  // Returns `c` with the places of rows of `sums`.
  static float* const* PlaceSums(float* sums, int rows, float** c) {
    for (int r = 0; r < rows; ++r) c[r] = sums + r * kMaxBlockColumns;
    return c;
  }

  bool AnyOutside(const RowBlock& block) const {
    bool outside = false;
    for (int r = 0; has_outside_ && r < block.rows; ++r) outside = outside || space_.outside[block.first + r] != 0;
    return outside;
  }

  // Asks for what a block will write, and for weights that it updates, which else wait for memory where the reduction
  // is short.
  void FetchResults(const RowBlock& block, int64_t column) const {
    const int64_t first = problem_.column_offset + column;
    for (int r = 0; r < block.rows; ++r) {
      for (int64_t i = first; i < first + kernels_.block_columns; i += kCacheLineFloats) {
        if (!streams_) __builtin_prefetch(space_.c[block.first + r] + i, 1);
        if (!space_.updated.empty()) __builtin_prefetch(space_.updated[block.first + r] + i);
      }
    }
  }

  void Update(const float* sums, const RowBlock& block, int64_t column, int columns) const {
    const float rate = problem_.update.rate;
    for (int r = 0; r < block.rows; ++r, sums += kMaxBlockColumns) {
      float* to = Result(block, r, column);
      const float* from = space_.updated[block.first + r] + problem_.column_offset + column;
#pragma GCC ivdep
      for (int i = 0; i < columns; ++i) to[i] = from[i] - sums[i] * rate;
    }
  }

  // A block at the image's border: tap by tap over the rows whose tap lies inside.
  void RunInside(const IndirectBlock& whole) {
    float sums[kMaxBlockRows * kMaxBlockColumns] = {};
    const float* a[kMaxBlockRows];
    float* c[kMaxBlockRows];
    IndirectBlock block = whole;
    block.a = a;
    block.c = c;
    block.c_offset = 0;
    block.taps = 1;
    block.load = true;
    block.add = false;
    for (int64_t tap = 0; tap < whole.taps; ++tap) {
      block.rows = 0;
      for (int r = 0; r < whole.rows; ++r) {
        const float* row = whole.a[tap * whole.a_tap_stride + r];
        if (row == nullptr) continue;
        a[block.rows] = row;
        c[block.rows++] = sums + r * kMaxBlockColumns;
      }
      block.b_tap = whole.b_tap + tap;
      if (block.rows > 0) kernels_.indirect(block);
    }
    for (int r = 0; r < whole.rows; ++r) {
      const float* sum = sums + r * kMaxBlockColumns;
      if (whole.add) {
        kernels_.add(sum, whole.c[r] + whole.c_offset, whole.columns);
      } else {
        std::memcpy(whole.c[r] + whole.c_offset, sum, whole.columns * sizeof(float));
      }
    }
  }

  const GemmProblem& problem_;
  const Blocking& blocking_;
  const Kernels& kernels_;
  const float* zeros_;
  const int64_t* offsets_;  // As `TapOffsets` of the rows.
  bool has_outside_ = false;
  const int64_t* b_tap_ = nullptr;
  int64_t ldb_ = 0;
  const std::vector<Piece> pieces_;
  const bool may_stream_;
  bool streams_ = false;
  int64_t chunk_ = 0, rows_ = 0, blocks_ = 0;
  Workspace space_;
};

// The index of the last entry whose `first` is at most `index`.
template <typename First>
size_t FindOwner(const std::vector<Blocking>& blockings, int64_t index, First first) {
  size_t low = 0, high = blockings.size();
  while (high - low > 1) {
    const size_t middle = (low + high) / 2;
    (first(blockings[middle]) <= index ? low : high) = middle;
  }
  return low;
}

void PackShared(const std::vector<GemmProblem>& problems, std::vector<Blocking>* blockings, const Kernels& kernels,
                const Parallel& parallel) {
  int64_t panels = 0;
  for (size_t i = 0; i < problems.size(); ++i) {
    Blocking& b = (*blockings)[i];
    b.first_panel = panels;
    if (b.packing != Packing::kShared) continue;
    b.shared = Scratch(b.panels * Depth(problems[i]) * kernels.block_columns);
    panels += b.panels;
  }
  int64_t floats = 0;
  for (size_t i = 0; i < problems.size(); ++i) {
    if ((*blockings)[i].packing == Packing::kShared) floats += Depth(problems[i]) * problems[i].columns;
  }
  ForFloats(floats, parallel)(panels, [&](int64_t index) {
    const size_t i = FindOwner(*blockings, index, [](const Blocking& b) { return b.first_panel; });
    const Blocking& b = (*blockings)[i];
    const int64_t panel = index - b.first_panel;
    const int64_t floats = Depth(problems[i]) * kernels.block_columns;
    PackPanels(problems[i], kernels, panel, 1, {0, problems[i].run}, b.shared.data() + panel * floats, floats);
  });
}

// Packs all rows of problems whose items share them.
void PackSharedRows(const std::vector<GemmProblem>& problems, std::vector<Blocking>* blockings, const Kernels& kernels,
                    const Parallel& parallel) {
  for (size_t i = 0; i < problems.size(); ++i) {
    const GemmProblem& problem = problems[i];
    Blocking& b = (*blockings)[i];
    if (b.row_packing != Packing::kShared) continue;
    const int64_t floats = problem.run * kernels.block_rows;
    b.rows = Scratch(b.row_chunks * b.chunk_blocks * floats);
    ForFloats(problem.rows * problem.run, parallel)(b.row_chunks * b.chunk_blocks, [&](int64_t index) {
      const int64_t begin = index / b.chunk_blocks * b.row_chunk, block = index % b.chunk_blocks;
      const int64_t rows = std::min(b.row_chunk, problem.rows - begin), blocks = CeilDivide(rows, kernels.block_rows);
      if (block >= blocks) return;
      const RowBlock row_block(block, blocks, rows);
      const float* from;
      float* unused;
      problem.source->Fill(begin + row_block.first, 1, &from, 1, &unused);
      kernels.pack_rows(from, problem.transposed_step, problem.run, row_block.rows, b.rows.data() + index * floats);
    });
  }
}

}  // namespace

void RunGemms(const std::vector<GemmProblem>& problems, const Kernels& kernels, const Parallel& threads) {
  int64_t products = 0;
  for (const GemmProblem& problem : problems) {
    products += problem.rows * problem.columns * Depth(problem);
  }
  const Parallel parallel = products < kSerialProducts ? Parallel{} : threads;
  const int64_t wanted = CeilDivide(kItemsPerThread * parallel.threads, problems.size());
  std::vector<Blocking> blockings;
  blockings.reserve(problems.size());
  int64_t items = 0, longest_run = 0;
  for (const GemmProblem& problem : problems) {
    blockings.push_back(ChooseBlocking(problem, kernels, wanted));
    blockings.back().first_item = items;
    items += blockings.back().items();
    longest_run = std::max(longest_run, problem.run);
  }
  Scratch zeros(longest_run);
  std::memset(zeros.data(), 0, longest_run * sizeof(float));
  PackShared(problems, &blockings, kernels, parallel);
  PackSharedRows(problems, &blockings, kernels, parallel);
  parallel(items, [&](int64_t index) {
    const size_t i = FindOwner(blockings, index, [](const Blocking& b) { return b.first_item; });
    Item(problems[i], blockings[i], kernels, zeros.data()).Run(index - blockings[i].first_item);
  });
}

}  // namespace ipu_tf
