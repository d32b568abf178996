// Whether all elements hold.
#ifndef IPU_TF_POPOPS_ALL_TRUE_HPP_
#define IPU_TF_POPOPS_ALL_TRUE_HPP_

#include <poplar/DebugContext.hpp>
#include <poplar/Graph.hpp>
#include <poplar/Program.hpp>

namespace popops {
inline namespace ipu_tf {

// A scalar BOOL: true if no element of `A`, of BOOL or a number, is zero.
poplar::Tensor allTrue(poplar::Graph& graph, poplar::Tensor A, poplar::program::Sequence& prog,
                       const poplar::DebugContext& debugContext = {});

}  // namespace ipu_tf
}  // namespace popops

#endif  // IPU_TF_POPOPS_ALL_TRUE_HPP_
