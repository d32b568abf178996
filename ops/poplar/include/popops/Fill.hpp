// One value for all elements.
#ifndef IPU_TF_POPOPS_FILL_HPP_
#define IPU_TF_POPOPS_FILL_HPP_

#include <poplar/DebugContext.hpp>
#include <poplar/Graph.hpp>
#include <poplar/Program.hpp>

namespace popops {
inline namespace ipu_tf {
namespace detail {
void Fill(poplar::Graph& graph, const poplar::Tensor& t, poplar::program::Sequence& prog,
          const poplar::detail::Values& value, const poplar::DebugContext& debugContext);
}  // namespace detail

template <typename T, poplar::detail::IfNumber<T> = 0>
void fill(poplar::Graph& graph, const poplar::Tensor& t, poplar::program::Sequence& prog, T fillValue,
          const poplar::DebugContext& debugContext = {}) {
  detail::Fill(graph, t, prog, poplar::detail::ToValues(&fillValue, 1), debugContext);
}

}  // namespace ipu_tf
}  // namespace popops

#endif  // IPU_TF_POPOPS_FILL_HPP_
