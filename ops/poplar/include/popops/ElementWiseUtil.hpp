// Tensors for results.
#ifndef IPU_TF_POPOPS_ELEMENT_WISE_UTIL_HPP_
#define IPU_TF_POPOPS_ELEMENT_WISE_UTIL_HPP_

#include <vector>

#include <poplar/DebugContext.hpp>
#include <poplar/Graph.hpp>
#include <popops/ElementWise.hpp>

namespace popops {
inline namespace ipu_tf {

// A new tensor of the shape that the inputs broadcast to, mapped as the first of them that has it; linearly if none
// has.
poplar::Tensor createOutputForElementWiseOp(poplar::Graph& graph, const std::vector<poplar::Tensor>& inputs,
                                            const poplar::Type& outputType,
                                            const poplar::DebugContext& debugContext = {});

}  // namespace ipu_tf
}  // namespace popops

#endif  // IPU_TF_POPOPS_ELEMENT_WISE_UTIL_HPP_
