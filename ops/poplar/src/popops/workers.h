// How popops shares a tensor out to vertices.
#ifndef IPU_TF_POPOPS_WORKERS_H_
#define IPU_TF_POPOPS_WORKERS_H_

#include <algorithm>
#include <cstdint>
#include <vector>

#include <poplar/Graph.hpp>

namespace popops {
inline namespace ipu_tf {
namespace detail {

// Issue slots of a codelet of popops, as its instructions count (instruction_counts.h): of a vertex, and of each of its
// elements. They are the perf estimates of its vertices.
struct Slots {
  std::uint64_t vertex;
  std::uint64_t element;
};

inline std::uint64_t Elements(const std::vector<poplar::Interval>& intervals) {
  std::uint64_t elements = 0;
  for (const poplar::Interval& one : intervals) elements += one.size();
  return elements;
}

inline void Estimate(poplar::Graph& graph, const poplar::VertexRef& vertex, const Slots& slots,
                     const std::vector<poplar::Interval>& part) {
  graph.setPerfEstimate(vertex, slots.vertex + slots.element * Elements(part));
}

// Calls work(tile, intervals) for each worker's share of the flattened tensor, on the tiles that hold it.
template <typename Work>
void ForWorkers(poplar::Graph& graph, const poplar::Tensor& tensor, const Work& work) {
  const auto mapping = graph.getTileMapping(tensor);
  const std::size_t workers = graph.getTarget().getNumWorkerContexts();
  for (unsigned tile = 0; tile < mapping.size(); ++tile) {
    const std::size_t share = (Elements(mapping[tile]) + workers - 1) / workers;
    std::vector<poplar::Interval> mine;
    std::size_t size = 0;
    for (poplar::Interval one : mapping[tile]) {
      while (one.size() > 0) {
        const std::size_t now = std::min(one.size(), share - size);
        mine.emplace_back(one.begin(), one.begin() + now);
        one = poplar::Interval(one.begin() + now, one.end());
        size += now;
        if (size < share) continue;
        work(tile, mine);
        mine.clear();
        size = 0;
      }
    }
    if (!mine.empty()) work(tile, mine);
  }
}

// The elements of the flattened tensor in these intervals.
inline poplar::Tensor Part(const poplar::Tensor& flat, const std::vector<poplar::Interval>& intervals) {
  return intervals.size() == 1 ? flat.slice(intervals[0]) : poplar::concat(flat.slices(intervals));
}

}  // namespace detail
}  // namespace ipu_tf
}  // namespace popops

#endif  // IPU_TF_POPOPS_WORKERS_H_
