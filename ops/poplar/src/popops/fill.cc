#include <popops/Fill.hpp>

#include <popops/Zero.hpp>
#include <poputil/VertexTemplates.hpp>

#include "library.h"

namespace popops {
inline namespace ipu_tf {

using poplar::Graph;
using poplar::Interval;
using poplar::Tensor;
using Mapping = std::vector<std::vector<Interval>>;

namespace detail {

void Fill(Graph& graph, const Tensor& t, const Mapping& mapping, poplar::ComputeSet set,
          const poplar::detail::Values& value) {
  const std::string type = poputil::templateVertex("popops::Fill", t.elementType());
  AddFile(&graph, "popops.cpp", type);
  const Tensor flat = t.flatten();
  ForTiles(&graph, set, type, mapping, [&](const poplar::VertexRef& vertex, const std::vector<Interval>& part) {
    graph.connect(vertex["out"], PartOf(flat, part));
    if (value.are_floating) {
      graph.setInitialValue(vertex["value"], value.floating[0]);
    } else {
      graph.setInitialValue(vertex["value"], value.integral[0]);
    }
  });
}

void Fill(Graph& graph, const Tensor& t, const std::vector<Interval>& regions, unsigned tile, poplar::ComputeSet set,
          const poplar::detail::Values& value) {
  Mapping mapping(tile + 1);
  mapping[tile] = regions;
  Fill(graph, t, mapping, set, value);
}

void Fill(Graph& graph, const Tensor& t, poplar::program::Sequence& prog, const poplar::detail::Values& value,
          const poplar::DebugContext& debugContext) {
  const poplar::ComputeSet set = graph.addComputeSet(poplar::DebugContext(debugContext, "fill"));
  Fill(graph, t, graph.getTileMapping(t), set, value);
  prog.add(poplar::program::Execute(set));
}

}  // namespace detail

void zero(Graph& graph, const Tensor& t, poplar::program::Sequence& prog, const poplar::DebugContext& debugContext) {
  fill(graph, t, prog, 0, debugContext);
}
void zero(Graph& graph, Tensor t, const std::vector<Interval>& tileRegions, unsigned tile, poplar::ComputeSet zeroCS) {
  fill(graph, t, tileRegions, tile, zeroCS, 0);
}
void zero(Graph& graph, const Tensor& t, unsigned tile, poplar::ComputeSet zeroCS) { fill(graph, t, tile, zeroCS, 0); }
void zero(Graph& graph, const Tensor& t, const Mapping& mapping, poplar::ComputeSet zeroCS) {
  fill(graph, t, mapping, zeroCS, 0);
}

}  // namespace ipu_tf
}  // namespace popops
