// How tensors lie on tiles, and operands that lie beside others.
#include <poputil/TileMapping.hpp>

#include <algorithm>
#include <string>

#include <poputil/Util.hpp>
#include <poputil/exceptions.hpp>

namespace poputil {
inline namespace ipu_tf {
namespace {

using poplar::Graph;
using poplar::Interval;
using poplar::Tensor;
using Mapping = std::vector<std::vector<Interval>>;

// Whether a row of so many elements has elements in two lists.
bool SplitsRows(Mapping lists, std::size_t row) {
  for (std::vector<Interval>& one : lists) {
    std::sort(one.begin(), one.end());
    mergeAdjacentRegions(one);
    for (const Interval& part : one) {
      if (part.begin() % row != 0 || part.end() % row != 0) return true;
    }
  }
  return false;
}

Mapping LinesOnTiles(const Graph& graph, const Tensor& tensor, unsigned dimension, const std::string& call) {
  if (dimension >= tensor.rank()) {
    throw poplibs_error("poputil::" + call + ": there is no dimension " + std::to_string(dimension) + " in the shape " +
                        tensor.shapeToString() + ".");
  }
  return graph.getTileMapping(tensor.dimRoll(dimension, tensor.rank() - 1));
}

}  // namespace

unsigned getTileImbalance(const Graph::TileToTensorMapping& mapping, unsigned minElementsPerTile, unsigned grainSize) {
  std::size_t total = 0;
  std::size_t most = 0;
  for (const auto& one : mapping) {
    const std::size_t size = intervalSequenceNumElements({one});
    total += size;
    most = std::max(most, size);
  }
  const std::size_t grain = std::max(1u, grainSize);
  const std::size_t share = mapping.empty() ? 0 : (total + mapping.size() - 1) / mapping.size();
  const std::size_t fair = (std::max<std::size_t>(share, minElementsPerTile) + grain - 1) / grain * grain;
  return most > fair ? static_cast<unsigned>(most - fair) : 0;
}

unsigned getTileImbalance(const Graph& graph, const Tensor& tensor, unsigned minElementsPerTile, unsigned grainSize) {
  return getTileImbalance(graph.getTileMapping(tensor), minElementsPerTile, grainSize);
}

bool dimIsSplitOverTiles(const Graph& graph, const Tensor& tensor, unsigned dimension) {
  const Mapping mapping = LinesOnTiles(graph, tensor, dimension, "dimIsSplitOverTiles");
  return tensor.numElements() > 0 && SplitsRows(mapping, tensor.dim(dimension));
}

bool dimIsSplitOverIPUs(const Graph& graph, const Tensor& tensor, unsigned dimension) {
  const Mapping mapping = LinesOnTiles(graph, tensor, dimension, "dimIsSplitOverIPUs");
  const unsigned tiles = graph.getTarget().getTilesPerIPU();
  Mapping of_ipus(graph.getTarget().getNumIPUs());
  for (std::size_t tile = 0; tile < mapping.size(); ++tile) {
    std::vector<Interval>& ipu = of_ipus[tile / tiles];
    ipu.insert(ipu.end(), mapping[tile].begin(), mapping[tile].end());
  }
  return tensor.numElements() > 0 && SplitsRows(std::move(of_ipus), tensor.dim(dimension));
}

Tensor createBroadcastOperand(Graph& graph, const Tensor& fullTensor, const poplar::Type& type, unsigned dim, bool,
                              const poplar::DebugContext& debugContext) {
  if (dim >= fullTensor.rank()) {
    throw poplibs_error("poputil::createBroadcastOperand: there is no dimension " + std::to_string(dim) +
                        " in the shape " + fullTensor.shapeToString() + ".");
  }
  const std::size_t places = fullTensor.dim(dim);
  const Tensor operand = graph.addVariable(type, {places}, debugContext);
  const Tensor lines = fullTensor.dimRoll(dim, 0);
  const std::size_t line = places == 0 ? 0 : lines.numElements() / places;
  if (line == 0) {
    mapTensorLinearly(graph, operand);
    return operand;
  }
  std::vector<std::vector<unsigned>> users(places);
  const Mapping mapping = graph.getTileMapping(lines);
  for (unsigned tile = 0; tile < mapping.size(); ++tile) {
    for (const Interval& one : mapping[tile]) {
      for (std::size_t place = one.begin() / line; place <= (one.end() - 1) / line; ++place) {
        if (users[place].empty() || users[place].back() != tile) users[place].push_back(tile);
      }
    }
  }
  // Each place goes to the tile among its users that has the fewest.
  std::vector<std::size_t> held(mapping.size(), 0);
  Mapping chosen(mapping.size());
  for (std::size_t place = 0; place < places; ++place) {
    const unsigned tile = *std::min_element(users[place].begin(), users[place].end(),
                                            [&](unsigned a, unsigned b) { return held[a] < held[b]; });
    ++held[tile];
    chosen[tile].emplace_back(place, place + 1);
  }
  mergeAdjacentRegions(chosen);
  graph.setTileMapping(operand, chosen);
  return operand;
}

}  // namespace ipu_tf
}  // namespace poputil
