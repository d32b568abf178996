// Sums, products and extremes along dimensions.
#ifndef IPU_TF_POPOPS_REDUCE_HPP_
#define IPU_TF_POPOPS_REDUCE_HPP_

#include <string>
#include <utility>
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
  // A sum, or a sum of squares, times a scalar of FLOAT.
  ReduceParams(Operation op, bool update, poplar::Tensor scale)
      : op(op), update(update), useScale(true), scale(std::move(scale)) {}
  ReduceParams(Operation op, float constantScale, bool update = false) = delete;

  Operation op = Operation::ADD;
  // Whether the result is added to what the output holds.
  bool update = false;
  bool useScale = false;
  poplar::Tensor scale;
};

// Tiles reduce what they hold, if that leaves at most half of the elements, and then the tile of each result the rest;
// halves as float. Elements go in their order, tile after tile.
poplar::Tensor reduce(poplar::Graph& graph, const poplar::Tensor& in, const std::vector<std::size_t>& dims,
                      ReduceParams params, poplar::program::Sequence& prog,
                      const poplar::DebugContext& debugContext = {}, const poplar::OptionFlags& options = {});
poplar::Tensor reduce(poplar::Graph& graph, const poplar::Tensor& in, const poplar::Type& outType,
                      const std::vector<std::size_t>& dims, ReduceParams params, poplar::program::Sequence& prog,
                      const poplar::DebugContext& debugContext = {}, const poplar::OptionFlags& options = {});
void reduceWithOutput(poplar::Graph& graph, const poplar::Tensor& in, const poplar::Tensor& out,
                      const std::vector<std::size_t>& dims, ReduceParams params, poplar::program::Sequence& prog,
                      const poplar::DebugContext& debugContext = {}, const poplar::OptionFlags& options = {});

// The same in compute sets, which the caller executes in their order: those of the list first, then new ones behind
// them. Reductions of one list run side by side.
poplar::Tensor reduce(poplar::Graph& graph, const poplar::Tensor& in, const poplar::Type& outType,
                      const std::vector<std::size_t>& dims, ReduceParams params, std::vector<poplar::ComputeSet>& css,
                      const poplar::DebugContext& debugContext = {}, const poplar::OptionFlags& options = {});
poplar::Tensor reduce(poplar::Graph& graph, const poplar::Tensor& in, const std::vector<std::size_t>& dims,
                      ReduceParams params, std::vector<poplar::ComputeSet>& css,
                      const poplar::DebugContext& debugContext = {}, const poplar::OptionFlags& options = {});
void reduceWithOutput(poplar::Graph& graph, const poplar::Tensor& in, const poplar::Tensor& out,
                      const std::vector<std::size_t>& dims, ReduceParams params, std::vector<poplar::ComputeSet>& css,
                      const poplar::DebugContext& debugContext = {}, const poplar::OptionFlags& options = {});

struct SingleReduceOp {
  SingleReduceOp(poplar::Tensor in, std::vector<std::size_t> dims, ReduceParams params, poplar::Type outType,
                 std::string debugName = "")
      : in(std::move(in)),
        dims(std::move(dims)),
        params(std::move(params)),
        useOutType(true),
        outType(outType),
        debugName(std::move(debugName)) {}
  SingleReduceOp(poplar::Tensor in, std::vector<std::size_t> dims, ReduceParams params, std::string debugName = "")
      : in(std::move(in)), dims(std::move(dims)), params(std::move(params)), debugName(std::move(debugName)) {}

  poplar::Tensor in;
  std::vector<std::size_t> dims;
  ReduceParams params;
  bool useOutType = false;
  poplar::Type outType = poplar::BOOL;
  std::string debugName;
};

// Reductions side by side. An empty list of outputs gets new tensors; another has one for each.
void reduceMany(poplar::Graph& graph, const std::vector<SingleReduceOp>& reductions,
                std::vector<poplar::Tensor>& outputs, poplar::program::Sequence& prog,
                const poplar::DebugContext& debugContext = {}, const poplar::OptionFlags& options = {});

}  // namespace ipu_tf
}  // namespace popops

#endif  // IPU_TF_POPOPS_REDUCE_HPP_
