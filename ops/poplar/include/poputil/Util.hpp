// Copies of tensors.
#ifndef IPU_TF_POPUTIL_UTIL_HPP_
#define IPU_TF_POPUTIL_UTIL_HPP_

#include <poplar/DebugContext.hpp>
#include <poplar/Graph.hpp>
#include <poplar/Program.hpp>
#include <poplar/Tensor.hpp>

namespace poputil {
inline namespace ipu_tf {

// A clone of a tensor, with a Copy of the elements added to `prog`.
poplar::Tensor duplicate(poplar::Graph& graph, const poplar::Tensor& tensor, poplar::program::Sequence& prog,
                         const poplar::DebugContext& debugContext = {},
                         poplar::TensorCloneMethod method = poplar::TensorCloneMethod::PRESERVE_ORDER_UNLESS_ALIASES);

}  // namespace ipu_tf
}  // namespace poputil

#endif  // IPU_TF_POPUTIL_UTIL_HPP_
