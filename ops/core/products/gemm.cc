#include "gemm.h"

#include <algorithm>
#include <cstring>

#include "../scratch.h"
#include "gemm_blocking.h"
#include "gemm_item.h"

namespace ipu_tf {
namespace {

// So that a thread that is late holds up the others by an eighth of its share. Measured for one thread (see
// gemm_blocking.cc): 1 to 32 take equally long.
constexpr int64_t kItemsPerThread = 8;

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
    RunItem(problems[i], blockings[i], kernels, zeros.data(), index - blockings[i].first_item);
  });
}

}  // namespace ipu_tf
