#include <poplar/CycleCount.hpp>

#include "program_node.h"

namespace poplar {
inline namespace ipu_tf {
namespace {

class Counted : public program::Program {
 public:
  explicit Counted(std::shared_ptr<detail::ProgramNode> node) : Program(std::move(node)) {}
};

// The result, mapped to its tile.
Tensor Result(Graph* graph, unsigned tile, const DebugContext& context) {
  const Tensor result = graph->addVariable(UNSIGNED_INT, {2}, context);
  graph->setTileMapping(result, tile);
  return result;
}

Counted Node(const Tensor& result) {
  auto node = std::make_shared<detail::ProgramNode>(detail::ProgramKind::kCycleCount);
  node->first = result;
  return Counted(std::move(node));
}

}  // namespace

Tensor cycleCount(Graph& graph, program::Sequence& prog, unsigned tile, SyncType, const DebugContext& debugContext) {
  const Tensor result = Result(&graph, tile, debugContext);
  auto node = std::make_shared<detail::ProgramNode>(detail::ProgramKind::kCycleCount);
  node->first = result;
  node->children = {detail::ProgramAccess::NodeOf(prog)};
  prog = program::Sequence();
  prog.add(Counted(std::move(node)));
  return result;
}

Tensor cycleCount(Graph& graph, program::Sequence& prog, unsigned tile, const DebugContext& debugContext) {
  return cycleCount(graph, prog, tile, SyncType::INTERNAL, debugContext);
}

Tensor cycleStamp(Graph& graph, program::Sequence& prog, unsigned tile, SyncType, const DebugContext& debugContext) {
  const Tensor result = Result(&graph, tile, debugContext);
  prog.add(Node(result));
  return result;
}

Tensor cycleStamp(Graph& graph, program::Sequence& prog, unsigned tile, const DebugContext& debugContext) {
  return cycleStamp(graph, prog, tile, SyncType::INTERNAL, debugContext);
}

}  // namespace ipu_tf
}  // namespace poplar
