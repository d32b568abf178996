// Zeros.
#ifndef IPU_TF_POPOPS_ZERO_HPP_
#define IPU_TF_POPOPS_ZERO_HPP_

#include <vector>

#include <poplar/DebugContext.hpp>
#include <poplar/Graph.hpp>
#include <poplar/Program.hpp>

namespace popops {
inline namespace ipu_tf {

// As popops::fill.
void zero(poplar::Graph& graph, const poplar::Tensor& t, poplar::program::Sequence& prog,
          const poplar::DebugContext& debugContext = {});
void zero(poplar::Graph& graph, poplar::Tensor t, const std::vector<poplar::Interval>& tileRegions, unsigned tile,
          poplar::ComputeSet zeroCS);
void zero(poplar::Graph& graph, const poplar::Tensor& t, unsigned tile, poplar::ComputeSet zeroCS);
void zero(poplar::Graph& graph, const poplar::Tensor& t, const std::vector<std::vector<poplar::Interval>>& mapping,
          poplar::ComputeSet zeroCS);

}  // namespace ipu_tf
}  // namespace popops

#endif  // IPU_TF_POPOPS_ZERO_HPP_
