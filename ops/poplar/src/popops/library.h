// What the functions of popops share: their codelets, and vertices for what each tile holds.
#ifndef IPU_TF_POPOPS_LIBRARY_H_
#define IPU_TF_POPOPS_LIBRARY_H_

#include <cstdint>
#include <string>
#include <vector>

#include <poplar/Graph.hpp>

namespace popops {
inline namespace ipu_tf {
namespace detail {

// The folder of the codelets' sources.
std::string CodeletFolder();
// Adds a file of codelets unless the graph has the type. Raises poplibs_error if addCodelets was not called.
void AddFile(poplar::Graph* graph, const char* file, const std::string& type);

inline bool IsFloat(const poplar::Type& type) { return type == poplar::FLOAT || type == poplar::HALF; }

inline std::uint64_t Elements(const std::vector<poplar::Interval>& intervals) {
  std::uint64_t elements = 0;
  for (const poplar::Interval& one : intervals) elements += one.size();
  return elements;
}

// What a vertex works on, in place of an estimate: the model of costs makes cycles of it, by the type of the vertex
// (ipu_tf/poplar/model/popops.py). Both numbers are below 2^31.
inline void SetWork(poplar::Graph* graph, const poplar::VertexRef& vertex, std::uint64_t count,
                    std::uint64_t second = 0) {
  graph->setPerfEstimate(vertex, second << 32 | count);
}

// The elements of the flattened tensor in these intervals.
inline poplar::Tensor PartOf(const poplar::Tensor& flat, const std::vector<poplar::Interval>& intervals) {
  return intervals.size() == 1 ? flat.slice(intervals[0]) : poplar::concat(flat.slices(intervals));
}

// Calls work(vertex, intervals) with a new vertex on each tile for the elements that it holds of a tensor.
template <typename Work>
void ForTiles(poplar::Graph* graph, poplar::ComputeSet set, const std::string& type,
              const std::vector<std::vector<poplar::Interval>>& mapping, const Work& work) {
  for (unsigned tile = 0; tile < mapping.size(); ++tile) {
    if (mapping[tile].empty()) continue;
    const poplar::VertexRef vertex = graph->addVertex(set, type);
    graph->setTileMapping(vertex, tile);
    SetWork(graph, vertex, Elements(mapping[tile]));
    work(vertex, mapping[tile]);
  }
}

}  // namespace detail
}  // namespace ipu_tf
}  // namespace popops

#endif  // IPU_TF_POPOPS_LIBRARY_H_
