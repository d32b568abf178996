// One value for all elements.
#ifndef IPU_TF_POPOPS_FILL_HPP_
#define IPU_TF_POPOPS_FILL_HPP_

#include <vector>

#include <poplar/DebugContext.hpp>
#include <poplar/Graph.hpp>
#include <poplar/Program.hpp>

namespace popops {
inline namespace ipu_tf {
namespace detail {
void Fill(poplar::Graph& graph, const poplar::Tensor& t, poplar::program::Sequence& prog,
          const poplar::detail::Values& value, const poplar::DebugContext& debugContext);
void Fill(poplar::Graph& graph, const poplar::Tensor& t, const std::vector<std::vector<poplar::Interval>>& mapping,
          poplar::ComputeSet set, const poplar::detail::Values& value);
void Fill(poplar::Graph& graph, const poplar::Tensor& t, const std::vector<poplar::Interval>& regions, unsigned tile,
          poplar::ComputeSet set, const poplar::detail::Values& value);
}  // namespace detail

template <typename T, poplar::detail::IfNumber<T> = 0>
void fill(poplar::Graph& graph, const poplar::Tensor& t, poplar::program::Sequence& prog, T fillValue,
          const poplar::DebugContext& debugContext = {}) {
  detail::Fill(graph, t, prog, poplar::detail::ToValues(&fillValue, 1), debugContext);
}
// By a vertex on one tile, of some elements of the flattened tensor or of all; or by a vertex on each tile.
template <typename T, poplar::detail::IfNumber<T> = 0>
void fill(poplar::Graph& graph, poplar::Tensor t, const std::vector<poplar::Interval>& tileRegions, unsigned tile,
          poplar::ComputeSet fillCS, T fillValue) {
  detail::Fill(graph, t, tileRegions, tile, fillCS, poplar::detail::ToValues(&fillValue, 1));
}
template <typename T, poplar::detail::IfNumber<T> = 0>
void fill(poplar::Graph& graph, const poplar::Tensor& t, unsigned tile, poplar::ComputeSet fillCS, T fillValue) {
  detail::Fill(graph, t, {{0, t.numElements()}}, tile, fillCS, poplar::detail::ToValues(&fillValue, 1));
}
template <typename T, poplar::detail::IfNumber<T> = 0>
void fill(poplar::Graph& graph, const poplar::Tensor& t, const std::vector<std::vector<poplar::Interval>>& mapping,
          poplar::ComputeSet fillCS, T fillValue) {
  detail::Fill(graph, t, mapping, fillCS, poplar::detail::ToValues(&fillValue, 1));
}

}  // namespace ipu_tf
}  // namespace popops

#endif  // IPU_TF_POPOPS_FILL_HPP_
