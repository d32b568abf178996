// Graphs of a target, of its replicas, and of some of its tiles.
#include <poplar/Graph.hpp>

#include <numeric>
#include <set>
#include <string>
#include <utility>

#include <poplar/exceptions.hpp>

#include "graph_state.h"

namespace poplar {
inline namespace ipu_tf {

using detail::GraphState;

Target Graph::WithTiles(Target target, unsigned ipus, unsigned tiles_per_ipu) {
  target.num_ipus_ = ipus;
  target.tiles_per_ipu_ = tiles_per_ipu;
  return target;
}

Graph::Graph(const Target& target, replication_factor replicas)
    : state_(std::make_shared<GraphState>(target)), target_(target) {
  const unsigned ipus = target.getNumIPUs();
  const unsigned tiles = target.getTilesPerIPU();
  const unsigned count = replicas.count();
  if (ipus == 0) throw poplar_error("Graph: the target is empty. Take that of a device.");
  if (count != 0 && ipus % count == 0) {
    target_ = WithTiles(target, ipus / count, tiles);
  } else if (count != 0 && count % ipus == 0 && tiles % (count / ipus) == 0) {
    target_ = WithTiles(target, 1, tiles / (count / ipus));
  } else {
    throw graph_replication_error("Graph: replicas have whole IPUs, or equal parts of one, but the target has " +
                                  std::to_string(ipus) + " of " + std::to_string(tiles) +
                                  " tiles. Received: replication_factor(" + std::to_string(count) + ").");
  }
  state_->target = target_;
  state_->replicas = count;
}

Graph::Graph(const Device& device, replication_factor replicas) : Graph(device.getTarget(), replicas) {}
Graph::Graph(std::shared_ptr<GraphState> state) : state_(std::move(state)), target_(state_->target) {}
Graph::Graph(Graph&&) noexcept = default;
Graph& Graph::operator=(Graph&&) noexcept = default;
Graph::~Graph() = default;

const Target& Graph::getTarget() const { return target_; }
unsigned Graph::getReplicationFactor() const { return state_->replicas; }

Graph Graph::createVirtualGraph(unsigned lowerTile, unsigned upperTile) {
  if (lowerTile >= upperTile || upperTile > target_.getNumTiles()) {
    throw poplar_error("Graph::createVirtualGraph: this graph has tiles 0 to " +
                       std::to_string(target_.getNumTiles() - 1) + ". Received: from " + std::to_string(lowerTile) +
                       " to " + std::to_string(upperTile) + ".");
  }
  std::vector<unsigned> tiles(upperTile - lowerTile);
  std::iota(tiles.begin(), tiles.end(), lowerTile);
  return createVirtualGraph(tiles);
}

Graph Graph::createVirtualGraph(const std::vector<unsigned>& tiles) {
  if (tiles.empty()) throw poplar_error("Graph::createVirtualGraph: at least one tile is needed. Received: none.");
  if (std::set<unsigned>(tiles.begin(), tiles.end()).size() != tiles.size()) {
    throw poplar_error("Graph::createVirtualGraph: a tile is in the list more than once. Name each once.");
  }
  Graph graph(state_);
  for (const unsigned tile : tiles) graph.tiles_.push_back(GlobalTile(tile, "Graph::createVirtualGraph"));
  // As many IPUs as it has tiles of, if it has as many of each, IPU by IPU.
  const auto ipu = [&](std::size_t place) { return graph.tiles_[place] / state_->target.getTilesPerIPU(); };
  std::set<std::uint32_t> ipus;
  for (std::size_t i = 0; i < tiles.size(); ++i) ipus.insert(ipu(i));
  const std::size_t each = tiles.size() / ipus.size();
  bool are_equal = each * ipus.size() == tiles.size();
  for (std::size_t i = 0; are_equal && i < tiles.size(); ++i) are_equal = ipu(i) == ipu(i / each * each);
  graph.target_ = are_equal ? WithTiles(target_, static_cast<unsigned>(ipus.size()), static_cast<unsigned>(each))
                            : WithTiles(target_, 1, static_cast<unsigned>(tiles.size()));
  return graph;
}

Graph Graph::getTopLevelGraph() { return Graph(state_); }

std::uint32_t Graph::GlobalTile(unsigned tile, const char* what) const {
  if (tile >= target_.getNumTiles()) {
    throw invalid_tile_mapping(std::string(what) + ": there are tiles 0 to " +
                               std::to_string(target_.getNumTiles() - 1) + ". Received: " + std::to_string(tile) + ".");
  }
  return tiles_.empty() ? tile : tiles_[tile];
}

}  // namespace ipu_tf
}  // namespace poplar
