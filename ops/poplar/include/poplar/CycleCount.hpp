// Cycles of a part of a program.
#ifndef IPU_TF_POPLAR_CYCLE_COUNT_HPP_
#define IPU_TF_POPLAR_CYCLE_COUNT_HPP_

#include <poplar/DebugContext.hpp>
#include <poplar/Graph.hpp>
#include <poplar/Program.hpp>
#include <poplar/SyncType.hpp>

namespace poplar {
inline namespace ipu_tf {

// Raises poplar_error: cycles of Poplar programs are not modelled yet.
Tensor cycleCount(Graph& graph, program::Sequence& prog, unsigned tile, SyncType syncType,
                  const DebugContext& debugContext = {});
Tensor cycleCount(Graph& graph, program::Sequence& prog, unsigned tile, const DebugContext& debugContext = {});

}  // namespace ipu_tf
}  // namespace poplar

#endif  // IPU_TF_POPLAR_CYCLE_COUNT_HPP_
