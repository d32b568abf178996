// Mappings by the tiles that use elements.
#include <poputil/TileMapping.hpp>

#include <algorithm>
#include <map>
#include <set>

#include <poputil/Util.hpp>
#include <poputil/exceptions.hpp>

namespace poputil {
inline namespace ipu_tf {

using poplar::Interval;
using poplar::Tensor;

class TensorUseTrackerState {
 public:
  // The flattened tensors that were given, with the tile that uses each.
  std::vector<std::pair<Tensor, unsigned>> uses;
};

namespace {

// A range of a variable, as a range of a tensor that was given.
struct Range {
  std::size_t end;
  const Tensor* tensor;
  std::size_t begin_in_tensor;
  std::set<unsigned> tiles;
};

// Ranges of a variable that have the same users, by where they begin.
using Ranges = std::map<std::size_t, Range>;

void CutAt(Ranges* ranges, std::size_t place) {
  auto at = ranges->upper_bound(place);
  if (at == ranges->begin()) return;
  --at;
  if (at->first == place || at->second.end <= place) return;
  Range rest = at->second;
  rest.begin_in_tensor += place - at->first;
  at->second.end = place;
  ranges->emplace(place, std::move(rest));
}

void AddUse(Ranges* ranges, std::size_t begin, std::size_t end, const Tensor* tensor, std::size_t in_tensor,
            unsigned tile) {
  CutAt(ranges, begin);
  CutAt(ranges, end);
  while (begin < end) {
    const auto next = ranges->lower_bound(begin);
    if (next != ranges->end() && next->first == begin) {
      next->second.tiles.insert(tile);
      in_tensor += next->second.end - begin;
      begin = next->second.end;
      continue;
    }
    const std::size_t stop = next == ranges->end() ? end : std::min(end, next->first);
    ranges->emplace(begin, Range{stop, tensor, in_tensor, {tile}});
    in_tensor += stop - begin;
    begin = stop;
  }
}

// Equal shares of some ranges, which all have these users.
void MapShares(poplar::Graph* graph, const std::vector<const Range*>& ranges, const std::vector<std::size_t>& begins,
               unsigned grain, unsigned least) {
  std::vector<Tensor> parts;
  for (std::size_t i = 0; i < ranges.size(); ++i) {
    const std::size_t first = ranges[i]->begin_in_tensor;
    parts.push_back(ranges[i]->tensor->slice(first, first + ranges[i]->end - begins[i]));
  }
  const Tensor all = poplar::concat(parts);
  const std::vector<unsigned> tiles(ranges.front()->tiles.begin(), ranges.front()->tiles.end());
  const auto shares = splitRegions({Interval(0, all.numElements())}, grain, static_cast<unsigned>(tiles.size()), least);
  for (std::size_t i = 0; i < shares.size(); ++i) {
    for (const Interval& one : shares[i]) graph->setTileMapping(all.slice(one), tiles[i]);
  }
}

}  // namespace

TensorUseTracker::TensorUseTracker(unsigned, unsigned, bool) : state_(std::make_unique<TensorUseTrackerState>()) {}
TensorUseTracker::TensorUseTracker(const TensorUseTracker& other)
    : state_(std::make_unique<TensorUseTrackerState>(*other.state_)) {}
TensorUseTracker::TensorUseTracker(TensorUseTracker&& other) noexcept = default;
TensorUseTracker& TensorUseTracker::operator=(const TensorUseTracker& other) {
  if (this != &other) state_ = std::make_unique<TensorUseTrackerState>(*other.state_);
  return *this;
}
TensorUseTracker& TensorUseTracker::operator=(TensorUseTracker&& other) noexcept = default;
TensorUseTracker::~TensorUseTracker() = default;

void TensorUseTracker::add(const poplar::Graph&, unsigned tile, const Tensor& tensor) {
  state_->uses.emplace_back(tensor.flatten(), tile);
}

void TensorUseTracker::add(TensorUseTracker other) {
  state_->uses.insert(state_->uses.end(), other.state_->uses.begin(), other.state_->uses.end());
}

bool TensorUseTracker::empty() const { return state_->uses.empty(); }

void TensorUseTracker::mapTensorsByUse(poplar::Graph& graph, unsigned grainSize, unsigned minElementsPerTile,
                                       bool extendPartialUsage, MappingMethod) {
  if (extendPartialUsage) {
    throw poplibs_error(
        "TensorUseTracker::mapTensorsByUse: extendPartialUsage is not supported. Map the elements that no tile uses "
        "with Graph::setTileMapping before.");
  }
  std::map<poplar::VariableRef, Ranges> variables;
  for (const auto& [tensor, tile] : state_->uses) {
    std::size_t place = 0;
    for (const poplar::VariableInterval& one : tensor.getVarRegions()) {
      AddUse(&variables[one.var], one.interval.begin(), one.interval.end(), &tensor, place, tile);
      place += one.interval.size();
    }
  }
  for (const auto& [variable, ranges] : variables) {
    for (auto at = ranges.begin(); at != ranges.end();) {
      std::vector<const Range*> alike;
      std::vector<std::size_t> begins;
      const std::set<unsigned>& tiles = at->second.tiles;
      for (; at != ranges.end() && at->second.tiles == tiles; ++at) {
        alike.push_back(&at->second);
        begins.push_back(at->first);
      }
      MapShares(&graph, alike, begins, grainSize, minElementsPerTile);
    }
  }
}

}  // namespace ipu_tf
}  // namespace poputil
