// Loops with a counter.
#ifndef IPU_TF_POPOPS_LOOP_HPP_
#define IPU_TF_POPOPS_LOOP_HPP_

#include <functional>

#include <poplar/DebugContext.hpp>
#include <poplar/Graph.hpp>
#include <poplar/Program.hpp>
#include <poputil/VertexTemplates.hpp>

namespace popops {
inline namespace ipu_tf {

// Gets the counter, UNSIGNED_INT of the shape {1}.
using CountedLoopBodyType = std::function<poplar::program::Program(const poplar::Tensor&)>;

// The body for begin, begin + step, ... below `end`; or for all numbers below `count`.
poplar::program::Sequence countedLoop(poplar::Graph& graph, std::size_t begin, std::size_t end, std::size_t step,
                                      const CountedLoopBodyType& body, const poplar::DebugContext& debugContext = {});
poplar::program::Sequence countedLoop(poplar::Graph& graph, std::size_t count, const CountedLoopBodyType& body,
                                      const poplar::DebugContext& debugContext = {});

// Adds a step to a counter, and gives whether it differs from its limit.
poplar::Tensor addForLoopCounterVertex(poplar::Graph& graph, const poplar::Tensor& count,
                                       const poplar::Tensor& countLimit, int countStep, unsigned tile,
                                       poplar::program::Sequence& prog, const poplar::DebugContext& debugContext);
// The body while the counter, INT or UNSIGNED_INT, differs from its limit, which is read after each step.
poplar::program::Sequence countedForLoop(poplar::Graph& graph, const poplar::Tensor& count, int initialCount,
                                         const poplar::Tensor& countLimit, int countStep,
                                         const poplar::program::Program& body,
                                         const poplar::DebugContext& debugContext = {});
poplar::program::Sequence countedForLoop(poplar::Graph& graph, int initialCount, const poplar::Tensor& countLimit,
                                         int countStep, const poplar::program::Program& body,
                                         const poplar::DebugContext& debugContext = {});

}  // namespace ipu_tf
}  // namespace popops

#endif  // IPU_TF_POPOPS_LOOP_HPP_
