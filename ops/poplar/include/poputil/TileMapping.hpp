// Where tensors live.
#ifndef IPU_TF_POPUTIL_TILE_MAPPING_HPP_
#define IPU_TF_POPUTIL_TILE_MAPPING_HPP_

#include <vector>

#include <poplar/ArrayRef.hpp>
#include <poplar/Graph.hpp>
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

}  // namespace ipu_tf
}  // namespace poputil

#endif  // IPU_TF_POPUTIL_TILE_MAPPING_HPP_
