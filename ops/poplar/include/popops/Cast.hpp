// Elements as another type.
#ifndef IPU_TF_POPOPS_CAST_HPP_
#define IPU_TF_POPOPS_CAST_HPP_

#include <poplar/DebugContext.hpp>
#include <poplar/Graph.hpp>
#include <poplar/Program.hpp>

namespace popops {
inline namespace ipu_tf {

// A new tensor, mapped as `src`. Integers cut fractions off; what an integer does not hold becomes the nearest that it
// holds.
poplar::Tensor cast(poplar::Graph& graph, const poplar::Tensor& src, const poplar::Type& dstType,
                    poplar::program::Sequence& prog, const poplar::DebugContext& debugContext = {});
poplar::Tensor cast(poplar::Graph& graph, poplar::Tensor src, const poplar::Type& dstType, poplar::ComputeSet cs,
                    const poplar::DebugContext& debugContext = {});
poplar::program::Program cast(poplar::Graph& graph, poplar::Tensor src, poplar::Tensor dst,
                              const poplar::DebugContext& debugContext = {});
void cast(poplar::Graph& graph, poplar::Tensor src, poplar::Tensor dst, poplar::ComputeSet cs);
void castWithOutput(poplar::Graph& graph, const poplar::Tensor& src, const poplar::Tensor& dst,
                    poplar::program::Sequence& prog, const poplar::DebugContext& debugContext = {});

}  // namespace ipu_tf
}  // namespace popops

#endif  // IPU_TF_POPOPS_CAST_HPP_
