// Where tensors live.
#ifndef IPU_TF_POPUTIL_TILE_MAPPING_HPP_
#define IPU_TF_POPUTIL_TILE_MAPPING_HPP_

#include <vector>

#include <poplar/ArrayRef.hpp>
#include <poplar/DebugContext.hpp>
#include <poplar/Graph.hpp>
#include <poplar/Program.hpp>
#include <poplar/Tensor.hpp>

namespace poputil {
inline namespace ipu_tf {

// Equal shares of a tensor, in order, one for each tile: whole grains, and no less than `minElementsPerTile`.
std::vector<std::vector<poplar::Interval>> calcLinearTileMapping(const poplar::Graph& graph,
                                                                 poplar::ArrayRef<std::size_t> shape,
                                                                 unsigned minElementsPerTile, unsigned grainSize);
// With at least 128 bytes for each tile, in grains of the vector width of the type.
std::vector<std::vector<poplar::Interval>> calcLinearTileMapping(const poplar::Graph& graph,
                                                                 const poplar::Tensor& tensor);
void mapTensorLinearly(poplar::Graph& graph, const poplar::Tensor& tensor, unsigned minElementsPerTile,
                       unsigned grainSize);
void mapTensorLinearly(poplar::Graph& graph, const poplar::Tensor& tensor);

// A clone of a tensor on IPU `dstIpu`: each element on the tile of the same place in its IPU. The graph is that of all
// IPUs. Raises poplibs_error if there is no such IPU.
poplar::Tensor cloneToIpu(poplar::Graph& graph, const poplar::Tensor& tensor, unsigned dstIpu,
                          const poplar::DebugContext& debugContext = {},
                          poplar::TensorCloneMethod method = poplar::TensorCloneMethod::PRESERVE_ORDER_UNLESS_ALIASES);
// The same, with a Copy of the elements added to `prog`.
poplar::Tensor copyToIpu(poplar::Graph& graph, const poplar::Tensor& tensor, poplar::program::Sequence& prog,
                         unsigned dstIpu, const poplar::DebugContext& debugContext = {},
                         poplar::TensorCloneMethod method = poplar::TensorCloneMethod::PRESERVE_ORDER_UNLESS_ALIASES);
// The same, with both sides of that Copy in place of it.
poplar::Tensor createIpuCopy(poplar::Graph& graph, const poplar::Tensor& tensor, unsigned dstIpu,
                             poplar::Tensor& copySrc, poplar::Tensor& copyDst,
                             const poplar::DebugContext& debugContext = {},
                             poplar::TensorCloneMethod method = poplar::TensorCloneMethod::PRESERVE_ORDER_AND_ALIASES);

}  // namespace ipu_tf
}  // namespace poputil

#endif  // IPU_TF_POPUTIL_TILE_MAPPING_HPP_
