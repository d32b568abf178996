// Sums, products and extremes along dimensions.
#ifndef IPU_TF_POPOPS_REDUCE_HPP_
#define IPU_TF_POPOPS_REDUCE_HPP_

#include <vector>

#include <poplar/DebugContext.hpp>
#include <poplar/Graph.hpp>
#include <poplar/OptionFlags.hpp>
#include <poplar/Program.hpp>
#include <popops/Operation.hpp>

namespace popops {
inline namespace ipu_tf {

struct ReduceParams {
  ReduceParams() = default;
  ReduceParams(Operation op, bool update = false) : op(op), update(update) {}

  Operation op = Operation::ADD;
  // Whether the result is added to what the output holds.
  bool update = false;
};

// One vertex for each tile's share of the results; it adds in the order of the elements, halves as float.
poplar::Tensor reduce(poplar::Graph& graph, const poplar::Tensor& in, const std::vector<std::size_t>& dims,
                      ReduceParams params, poplar::program::Sequence& prog,
                      const poplar::DebugContext& debugContext = {}, const poplar::OptionFlags& options = {});
poplar::Tensor reduce(poplar::Graph& graph, const poplar::Tensor& in, const poplar::Type& outType,
                      const std::vector<std::size_t>& dims, ReduceParams params, poplar::program::Sequence& prog,
                      const poplar::DebugContext& debugContext = {}, const poplar::OptionFlags& options = {});
poplar::Tensor reduce(poplar::Graph& graph, const poplar::Tensor& in, const std::vector<std::size_t>& dims,
                      ReduceParams params, std::vector<poplar::ComputeSet>& css,
                      const poplar::DebugContext& debugContext = {}, const poplar::OptionFlags& options = {});
void reduceWithOutput(poplar::Graph& graph, const poplar::Tensor& in, const poplar::Tensor& out,
                      const std::vector<std::size_t>& dims, ReduceParams params, poplar::program::Sequence& prog,
                      const poplar::DebugContext& debugContext = {}, const poplar::OptionFlags& options = {});
void reduceWithOutput(poplar::Graph& graph, const poplar::Tensor& in, const poplar::Tensor& out,
                      const std::vector<std::size_t>& dims, ReduceParams params, std::vector<poplar::ComputeSet>& css,
                      const poplar::DebugContext& debugContext = {}, const poplar::OptionFlags& options = {});

}  // namespace ipu_tf
}  // namespace popops

#endif  // IPU_TF_POPOPS_REDUCE_HPP_
