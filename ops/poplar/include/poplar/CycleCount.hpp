// Cycles of a part of a program.
#ifndef IPU_TF_POPLAR_CYCLE_COUNT_HPP_
#define IPU_TF_POPLAR_CYCLE_COUNT_HPP_

#include <vector>

#include <poplar/DebugContext.hpp>
#include <poplar/Graph.hpp>
#include <poplar/Program.hpp>
#include <poplar/SyncType.hpp>

namespace poplar {
inline namespace ipu_tf {

// Returns UNSIGNED_INT[2] on `tile`: the cycles that what `prog` holds takes on the machine, low word first. Counts all
// tiles: the machine's model has no clock of a single one.
Tensor cycleCount(Graph& graph, program::Sequence& prog, unsigned tile, SyncType syncType,
                  const DebugContext& debugContext = {});
Tensor cycleCount(Graph& graph, program::Sequence& prog, unsigned tile, const DebugContext& debugContext = {});

// The same for all cycles since the engine was made, when the program comes to the end of what `prog` holds.
Tensor cycleStamp(Graph& graph, program::Sequence& prog, unsigned tile, SyncType syncType,
                  const DebugContext& debugContext = {});
Tensor cycleStamp(Graph& graph, program::Sequence& prog, unsigned tile, const DebugContext& debugContext = {});
// The same on each of the tiles; their clocks agree.
std::vector<Tensor> cycleStamp(Graph& graph, program::Sequence& prog, const std::vector<unsigned>& tiles,
                               SyncType syncType, const DebugContext& debugContext = {});

}  // namespace ipu_tf
}  // namespace poplar

#endif  // IPU_TF_POPLAR_CYCLE_COUNT_HPP_
