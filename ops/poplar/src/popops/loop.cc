#include <popops/Loop.hpp>

#include <string>

#include <popops/ElementWise.hpp>
#include <poputil/exceptions.hpp>

namespace popops {
inline namespace ipu_tf {
namespace {

using poplar::DebugContext;
using poplar::Graph;
using poplar::Tensor;
using poplar::program::Copy;
using poplar::program::Program;
using poplar::program::Sequence;

Tensor Constant(Graph* graph, const poplar::Type& type, const std::vector<std::size_t>& shape, std::int64_t value,
                unsigned tile, const DebugContext& context) {
  const Tensor constant = graph->addConstant(type, shape, value, context);
  graph->setTileMapping(constant, tile);
  return constant;
}

unsigned TileOf(const Graph& graph, const Tensor& one) {
  const auto mapping = graph.getTileMapping(one);
  for (unsigned tile = 0; tile < mapping.size(); ++tile) {
    if (!mapping[tile].empty()) return tile;
  }
  return 0;
}

void CheckCounter(const Tensor& count, const Tensor& limit) {
  const poplar::Type type = count.elementType();
  const bool is_integer = type == poplar::INT || type == poplar::UNSIGNED_INT;
  if (is_integer && limit.elementType() == type && count.numElements() == 1 && limit.numElements() == 1) return;
  throw poputil::poplibs_error(
      "popops::countedForLoop: counter and limit are scalars, both of INT or both of UNSIGNED_INT. Received: " +
      type.toString() + " " + count.shapeToString() + " and " + limit.elementType().toString() + " " +
      limit.shapeToString() + ".");
}

}  // namespace

Sequence countedLoop(Graph& graph, std::size_t begin, std::size_t end, std::size_t step,
                     const CountedLoopBodyType& body, const DebugContext& debugContext) {
  if (step == 0) throw poputil::poplibs_error("popops::countedLoop: the step must be positive. Received: 0.");
  const Tensor count = graph.addVariable(poplar::UNSIGNED_INT, {1}, DebugContext(debugContext, "count"));
  graph.setTileMapping(count, 0);
  const auto first = static_cast<std::int64_t>(begin);
  Sequence prog;
  prog.add(Copy(Constant(&graph, poplar::UNSIGNED_INT, {1}, first, 0, DebugContext(debugContext, "begin")), count));
  Sequence one_pass;
  one_pass.add(body(count));
  addInPlace(graph, count, static_cast<unsigned>(step), one_pass, debugContext);
  const std::size_t passes = begin < end ? (end - begin + step - 1) / step : 0;
  prog.add(poplar::program::Repeat(static_cast<unsigned>(passes), one_pass));
  return prog;
}

Sequence countedLoop(Graph& graph, std::size_t count, const CountedLoopBodyType& body,
                     const DebugContext& debugContext) {
  return countedLoop(graph, 0, count, 1, body, debugContext);
}

Tensor addForLoopCounterVertex(Graph& graph, const Tensor& count, const Tensor& countLimit, int countStep,
                               unsigned tile, Sequence& prog, const DebugContext& debugContext) {
  const Tensor one = count.flatten();
  const Tensor step = Constant(&graph, count.elementType(), {1}, countStep, tile, DebugContext(debugContext, "step"));
  addInPlace(graph, one, step, prog, debugContext);
  const Tensor differs = graph.addVariable(poplar::BOOL, {1}, DebugContext(debugContext, "differs"));
  graph.setTileMapping(differs, tile);
  neqWithOutput(graph, one, countLimit.flatten(), differs, prog, debugContext);
  return differs.reshape({});
}

Sequence countedForLoop(Graph& graph, const Tensor& count, int initialCount, const Tensor& countLimit, int countStep,
                        const Program& body, const DebugContext& debugContext) {
  CheckCounter(count, countLimit);
  const unsigned tile = TileOf(graph, count);
  const Tensor before =
      Constant(&graph, count.elementType(), count.shape(), static_cast<std::int64_t>(initialCount) - countStep, tile,
               DebugContext(debugContext, "before"));
  Sequence prog;
  prog.add(Copy(before, count));
  Sequence cond;
  const Tensor differs = addForLoopCounterVertex(graph, count, countLimit, countStep, tile, cond, debugContext);
  prog.add(poplar::program::RepeatWhileTrue(cond, differs, body));
  return prog;
}

Sequence countedForLoop(Graph& graph, int initialCount, const Tensor& countLimit, int countStep, const Program& body,
                        const DebugContext& debugContext) {
  const Tensor count = graph.addVariable(countLimit.elementType(), {}, DebugContext(debugContext, "count"));
  graph.setTileMapping(count, 0);
  return countedForLoop(graph, count, initialCount, countLimit, countStep, body, debugContext);
}

}  // namespace ipu_tf
}  // namespace popops
