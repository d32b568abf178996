// Zeros.
#ifndef IPU_TF_POPOPS_ZERO_HPP_
#define IPU_TF_POPOPS_ZERO_HPP_

#include <poplar/DebugContext.hpp>
#include <poplar/Graph.hpp>
#include <poplar/Program.hpp>

namespace popops {
inline namespace ipu_tf {

void zero(poplar::Graph& graph, const poplar::Tensor& t, poplar::program::Sequence& prog,
          const poplar::DebugContext& debugContext = {});

}  // namespace ipu_tf
}  // namespace popops

#endif  // IPU_TF_POPOPS_ZERO_HPP_
