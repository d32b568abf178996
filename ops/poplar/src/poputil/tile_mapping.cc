#include <poputil/TileMapping.hpp>

#include <algorithm>
#include <string>

#include <poputil/exceptions.hpp>

#include "division.h"

namespace poputil {
inline namespace ipu_tf {
namespace {

using poplar::Graph;
using poplar::Interval;
using poplar::Tensor;
using Mapping = std::vector<std::vector<Interval>>;

// What the vendor's documentation gives as the default.
constexpr unsigned kMinBytesPerTile = 128;

// The place behind the last share.
unsigned NewOffset(const Mapping& mapping, unsigned offset) {
  const auto used = static_cast<unsigned>(
      std::count_if(mapping.begin(), mapping.end(), [](const auto& one) { return !one.empty(); }));
  return (offset + used) % static_cast<unsigned>(mapping.size());
}

}  // namespace

unsigned transformTileIndex(unsigned tile, unsigned numTiles, unsigned offset, bool ascending) {
  const unsigned place = (offset + tile) % numTiles;
  return ascending ? place : numTiles - 1 - place;
}

unsigned invTransformTileIndex(unsigned tile, unsigned numTiles, unsigned offset, bool ascending) {
  const unsigned place = ascending ? tile : numTiles - 1 - tile;
  return (place + numTiles - offset % numTiles) % numTiles;
}

Mapping calcLinearTileMapping(const poplar::Target& target, std::vector<std::size_t> shape, unsigned minElementsPerTile,
                              unsigned grainSize, unsigned offset, bool ascendingOrder) {
  const unsigned tiles = target.getNumTiles();
  std::size_t elements = 1;
  for (const std::size_t one : shape) elements *= one;
  const std::size_t grain = std::max(1u, grainSize);
  const std::size_t grains = CeilDivide(elements, grain);
  const std::size_t least = std::max<std::size_t>(1, CeilDivide(minElementsPerTile, grain));
  const std::size_t used = std::max<std::size_t>(1, std::min<std::size_t>(tiles, grains / least));
  Mapping mapping(tiles);
  for (std::size_t i = 0; i < used; ++i) {
    const std::size_t begin = std::min(elements, i * grains / used * grain);
    const std::size_t end = std::min(elements, (i + 1) * grains / used * grain);
    const unsigned tile = transformTileIndex(static_cast<unsigned>(i), tiles, offset, ascendingOrder);
    if (begin < end) mapping[tile].emplace_back(begin, end);
  }
  return mapping;
}

Mapping calcLinearTileMapping(const Graph& graph, std::vector<std::size_t> shape, unsigned minElementsPerTile,
                              unsigned grainSize, unsigned offset, bool ascendingOrder) {
  return calcLinearTileMapping(graph.getTarget(), std::move(shape), minElementsPerTile, grainSize, offset,
                               ascendingOrder);
}

Mapping calcLinearTileMapping(const poplar::Target& target, std::vector<std::size_t> shape, poplar::Type elementType,
                              unsigned offset, bool ascendingOrder) {
  const auto least = static_cast<unsigned>(CeilDivide(kMinBytesPerTile, target.getTypeSize(elementType)));
  return calcLinearTileMapping(target, std::move(shape), least, target.getVectorWidth(elementType), offset,
                               ascendingOrder);
}

Mapping calcLinearTileMapping(const Graph& graph, const Tensor& tensor, unsigned offset, bool ascendingOrder) {
  return calcLinearTileMapping(graph.getTarget(), tensor.shape(), tensor.elementType(), offset, ascendingOrder);
}

std::pair<Graph::TileToTensorMapping, unsigned> calcLinearTileMappingAndNewOffset(const Graph& graph,
                                                                                  const Tensor& tensor,
                                                                                  unsigned offset) {
  Mapping mapping = calcLinearTileMapping(graph, tensor, offset);
  const unsigned next = NewOffset(mapping, offset);
  return {std::move(mapping), next};
}

void mapTensorLinearlyWithOffset(Graph& graph, const Tensor& tensor, unsigned minElementsPerTile, unsigned grainSize,
                                 unsigned offset, bool ascendingOrder) {
  graph.setTileMapping(tensor, calcLinearTileMapping(graph.getTarget(), tensor.shape(), minElementsPerTile, grainSize,
                                                     offset, ascendingOrder));
}

void mapTensorLinearlyWithOffset(Graph& graph, const Tensor& tensor, unsigned offset, bool ascendingOrder) {
  graph.setTileMapping(tensor, calcLinearTileMapping(graph, tensor, offset, ascendingOrder));
}

void mapTensorLinearly(Graph& graph, const Tensor& tensor, unsigned minElementsPerTile, unsigned grainSize) {
  mapTensorLinearlyWithOffset(graph, tensor, minElementsPerTile, grainSize, 0);
}

void mapTensorLinearly(Graph& graph, const Tensor& tensor) { mapTensorLinearlyWithOffset(graph, tensor); }

std::size_t chooseMappingOffset(std::size_t numTiles, const std::vector<std::size_t>& shape, std::size_t seed) {
  std::size_t hash = 0xcbf29ce484222325u ^ seed;
  for (const std::size_t one : shape) hash = (hash ^ one) * 0x100000001b3u;
  return (hash ^ (hash >> 29)) % numTiles;
}

std::size_t chooseMappingOffset(std::size_t numTiles, const std::vector<std::size_t>& shape) {
  return chooseMappingOffset(numTiles, shape, 0);
}

Tensor cloneToIpu(Graph& graph, const Tensor& tensor, unsigned dstIpu, const poplar::DebugContext& debugContext,
                  poplar::TensorCloneMethod method) {
  const poplar::Target& target = graph.getTarget();
  if (dstIpu >= target.getNumIPUs()) {
    throw poplibs_error("poputil::cloneToIpu: the graph has IPUs 0 to " + std::to_string(target.getNumIPUs() - 1) +
                        ". Received: " + std::to_string(dstIpu) + ".");
  }
  const Tensor clone = graph.clone(tensor, debugContext, method);
  const Tensor flat = clone.flatten();
  const Mapping mapping = graph.getTileMapping(tensor);
  const unsigned tiles = target.getTilesPerIPU();
  for (unsigned tile = 0; tile < mapping.size(); ++tile) {
    for (const Interval& one : mapping[tile]) graph.setTileMapping(flat.slice(one), dstIpu * tiles + tile % tiles);
  }
  return clone;
}

Tensor cloneToGraph(Graph& srcGraph, Graph& dstGraph, const Tensor& tensor, const poplar::DebugContext& debugContext,
                    poplar::TensorCloneMethod method) {
  const Mapping mapping = srcGraph.getTileMapping(tensor);
  const Tensor clone = srcGraph.clone(tensor, debugContext, method);
  const Tensor flat = clone.flatten();
  for (unsigned tile = 0; tile < mapping.size(); ++tile) {
    if (mapping[tile].empty()) continue;
    if (tile >= dstGraph.getTarget().getNumTiles()) {
      throw poplibs_error("poputil::cloneToGraph: the tensor is on tile " + std::to_string(tile) +
                          ", but the other graph has " + std::to_string(dstGraph.getTarget().getNumTiles()) +
                          " tiles. Use a graph of more tiles.");
    }
    for (const Interval& one : mapping[tile]) dstGraph.setTileMapping(flat.slice(one), tile);
  }
  return clone;
}

std::pair<Tensor, unsigned> cloneAndExpandAliasing(Graph& graph, const Tensor& tensor, unsigned offset,
                                                   const poplar::DebugContext& debugContext) {
  if (!tensor.containsAliases()) return {graph.clone(tensor, debugContext), offset};
  const Tensor clone = graph.addVariable(tensor.elementType(), tensor.shape(), debugContext);
  const auto [mapping, next] = calcLinearTileMappingAndNewOffset(graph, clone, offset);
  graph.setTileMapping(clone, mapping);
  return {clone, next};
}

Tensor createIpuCopy(Graph& graph, const Tensor& tensor, unsigned dstIpu, Tensor& copySrc, Tensor& copyDst,
                     const poplar::DebugContext& debugContext, poplar::TensorCloneMethod method) {
  copySrc = tensor;
  copyDst = cloneToIpu(graph, tensor, dstIpu, debugContext, method);
  return copyDst;
}

Tensor copyToIpu(Graph& graph, const Tensor& tensor, poplar::program::Sequence& prog, unsigned dstIpu,
                 const poplar::DebugContext& debugContext, poplar::TensorCloneMethod method) {
  const Tensor clone = cloneToIpu(graph, tensor, dstIpu, debugContext, method);
  prog.add(poplar::program::Copy(tensor, clone));
  return clone;
}

}  // namespace ipu_tf
}  // namespace poputil
