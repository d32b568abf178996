// Where tensors live.
#ifndef IPU_TF_POPUTIL_TILE_MAPPING_HPP_
#define IPU_TF_POPUTIL_TILE_MAPPING_HPP_

#include <memory>
#include <utility>
#include <vector>

#include <poplar/ArrayRef.hpp>
#include <poplar/DebugContext.hpp>
#include <poplar/Graph.hpp>
#include <poplar/Program.hpp>
#include <poplar/Tensor.hpp>

namespace poputil {
inline namespace ipu_tf {

// Equal shares of a tensor, in order, one for each tile: whole grains, and no less than `minElementsPerTile`. The first
// share is on tile `offset`; in descending order, on tile `offset` from the last.
std::vector<std::vector<poplar::Interval>> calcLinearTileMapping(const poplar::Graph& graph,
                                                                 std::vector<std::size_t> shape,
                                                                 unsigned minElementsPerTile, unsigned grainSize,
                                                                 unsigned offset = 0, bool ascendingOrder = true);
std::vector<std::vector<poplar::Interval>> calcLinearTileMapping(const poplar::Target& target,
                                                                 std::vector<std::size_t> shape,
                                                                 unsigned minElementsPerTile, unsigned grainSize,
                                                                 unsigned offset = 0, bool ascendingOrder = true);
// With at least 128 bytes for each tile, in grains of the vector width of the type.
std::vector<std::vector<poplar::Interval>> calcLinearTileMapping(const poplar::Graph& graph,
                                                                 const poplar::Tensor& tensor, unsigned offset = 0,
                                                                 bool ascendingOrder = true);
std::vector<std::vector<poplar::Interval>> calcLinearTileMapping(const poplar::Target& target,
                                                                 std::vector<std::size_t> shape,
                                                                 poplar::Type elementType, unsigned offset = 0,
                                                                 bool ascendingOrder = true);
// With the tile behind the last share, where the next tensor may begin.
std::pair<poplar::Graph::TileToTensorMapping, unsigned> calcLinearTileMappingAndNewOffset(const poplar::Graph& graph,
                                                                                          const poplar::Tensor& tensor,
                                                                                          unsigned offset = 0);
void mapTensorLinearly(poplar::Graph& graph, const poplar::Tensor& tensor, unsigned minElementsPerTile,
                       unsigned grainSize);
void mapTensorLinearly(poplar::Graph& graph, const poplar::Tensor& tensor);
void mapTensorLinearlyWithOffset(poplar::Graph& graph, const poplar::Tensor& tensor, unsigned minElementsPerTile,
                                 unsigned grainSize, unsigned offset, bool ascendingOrder = true);
void mapTensorLinearlyWithOffset(poplar::Graph& graph, const poplar::Tensor& tensor, unsigned offset = 0,
                                 bool ascendingOrder = true);

// An offset below `numTiles` that depends on the shape alone, so that tensors of other shapes begin elsewhere.
std::size_t chooseMappingOffset(std::size_t numTiles, const std::vector<std::size_t>& shape);
std::size_t chooseMappingOffset(std::size_t numTiles, const std::vector<std::size_t>& shape, std::size_t seed);
// Elements of the fullest tile beyond an equal share.
unsigned getTileImbalance(const poplar::Graph::TileToTensorMapping& mapping, unsigned minElementsPerTile = 0,
                          unsigned grainSize = 1);
unsigned getTileImbalance(const poplar::Graph& graph, const poplar::Tensor& tensor, unsigned minElementsPerTile = 0,
                          unsigned grainSize = 1);
// The tile of the place `tile` in a mapping that begins at an offset, and back.
unsigned transformTileIndex(unsigned tile, unsigned numTiles, unsigned offset, bool ascending);
unsigned invTransformTileIndex(unsigned tile, unsigned numTiles, unsigned offset, bool ascending);

class TensorUseTrackerState;

// Collects which tiles use which elements, and spreads each element's neighbours over the tiles that use them.
class TensorUseTracker {
 public:
  enum class MappingMethod { OptimizeHaloRegions, ConstrainMappingToUsedTiles, None };

  explicit TensorUseTracker(unsigned numTiles, unsigned startTile = 0, bool ascendingMappingOrder = true);
  TensorUseTracker(const TensorUseTracker& other);
  TensorUseTracker(TensorUseTracker&& other) noexcept;
  TensorUseTracker& operator=(const TensorUseTracker& other);
  TensorUseTracker& operator=(TensorUseTracker&& other) noexcept;
  ~TensorUseTracker();

  void add(const poplar::Graph& graph, unsigned tile, const poplar::Tensor& tensor);
  void add(TensorUseTracker other);
  // Only elements that some tile uses are mapped: `extendPartialUsage` raises poplibs_error. Each of the methods gives
  // the elements to tiles that use them.
  void mapTensorsByUse(poplar::Graph& graph, unsigned grainSize, unsigned minElementsPerTile,
                       bool extendPartialUsage = false, MappingMethod mappingMethod = MappingMethod::None);
  bool empty() const;

 private:
  std::unique_ptr<TensorUseTrackerState> state_;
};

// A clone of a tensor on IPU `dstIpu`: each element on the tile of the same place in its IPU. The graph is that of all
// IPUs. Raises poplibs_error if there is no such IPU.
poplar::Tensor cloneToIpu(poplar::Graph& graph, const poplar::Tensor& tensor, unsigned dstIpu,
                          const poplar::DebugContext& debugContext = {},
                          poplar::TensorCloneMethod method = poplar::TensorCloneMethod::PRESERVE_ORDER_UNLESS_ALIASES);
// A clone in another graph of the same device: each element on the tile of the same number there.
poplar::Tensor cloneToGraph(
    poplar::Graph& srcGraph, poplar::Graph& dstGraph, const poplar::Tensor& tensor,
    const poplar::DebugContext& debugContext = {},
    poplar::TensorCloneMethod method = poplar::TensorCloneMethod::PRESERVE_ORDER_UNLESS_ALIASES);
// A clone in which each element is there once; if the tensor has elements twice it is mapped linearly from tile
// `offset`. With the tile behind its last.
std::pair<poplar::Tensor, unsigned> cloneAndExpandAliasing(poplar::Graph& graph, const poplar::Tensor& tensor,
                                                           unsigned offset = 0,
                                                           const poplar::DebugContext& debugContext = {});
// cloneToIpu, with a Copy of the elements added to `prog`.
poplar::Tensor copyToIpu(poplar::Graph& graph, const poplar::Tensor& tensor, poplar::program::Sequence& prog,
                         unsigned dstIpu, const poplar::DebugContext& debugContext = {},
                         poplar::TensorCloneMethod method = poplar::TensorCloneMethod::PRESERVE_ORDER_UNLESS_ALIASES);
// The same, with both sides of that Copy in place of it.
poplar::Tensor createIpuCopy(poplar::Graph& graph, const poplar::Tensor& tensor, unsigned dstIpu,
                             poplar::Tensor& copySrc, poplar::Tensor& copyDst,
                             const poplar::DebugContext& debugContext = {},
                             poplar::TensorCloneMethod method = poplar::TensorCloneMethod::PRESERVE_ORDER_AND_ALIASES);

// Whether some line along the dimension lies on several tiles, or on several IPUs.
bool dimIsSplitOverTiles(const poplar::Graph& graph, const poplar::Tensor& tensor, unsigned dimension);
bool dimIsSplitOverIPUs(const poplar::Graph& graph, const poplar::Tensor& tensor, unsigned dimension);
// A list with an element for each place along a dimension of `fullTensor`, on tiles that hold elements of that place.
// Dithering has no effect: the list is spread over these tiles anyway.
poplar::Tensor createBroadcastOperand(poplar::Graph& graph, const poplar::Tensor& fullTensor, const poplar::Type& type,
                                      unsigned dim, bool ditherMapping = false,
                                      const poplar::DebugContext& debugContext = {});

}  // namespace ipu_tf
}  // namespace poputil

#endif  // IPU_TF_POPUTIL_TILE_MAPPING_HPP_
