#include "gemm_item.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "../fetching.h"
#include "../scratch.h"
#include "../streaming.h"

namespace ipu_tf {
namespace {

// Room for the largest register block of a table of kernels, 12 x 32 in kernels_avx512.cc.
constexpr int kMaxBlockRows = 16;
constexpr int kMaxBlockColumns = 32;

// A stretch of the reduction that a kernel sums in one call.
struct Piece {
  ReductionPart part;
  bool load;  // Continue from the sums of the piece before.
  bool add;   // Add to them.
};

// Whether the kernel of a block applies the epilogue to sums of one part; else that is done once they are written.
bool KernelFinishes(const GemmProblem& problem) {
  return problem.transposed_step == 0 && !problem.skip_outside && problem.rounding.grain == 0;
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

// The rows that a work item holds ready.
struct Workspace {
  std::vector<const float*> a;
  std::vector<float*> c;
  std::vector<const float*> updated;  // Of the weights that are updated.
  std::vector<char> outside;          // Per row: some tap lies outside.
  std::vector<RowBlock> blocks;
  std::vector<int64_t> packed_taps;
};

// The sums of a block that are not kept in its results.
struct BlockSums {
  float values[kMaxBlockRows * kMaxBlockColumns];
  float* rows[kMaxBlockRows];
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
                    (!problem.epilogue.any() || KernelFinishes(problem)) &&
                    StreamingPays(problem.rows * problem.columns)) {}

  void Run(int64_t index) {
    chunk_ = index % blocking_.row_chunks;
    const int64_t row = chunk_ * blocking_.row_chunk;
    const int64_t panel = index / blocking_.row_chunks * blocking_.panel_group;
    rows_ = std::min(blocking_.row_chunk, problem_.rows - row);
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
    has_outside_ = false;
    problem_.source->Fill(row, rows_, space_.a.data(), rows_, space_.c.data());
    DealBlocks();
    const WeightUpdate& update = problem_.update;
    space_.updated.resize(update.weights == nullptr ? 0 : rows_);
    for (size_t r = 0; r < space_.updated.size(); ++r) {
      space_.updated[r] = update.weights + (space_.c[r] - update.outputs);
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

  // Measured on a Zen 4, whose first cache has eight ways: rows of 1,024 to 3,072 channels take 0.93 to 0.96 of the
  // time that they take in blocks of twelve.
  void DealBlocks() {
    const std::vector<const float*>& a = space_.a;
    const bool in_place = problem_.transposed_step == 0 && rows_ > 1 && a[0] != nullptr && a[1] != nullptr;
    blocks_ = CeilDivide(rows_, in_place ? RowsOfBlock(kernels_, a[1] - a[0]) : kernels_.block_rows);
    space_.blocks.clear();
    for (int64_t i = 0; i < blocks_; ++i) space_.blocks.emplace_back(i, blocks_, rows_);
  }

  // Pieces that are summed for all blocks before the next ones, which then find what they share in the cache: where
  // rows are packed or adjoin, each by itself, but for short ones. One stage of all pieces is right, too, and what
  // needs whole sums at once must have it.
  struct Stage {
    size_t begin, end;
    Channels channels;
  };

  std::vector<Stage> Stages() const {
    const bool whole_sums = problem_.update.weights != nullptr;
    const bool in_pieces = problem_.transposed_step > 0 || HasLongRows(problem_);
    if (whole_sums || !in_pieces) return {{0, pieces_.size(), {0, problem_.run}}};
    std::vector<Stage> stages;
    for (size_t i = 0; i < pieces_.size(); ++i) {
      const ReductionPart& part = pieces_[i].part;
      if (!stages.empty() && part.k_end - stages.back().channels.begin <= DepthOfStage(problem_)) {
        stages.back().end = i + 1;
        stages.back().channels.end = part.k_end;
      } else {
        stages.push_back({i, i + 1, {part.k_begin, part.k_end}});
      }
    }
    return stages;
  }

  int64_t LongestStage(const std::vector<Stage>& stages) const {
    int64_t longest = 0;
    for (const Stage& stage : stages) longest = std::max(longest, stage.channels.end - stage.channels.begin);
    return longest;
  }

  // Floats of the packed panels of an item, of so many channels of each tap.
  int64_t PackedFloats(int64_t panels, int64_t channels) const {
    const bool packs = blocking_.packing == Packing::kLocal || blocking_.packing == Packing::kCopied;
    return packs ? panels * problem_.taps() * channels * kernels_.block_columns : 0;
  }

  // The address of the first of so many panels, as if all its channels were there; `local` is where to pack some,
  // PanelFloats() apart, if nobody has.
  const float* Panels(int64_t first, int64_t panels, const Channels& channels, float* local) {
    switch (blocking_.packing) {
      case Packing::kDirect:
        return InPlace(first);
      case Packing::kShared:
        return blocking_.shared.data() + first * PanelFloats();
      case Packing::kLocal:
        PackPanels(problem_, kernels_, first, panels, channels, local, PanelFloats());
        [[fallthrough]];
      case Packing::kCopied:
        return local - channels.begin * kernels_.block_columns;
    }
    return nullptr;
  }

  const float* InPlace(int64_t panel) const { return problem_.weights.data + panel * kernels_.block_columns; }

  // Whether a block of rows copies the weights that it reads.
  bool Copies(int64_t block) const { return block == 0 && blocking_.packing == Packing::kCopied; }

  // The address of a block of rows that adjoin, as if all its channels were there; `local` is where to pack some if
  // nobody has. nullptr: they are read in place.
  const float* Rows(int64_t block, const Channels& channels, float* local) {
    switch (blocking_.row_packing) {
      case Packing::kDirect:
      case Packing::kCopied:  // Weights alone are.
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
    const Scratch packed(PackedFloats(panels, problem_.run));
    const float* first = Panels(panel, panels, {0, problem_.run}, packed.data());
    const int64_t step = blocking_.packing == Packing::kDirect ? kernels_.block_columns : PanelFloats();
    const std::vector<Stage> stages = Stages();
    const Scratch rows(PacksRows() ? LongestStage(stages) * kernels_.block_rows : 0);
    for (const Stage& stage : stages) {
      for (int64_t i = 0; i < blocks_; ++i) {
        const float* block_rows = Rows(i, stage.channels, rows.data());
        for (int64_t p = 0; p < panels; ++p) {
          float* copy = Copies(i) ? packed.data() + p * step : nullptr;
          AddStage(i, panel + p, stage, block_rows, first + p * step, copy);
        }
      }
    }
  }

  void RunPanelsOuter(int64_t panel, int64_t panels) {
    const std::vector<Stage> stages = Stages();
    const int64_t depth = LongestStage(stages), row_floats = depth * kernels_.block_rows;
    const Scratch packed(PackedFloats(1, depth));
    const Scratch rows(PacksRows() ? blocks_ * row_floats : 0);
    std::vector<const float*> block_rows(blocks_);
    for (const Stage& stage : stages) {
      for (int64_t i = 0; i < blocks_; ++i) {
        block_rows[i] = Rows(i, stage.channels, rows.data() + (PacksRows() ? i * row_floats : 0));
      }
      for (int64_t p = panel; p < panel + panels; ++p) {
        const float* b = Panels(p, 1, stage.channels, packed.data());
        for (int64_t i = 0; i < blocks_; ++i) {
          float* copy = Copies(i) ? packed.data() - stage.channels.begin * kernels_.block_columns : nullptr;
          AddStage(i, p, stage, block_rows[i], b, copy);
        }
      }
    }
  }

  // Adds a stage to the sums of a block; they are whole after the last one, which `stage.end == pieces_.size()` tells.
  // The sums are kept in the outputs from one stage to the next. `packed_rows` are those of the block if they are
  // packed, else nullptr. `copy` is where the weights are copied to from where they are, as if all channels were there;
  // nullptr: they are read from `b`.
  void AddStage(int64_t index, int64_t panel, const Stage& stage, const float* packed_rows, const float* b,
                float* copy) {
    const RowBlock& block = space_.blocks[index];
    const int64_t column = panel * kernels_.block_columns;
    const int columns = static_cast<int>(std::min<int64_t>(kernels_.block_columns, problem_.columns - column));
    // Unless the kernel applies the epilogue.
    bool finishes = stage.end == pieces_.size() && problem_.epilogue.any();
    FetchResults(block, column);
    if (problem_.transposed_step > 0) {
      AddTransposed(block, column, columns, stage, packed_rows, b);
    } else {
      AddIndirect(block, column, columns, stage, copy == nullptr ? b : InPlace(panel), copy, &finishes);
    }
    for (int r = 0; finishes && r < block.rows; ++r) Finish(column, columns, Result(block, r, column));
  }

  // Applies the epilogue to a row of whole sums.
  void Finish(int64_t column, int columns, float* sums) const {
    const Epilogue& epilogue = problem_.epilogue;
    const int64_t at = sums - problem_.outputs;
    if (epilogue.bias != nullptr) kernels_.add_bias(epilogue.bias + column, epilogue.relu, sums, columns);
    if (epilogue.addend != nullptr) kernels_.add(epilogue.addend + at, sums, columns);
    if (epilogue.relu_output != nullptr) kernels_.relu_gradient(epilogue.relu_output + at, sums, columns);
  }

  float* Result(const RowBlock& block, int row, int64_t column) const {
    return space_.c[block.first + row] + problem_.column_offset + column;
  }

  // Adds the pieces of a stage; where the sums are to be finished and the kernel does it, `finishes` is false then.
  void AddIndirect(const RowBlock& rows, int64_t column, int columns, const Stage& stage, const float* b, float* copy,
                   bool* finishes) {
    BlockSums sums;
    const float *addend[kMaxBlockRows], *features[kMaxBlockRows];
    const bool updates = problem_.update.weights != nullptr, outside = AnyOutside(rows);
    IndirectBlock block;  // Its fields are all set below: clearing it first takes a tenth of a product of short rows.
    block.a_tap_stride = rows_;
    block.b = b;
    Describe(rows, column, columns, updates ? &sums : nullptr, &block);
    const int64_t* b_tap = b_tap_;
    if (copy != nullptr) {
      b_tap = problem_.weights.tap_at.data();
      block.ldb = problem_.weights.k_stride;
    }
    const int64_t* offsets = outside ? nullptr : offsets_;
    for (size_t i = stage.begin; i < stage.end; ++i) {
      const ReductionPart& part = pieces_[i].part;
      block.a = space_.a.data() + (offsets == nullptr ? part.tap_begin * rows_ : 0) + rows.first;
      block.a_tap = offsets == nullptr ? nullptr : offsets + part.tap_begin;
      block.b_tap = b_tap + part.tap_begin;
      if (copy != nullptr) block.panel = copy + part.k_begin * kernels_.block_columns;
      block.taps = part.tap_end - part.tap_begin;
      block.k_begin = part.k_begin;
      block.k_end = part.k_end;
      block.load = pieces_[i].load;
      block.add = pieces_[i].add;
      if (*finishes && i + 1 == pieces_.size() && !block.add && KernelFinishes(problem_)) {
        *finishes = false;
        const Epilogue& epilogue = problem_.epilogue;
        if (epilogue.bias != nullptr) block.bias = epilogue.bias + column;
        block.relu = epilogue.relu;
        if (epilogue.addend != nullptr) block.addend = LikeResults(epilogue.addend, rows, addend);
        if (epilogue.relu_output != nullptr) block.features = LikeResults(epilogue.relu_output, rows, features);
      }
      if (outside && problem_.skip_outside) {
        RunInside(block);
      } else {
        kernels_.indirect(block);
      }
    }
    if (updates) Update(sums.values, rows, column, columns);
  }

  // Adds the pieces of a stage, whose rows adjoin. The kernel updates weights by sums of one piece; by those of
  // several, they are updated once the sums are whole.
  void AddTransposed(const RowBlock& rows, int64_t column, int columns, const Stage& stage, const float* packed_rows,
                     const float* b) {
    BlockSums sums;
    const bool updates = problem_.update.weights != nullptr;
    const bool updates_sums = updates && (pieces_.size() > 1 || problem_.rounding.grain > 0);
    TransposedRun run;
    TransposedBlock block;
    block.runs = &run;
    block.run_count = 1;
    block.a_step = packed_rows == nullptr ? problem_.transposed_step : kernels_.block_rows;
    block.fetches_ahead = packed_rows == nullptr;
    Describe(rows, column, columns, updates_sums ? &sums : nullptr, &block);
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
    if (updates_sums) Update(sums.values, rows, column, columns);
  }

  // Sets what blocks of both kernels have: their extent, and where the sums go, to the results if `sums` is nullptr.
  template <typename Block>
  void Describe(const RowBlock& rows, int64_t column, int columns, BlockSums* sums, Block* block) const {
    block->ldb = ldb_;
    block->rows = rows.rows;
    block->columns = columns;
    block->rounding = problem_.rounding;
    block->stream = streams_ && columns == kernels_.block_columns;
    if (sums == nullptr) {
      block->c = space_.c.data() + rows.first;
      block->c_offset = problem_.column_offset + column;
      return;
    }
    for (int r = 0; r < rows.rows; ++r) sums->rows[r] = sums->values + r * kMaxBlockColumns;
    block->c = sums->rows;
    block->c_offset = 0;
  }

  // The rows of a tensor that lies as the outputs do.
  const float* const* LikeResults(const float* tensor, const RowBlock& block, const float** rows) const {
    for (int r = 0; r < block.rows; ++r) rows[r] = tensor + (space_.c[block.first + r] - problem_.outputs);
    return rows;
  }

  bool AnyOutside(const RowBlock& block) const {
    bool outside = false;
    for (int r = 0; has_outside_ && r < block.rows; ++r) outside = outside || space_.outside[block.first + r] != 0;
    return outside;
  }

  // Asks for what a block will write, and for what its sums meet in the end, which else wait for memory where the
  // reduction is short.
  void FetchResults(const RowBlock& block, int64_t column) const {
    const int64_t first = problem_.column_offset + column;
    for (int r = 0; r < block.rows; ++r) {
      if (!streams_) FetchToWrite(space_.c[block.first + r] + first, kernels_.block_columns);
      if (!space_.updated.empty()) FetchToRead(space_.updated[block.first + r] + first, kernels_.block_columns);
    }
    for (const float* tensor : {problem_.epilogue.addend, problem_.epilogue.relu_output}) {
      if (tensor == nullptr) continue;
      for (int r = 0; r < block.rows; ++r) {
        FetchToRead(tensor + (Result(block, r, column) - problem_.outputs), kernels_.block_columns);
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

}  // namespace

void RunItem(const GemmProblem& problem, const Blocking& blocking, const Kernels& kernels, const float* zeros,
             int64_t index) {
  Item(problem, blocking, kernels, zeros).Run(index);
}

}  // namespace ipu_tf
