// How the driver of products cuts a problem into work items, and where its packed operands are.
#ifndef IPU_TF_OPS_CORE_GEMM_BLOCKING_H_
#define IPU_TF_OPS_CORE_GEMM_BLOCKING_H_

#include <cstdint>

#include "../kernels/kernels.h"
#include "../scratch.h"
#include "gemm_problem.h"

namespace ipu_tf {

// Where an operand is read: in place; in a copy that an item makes with the products of its first block of rows; in one
// that an item makes before; in one that all items share.
enum class Packing { kDirect, kCopied, kLocal, kShared };

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

Blocking ChooseBlocking(const GemmProblem& problem, const Kernels& kernels, int64_t wanted_items);

inline int64_t Depth(const GemmProblem& problem) { return problem.taps() * problem.run; }

// Whether items of so many rows, each read where it lies, differ in their columns alone.
bool AreFewRows(int64_t rows, const Kernels& kernels);

// Whether the reduction of rows that are read in place is long enough to be summed in pieces.
bool HasLongRows(const GemmProblem& problem);

// Channels of neighbouring pieces of the reduction, at most, that are summed for all blocks before the next ones.
int64_t DepthOfStage(const GemmProblem& problem);

// Channels of a piece of the reduction at most: where rows are packed or long, no more than those of a stage.
int64_t DepthOfPiece(const GemmProblem& problem, bool packs_rows);

// A block of a chunk of rows. Rows are dealt evenly over the blocks, so that no block is left with very few.
struct RowBlock {
  int64_t first;
  int rows;

  RowBlock(int64_t index, int64_t blocks, int64_t rows_of_all)
      : first(rows_of_all * index / blocks), rows(static_cast<int>(rows_of_all * (index + 1) / blocks - first)) {}
};

// Channels of each tap.
struct Channels {
  int64_t begin, end;
};

// Packs panels from `panel` on, `panel_floats` apart.
void PackPanels(const GemmProblem& problem, const Kernels& kernels, int64_t panel, int64_t panels, const Channels& k,
                float* to, int64_t panel_floats);

}  // namespace ipu_tf

#endif  // IPU_TF_OPS_CORE_GEMM_BLOCKING_H_
