#include <poputil/Util.hpp>

#include <numeric>

#include "division.h"

namespace poputil {
inline namespace ipu_tf {
namespace {

using poplar::Interval;
using Regions = std::vector<Interval>;

std::size_t Size(const Regions& regions) {
  return std::accumulate(regions.begin(), regions.end(), std::size_t{0},
                         [](std::size_t sum, const Interval& one) { return sum + one.size(); });
}

// How a list of sequences of regions is cut.
struct Cut {
  std::size_t grain;
  std::size_t grains_of_part;
  std::size_t most_of_region;
};

Cut CutOf(const std::vector<Regions>& sequences, unsigned grain_size, unsigned parts, unsigned least, unsigned most,
          unsigned most_of_region) {
  const std::size_t grain = std::max(1u, grain_size);
  std::size_t grains = 0;
  for (const Regions& one : sequences) grains += CeilDivide(Size(one), grain);
  std::size_t share = CeilDivide(grains, std::max(1u, parts));
  share = std::max(share, CeilDivide(least, grain));
  share = std::min<std::size_t>(share, std::max<std::size_t>(1, most / grain));
  return {grain, std::max<std::size_t>(1, share), std::max<std::size_t>(grain, most_of_region / grain * grain)};
}

// The first elements of a sequence, which loses them.
Regions Take(Regions* sequence, std::size_t elements, std::size_t most_of_region) {
  Regions taken;
  std::size_t used = 0;
  while (elements > 0 && used < sequence->size()) {
    Interval& first = (*sequence)[used];
    const std::size_t now = std::min({first.size(), elements, most_of_region});
    taken.emplace_back(first.begin(), first.begin() + now);
    first = Interval(first.begin() + now, first.end());
    elements -= now;
    if (first.size() == 0) ++used;
  }
  sequence->erase(sequence->begin(), sequence->begin() + static_cast<std::ptrdiff_t>(used));
  return taken;
}

std::vector<std::vector<Regions>> Split(std::vector<Regions> sequences, const Cut& cut) {
  std::vector<std::vector<Regions>> parts;
  std::size_t room = 0;
  for (Regions& sequence : sequences) {
    for (std::size_t left = Size(sequence); left > 0;) {
      if (room == 0) {
        parts.emplace_back();
        room = cut.grains_of_part;
      }
      const std::size_t now = std::min(left, room * cut.grain);
      parts.back().push_back(Take(&sequence, now, cut.most_of_region));
      room -= CeilDivide(now, cut.grain);
      left -= now;
    }
  }
  return parts;
}

}  // namespace

void mergeAdjacentRegions(Regions& regions) {
  Regions merged;
  for (const Interval& one : regions) {
    if (one.size() == 0) continue;
    if (!merged.empty() && merged.back().end() == one.begin()) {
      merged.back() = Interval(merged.back().begin(), one.end());
    } else {
      merged.push_back(one);
    }
  }
  regions = std::move(merged);
}

void mergeAdjacentRegions(std::vector<Regions>& mapping) {
  for (Regions& one : mapping) mergeAdjacentRegions(one);
}

Regions flattenIntervals(const std::vector<Regions>& intervals) {
  Regions flat;
  for (const Regions& one : intervals) flat.insert(flat.end(), one.begin(), one.end());
  return flat;
}

std::size_t intervalSequenceNumElements(const std::vector<Regions>& seq) {
  std::size_t elements = 0;
  for (const Regions& one : seq) elements += Size(one);
  return elements;
}

std::vector<std::vector<Regions>> splitRegions(const std::vector<Regions>& regions, unsigned grainSize,
                                               unsigned maxPartitions, unsigned minElementsPerPartition,
                                               unsigned maxElementsPerPartition, unsigned maxElementsPerRegion) {
  return Split(regions, CutOf(regions, grainSize, maxPartitions, minElementsPerPartition, maxElementsPerPartition,
                              maxElementsPerRegion));
}

std::vector<Regions> splitRegions(const Regions& regions, unsigned grainSize, unsigned maxPartitions,
                                  unsigned minElementsPerPartition, unsigned maxElementsPerPartition,
                                  unsigned maxElementsPerRegion) {
  std::vector<Regions> sequences;
  for (const Interval& one : regions) sequences.push_back({one});
  std::vector<Regions> parts;
  for (const auto& one : splitRegions(sequences, grainSize, maxPartitions, minElementsPerPartition,
                                      maxElementsPerPartition, maxElementsPerRegion)) {
    parts.push_back(flattenIntervals(one));
  }
  return parts;
}

std::vector<Regions> splitRegionsBetweenWorkers(const poplar::Target& target, const Regions& regions,
                                                unsigned grainSize, unsigned minElementsPerPartition,
                                                unsigned maxElementsPerPartition, unsigned maxElementsPerRegion) {
  return splitRegions(regions, grainSize, target.getNumWorkerContexts(), minElementsPerPartition,
                      maxElementsPerPartition, maxElementsPerRegion);
}

std::vector<std::vector<Regions>> splitRegionsBetweenWorkers(const poplar::Target& target,
                                                             const std::vector<Regions>& regions, unsigned grainSize,
                                                             unsigned minElementsPerPartition,
                                                             unsigned maxElementsPerPartition,
                                                             unsigned maxElementsPerRegion) {
  return splitRegions(regions, grainSize, target.getNumWorkerContexts(), minElementsPerPartition,
                      maxElementsPerPartition, maxElementsPerRegion);
}

Regions calculateUnshufflingIntervals(const Regions& intervals) {
  std::vector<std::pair<Interval, std::size_t>> placed;
  std::size_t place = 0;
  for (const Interval& one : intervals) {
    placed.emplace_back(one, place);
    place += one.size();
  }
  std::sort(placed.begin(), placed.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  Regions result;
  for (const auto& [one, at] : placed) result.emplace_back(at, at + one.size());
  return result;
}

}  // namespace ipu_tf
}  // namespace poputil
