#include "gemm_blocking.h"

#include <algorithm>

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
// Beyond, items differ in their rows alone, so that each packs its weights once. Measured: 4 to 64 take equally long.
constexpr int64_t kManyBlocksOfRows = 16;
// Of an item, so that what it prepares pays. Measured: 1 to 8 take equally long; of two threads, 2 take 0.98 of the
// time of 4, which leave one of them idle at the end.
constexpr int64_t kFewestBlocksOfRows = 2;
// Of the reduction where rows are packed, so that rows and weights of an item stay in the cache. Measured: 256 to 1,024
// take equally long; on a Zen 5, 256 takes up to 1.1 times as long. Shorter pieces, as float16 may have, share a stage:
// those of 16 to 64 channels take 0.82 to 0.98 of the time that each takes by itself (Zen 4).
constexpr int64_t kDepthOfStage = 512;
// Rows of more channels are read in place in pieces, of which weights stay in the first cache. Measured on a Zen 5, of
// two threads: products of 512 x 3,072 x 768 take 0.93 of the time in pieces of 256, those of 80 x 30,522 x 768 take
// 0.65; in pieces of 384 to 512, 0.65 to 1. Of 768 channels, some take longer in pieces.
constexpr int64_t kLongRow = 1024;
constexpr int64_t kDepthOfLongRows = 256;
// Items of so few blocks of rows differ in their columns alone, so that no core reads what another has packed.
// Measured, of 32 to 128 rows and two threads of a Xeon: 0.75 to 0.97 of the time of items that share what is packed.
constexpr int64_t kFewBlocksOfRows = 12;
// Weights of products that cannot copy them (see CopiesWeights) are read in place by so few blocks of rows; by more,
// only if there are few weights. Measured on a Zen 5: of 24 to 48 rows, and of 60 to 72 with up to 1.6 MiB of weights,
// products take 0.8 to 0.9 of the time; beyond, up to 1.3 times as long.
constexpr int64_t kBlocksOfRowsInPlace = 4;
constexpr int64_t kMoreBlocksOfRowsInPlace = 6;
constexpr int64_t kFewWeightsBytes = int64_t{7} << 18;
// Panels that read the same rows, from which on a copy of rows that adjoin pays. Measured: of eight panels, products of
// 256 to 1,024 rows over 2,048 channels take 0.4 to 0.8 of the time.
constexpr int64_t kPanelsThatPayForRows = 4;
// A copy of all rows may take this much. A choice: as much as the activations of a large layer.
constexpr int64_t kPackedRowsBytes = int64_t{32} << 20;

bool HasFewRows(const GemmProblem& problem, const Kernels& kernels) {
  return problem.transposed_step == 0 && AreFewRows(problem.rows, kernels);
}

// Whether the first block of rows copies weights as it reads them: what packing them would wait for then passes beside
// its products. Measured on a Xeon, of 64 rows over 784 and 512 channels: 0.7 and 0.85 of the time of reading them in
// place for every block, which finds rows of 2 KiB in few sets of the first cache.
bool CopiesWeights(const GemmProblem& problem, const Kernels& kernels) {
  return HasFewRows(problem, kernels) && problem.rows > kernels.block_rows && problem.columns > kernels.block_columns &&
         problem.weights.n_stride == 1 && problem.taps() == 1 && problem.rounding.grain == 0 && !problem.skip_outside;
}

// Whether packing the weights would cost more than it gains.
bool ReadsWeightsInPlace(const GemmProblem& problem, const Kernels& kernels) {
  if (problem.weights.n_stride != 1) return false;
  const int64_t bytes = 4 * Depth(problem) * problem.columns;
  const int64_t blocks = bytes <= kFewWeightsBytes ? kMoreBlocksOfRowsInPlace : kBlocksOfRowsInPlace;
  return problem.columns <= kernels.block_columns || problem.rows <= blocks * kernels.block_rows;
}

}  // namespace

bool AreFewRows(int64_t rows, const Kernels& kernels) { return rows <= kFewBlocksOfRows * kernels.block_rows; }

bool HasLongRows(const GemmProblem& problem) {
  return problem.transposed_step == 0 && problem.taps() == 1 && problem.run > kLongRow &&
         problem.update.weights == nullptr && problem.rounding.grain == 0;
}

int64_t DepthOfStage(const GemmProblem& problem) { return HasLongRows(problem) ? kDepthOfLongRows : kDepthOfStage; }

int64_t DepthOfPiece(const GemmProblem& problem, bool packs_rows) {
  return packs_rows || HasLongRows(problem) ? std::min(problem.run, DepthOfStage(problem)) : problem.run;
}

Blocking ChooseBlocking(const GemmProblem& problem, const Kernels& kernels, int64_t wanted_items) {
  Blocking b;
  const int64_t block_rows = kernels.block_rows, block_columns = kernels.block_columns;
  b.panels = CeilDivide(problem.columns, block_columns);
  const int64_t panel_bytes = std::max<int64_t>(1, 4 * Depth(problem) * block_columns);
  const int64_t panels_in_cache = kWeightsInCacheBytes / panel_bytes;
  const bool in_groups = b.panels > panels_in_cache && panels_in_cache >= kPanelsOfGroup;
  b.rows_outer = in_groups || b.panels <= panels_in_cache;
  const bool copied = CopiesWeights(problem, kernels);
  const bool direct = !copied && ReadsWeightsInPlace(problem, kernels);
  if (!b.rows_outer || direct || HasFewRows(problem, kernels)) b.panel_groups = std::min(b.panels, wanted_items);
  if (problem.rows > kManyBlocksOfRows * block_rows && b.rows_outer) b.panel_groups = 1;
  if (in_groups) b.panel_groups = std::max(b.panel_groups, CeilDivide(b.panels, panels_in_cache));
  const bool packs_rows = problem.transposed_step > 0 && b.panels >= kPanelsThatPayForRows;
  // Then panels are not dealt to several items only so that there are as many as wanted: each would pack these rows, or
  // all would wait for them. Measured of two threads, gradients of 512 and 784 x 512 weights: 0.73 and 0.86 of the
  // time.
  const bool packs_rows_once = packs_rows && problem.rows >= problem.columns && !in_groups;
  if (packs_rows_once) b.panel_groups = 1;
  int64_t chunk = CeilDivide(problem.rows, CeilDivide(wanted_items, b.panel_groups));
  const int64_t bytes = packs_rows ? kRowsInCacheBytes : kRowsInPlaceBytes;
  if (!b.rows_outer) chunk = std::min(chunk, bytes / (4 * DepthOfPiece(problem, packs_rows)));
  // Chunks are equally long, or else the last one would pay for its weights with few rows.
  chunk = CeilDivide(problem.rows, CeilDivide(problem.rows, std::max<int64_t>(1, chunk)));
  chunk = std::max(CeilDivide(chunk, block_rows), kFewestBlocksOfRows) * block_rows;
  b.row_chunk = std::min(chunk, problem.rows);
  b.row_chunks = CeilDivide(problem.rows, b.row_chunk);
  const int64_t groups =
      packs_rows_once ? std::max<int64_t>(1, wanted_items / b.row_chunks) : CeilDivide(wanted_items, b.row_chunks);
  b.panel_group = CeilDivide(b.panels, std::min(b.panels, std::max(groups, b.panel_groups)));
  b.panel_groups = CeilDivide(b.panels, b.panel_group);
  b.packing = direct             ? Packing::kDirect
              : copied           ? Packing::kCopied
              : b.row_chunks > 1 ? Packing::kShared
                                 : Packing::kLocal;
  b.chunk_blocks = CeilDivide(b.row_chunk, block_rows);
  if (packs_rows && b.panel_groups == 1) {
    b.row_packing = Packing::kLocal;
  } else if (packs_rows && 4 * problem.rows * problem.run <= kPackedRowsBytes) {
    b.row_packing = Packing::kShared;
  }
  return b;
}

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

}  // namespace ipu_tf
