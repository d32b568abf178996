// Tensors of random numbers, and dropout.
//
// With a seed, two numbers of UNSIGNED_INT, the numbers depend on it, on the modifier and on the places of the
// elements. With nullptr they come from the running generators of the tiles. The distributions are the vendor's; the
// numbers are not.
#ifndef IPU_TF_POPRAND_RANDOM_GEN_HPP_
#define IPU_TF_POPRAND_RANDOM_GEN_HPP_

#include <cstdint>

#include <poplar/DebugContext.hpp>
#include <poplar/Graph.hpp>
#include <poplar/Program.hpp>

namespace poprand {
inline namespace ipu_tf {

// In [minVal, maxVal], of FLOAT, HALF or INT. Results are mapped as `reference`.
poplar::Tensor uniform(poplar::Graph& graph, const poplar::Tensor* seed, std::uint32_t seedModifier,
                       const poplar::Tensor& reference, const poplar::Type& outType, double minVal, double maxVal,
                       poplar::program::Sequence& prog, const poplar::DebugContext& debugContext = {});
// 1 with the probability, else 0; of FLOAT, HALF or INT.
poplar::Tensor bernoulli(poplar::Graph& graph, const poplar::Tensor* seed, std::uint32_t seedModifier,
                         const poplar::Tensor& reference, const poplar::Type& outType, double prob,
                         poplar::program::Sequence& prog, const poplar::DebugContext& debugContext = {});
// Of FLOAT or HALF.
poplar::Tensor normal(poplar::Graph& graph, const poplar::Tensor* seed, std::uint32_t seedModifier,
                      const poplar::Tensor& reference, const poplar::Type& outType, double mean, double stdDev,
                      poplar::program::Sequence& prog, const poplar::DebugContext& debugContext = {});
// Within `alpha` deviations of the mean.
poplar::Tensor truncatedNormal(poplar::Graph& graph, const poplar::Tensor* seed, std::uint32_t seedModifier,
                               const poplar::Tensor& reference, const poplar::Type& outType, double mean, double stdDev,
                               double alpha, poplar::program::Sequence& prog,
                               const poplar::DebugContext& debugContext = {});
// The input times `scale` with the probability, else 0; places count along `reference`, which has the input's shape.
poplar::Tensor dropout(poplar::Graph& graph, const poplar::Tensor* seed, std::uint32_t seedModifier,
                       const poplar::Tensor& input, const poplar::Tensor& reference, double keepProbability,
                       double scale, poplar::program::Sequence& prog, const poplar::DebugContext& debugContext = {});
// Seeds the generators of all tiles.
void setSeed(poplar::Graph& graph, const poplar::Tensor& masterSeed, std::uint32_t seedModifier,
             poplar::program::Sequence& prog, const poplar::DebugContext& debugContext = {});

}  // namespace ipu_tf
}  // namespace poprand

#endif  // IPU_TF_POPRAND_RANDOM_GEN_HPP_
