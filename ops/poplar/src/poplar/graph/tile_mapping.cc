// The tiles of vertices and of elements.
#include <string>

#include <poplar/Graph.hpp>
#include <poplar/exceptions.hpp>

#include "graph_state.h"

namespace poplar {
inline namespace ipu_tf {

using detail::kUnmapped;
using detail::Run;
using detail::TensorAccess;
using detail::Variable;

void Graph::setTileMapping(VertexRef vertex, unsigned tile) {
  if (vertex.isNull()) throw poplar_error("Graph::setTileMapping: the vertex is empty.");
  state_->vertices[vertex.getId()].tile = GlobalTile(tile, "Graph::setTileMapping of a vertex");
}

void Graph::setTileMapping(const Tensor& tensor, unsigned tile) {
  detail::CheckGraph(*state_, tensor, "Graph::setTileMapping");
  const std::uint32_t global = GlobalTile(tile, "Graph::setTileMapping of a tensor");
  TensorAccess::ForRuns(tensor,
                        [&](const Run& run) { state_->variables[run.variable].Map(run.begin, run.size, global); });
}

void Graph::setTileMapping(const Tensor& tensor, const TileToTensorMapping& mapping) {
  const Tensor flat = tensor.flatten();
  for (unsigned tile = 0; tile < mapping.size(); ++tile) {
    for (const Interval& one : mapping[tile]) setTileMapping(flat.slice(one), tile);
  }
}

Graph::TileToTensorMapping Graph::getTileMapping(const Tensor& tensor, bool requireComplete) const {
  detail::CheckGraph(*state_, tensor, "Graph::getTileMapping");
  TileToTensorMapping mapping(target_.getNumTiles());
  std::vector<std::uint32_t> places(tiles_.empty() ? 0 : state_->target.getNumTiles(), kUnmapped);  // Of tiles here.
  for (std::uint32_t i = 0; i < tiles_.size(); ++i) places[tiles_[i]] = i;
  std::size_t at = 0;
  TensorAccess::ForRuns(tensor, [&](const Run& run) {
    const Variable& variable = state_->variables[run.variable];
    variable.ForTiles(run.begin, run.size, [&](std::uint64_t begin, std::uint64_t count, std::uint32_t tile) {
      const std::size_t place = at;
      at += count;
      const std::uint32_t here = tile == kUnmapped || tiles_.empty() ? tile : places[tile];
      if (here == kUnmapped) {
        if (!requireComplete) return;
        throw invalid_tile_mapping("Graph::getTileMapping: " + state_->RunText({run.variable, begin, count}) +
                                   (tile == kUnmapped ? " have no tile. Call setTileMapping first."
                                                      : " are on a tile outside of this virtual graph."));
      }
      std::vector<Interval>& of_tile = mapping[here];
      if (!of_tile.empty() && of_tile.back().end() == place) {
        of_tile.back() = Interval(of_tile.back().begin(), place + count);
      } else {
        of_tile.emplace_back(place, place + count);
      }
    });
  });
  return mapping;
}

}  // namespace ipu_tf
}  // namespace poplar
