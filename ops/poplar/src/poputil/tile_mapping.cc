#include <poputil/TileMapping.hpp>

#include <algorithm>
#include <string>

#include <poputil/Util.hpp>
#include <poputil/exceptions.hpp>

namespace poputil {
inline namespace ipu_tf {
namespace {

// What the vendor's documentation gives as the default.
constexpr unsigned kMinBytesPerTile = 128;

unsigned CeilDivide(std::size_t n, std::size_t d) { return static_cast<unsigned>((n + d - 1) / d); }

}  // namespace

std::vector<std::vector<poplar::Interval>> calcLinearTileMapping(const poplar::Graph& graph,
                                                                 poplar::ArrayRef<std::size_t> shape,
                                                                 unsigned minElementsPerTile, unsigned grainSize) {
  const std::size_t tiles = graph.getTarget().getNumTiles();
  std::size_t elements = 1;
  for (const std::size_t one : shape) elements *= one;
  const std::size_t grain = std::max(1u, grainSize);
  const std::size_t grains = CeilDivide(elements, grain);
  const std::size_t least = std::max<std::size_t>(1, CeilDivide(minElementsPerTile, grain));
  const std::size_t used = std::max<std::size_t>(1, std::min(tiles, grains / least));
  std::vector<std::vector<poplar::Interval>> mapping(tiles);
  for (std::size_t tile = 0; tile < used; ++tile) {
    const std::size_t begin = std::min(elements, tile * grains / used * grain);
    const std::size_t end = std::min(elements, (tile + 1) * grains / used * grain);
    if (begin < end) mapping[tile].emplace_back(begin, end);
  }
  return mapping;
}

std::vector<std::vector<poplar::Interval>> calcLinearTileMapping(const poplar::Graph& graph,
                                                                 const poplar::Tensor& tensor) {
  const poplar::Target& target = graph.getTarget();
  const auto bytes = static_cast<unsigned>(target.getTypeSize(tensor.elementType()));
  return calcLinearTileMapping(graph, tensor.shape(), CeilDivide(kMinBytesPerTile, bytes),
                               target.getVectorWidth(tensor.elementType()));
}

void mapTensorLinearly(poplar::Graph& graph, const poplar::Tensor& tensor, unsigned minElementsPerTile,
                       unsigned grainSize) {
  graph.setTileMapping(tensor, calcLinearTileMapping(graph, tensor.shape(), minElementsPerTile, grainSize));
}

void mapTensorLinearly(poplar::Graph& graph, const poplar::Tensor& tensor) {
  graph.setTileMapping(tensor, calcLinearTileMapping(graph, tensor));
}

poplar::Tensor cloneToIpu(poplar::Graph& graph, const poplar::Tensor& tensor, unsigned dstIpu,
                          const poplar::DebugContext& debugContext, poplar::TensorCloneMethod method) {
  const poplar::Target& target = graph.getTarget();
  if (dstIpu >= target.getNumIPUs()) {
    throw poplibs_error("poputil::cloneToIpu: the graph has IPUs 0 to " + std::to_string(target.getNumIPUs() - 1) +
                        ". Received: " + std::to_string(dstIpu) + ".");
  }
  const poplar::Tensor clone = graph.clone(tensor, debugContext, method);
  const poplar::Tensor flat = clone.flatten();
  const auto mapping = graph.getTileMapping(tensor);
  const unsigned tiles = target.getTilesPerIPU();
  for (unsigned tile = 0; tile < mapping.size(); ++tile) {
    for (const poplar::Interval& one : mapping[tile])
      graph.setTileMapping(flat.slice(one), dstIpu * tiles + tile % tiles);
  }
  return clone;
}

poplar::Tensor createIpuCopy(poplar::Graph& graph, const poplar::Tensor& tensor, unsigned dstIpu,
                             poplar::Tensor& copySrc, poplar::Tensor& copyDst, const poplar::DebugContext& debugContext,
                             poplar::TensorCloneMethod method) {
  copySrc = tensor;
  copyDst = cloneToIpu(graph, tensor, dstIpu, debugContext, method);
  return copyDst;
}

poplar::Tensor copyToIpu(poplar::Graph& graph, const poplar::Tensor& tensor, poplar::program::Sequence& prog,
                         unsigned dstIpu, const poplar::DebugContext& debugContext, poplar::TensorCloneMethod method) {
  const poplar::Tensor clone = cloneToIpu(graph, tensor, dstIpu, debugContext, method);
  prog.add(poplar::program::Copy(tensor, clone));
  return clone;
}

poplar::Tensor duplicate(poplar::Graph& graph, const poplar::Tensor& tensor, poplar::program::Sequence& prog,
                         const poplar::DebugContext& debugContext, poplar::TensorCloneMethod method) {
  const poplar::Tensor clone = graph.clone(tensor, debugContext, method);
  prog.add(poplar::program::Copy(tensor, clone));
  return clone;
}

}  // namespace ipu_tf
}  // namespace poputil
