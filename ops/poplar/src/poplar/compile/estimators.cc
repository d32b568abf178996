// What functions that estimate the time of vertices ask of a graph.
#include "compiled.h"

#include <string>
#include <utility>
#include <vector>

namespace poplar {
inline namespace ipu_tf {
namespace detail {
namespace {

FieldData DataOf(const GraphState& graph, const ItemsOfVertices& items, std::uint32_t vertex, const std::string& name) {
  const VertexType& type = *graph.vertex_types[graph.vertices[vertex].type];
  const std::uint32_t number = type.FieldOf(name);
  const Field& field = type.fields[number];
  const unsigned rank = field.Rank();
  std::vector<std::size_t> sizes(rank == 2 ? 0 : 1, rank == 0 ? 1 : 0);
  for (std::uint64_t i = items.first_edge[vertex]; i < items.first_edge[vertex + 1]; ++i) {
    const Edge& edge = graph.edges[items.edges[i]];
    if (edge.field != number) continue;
    const std::size_t row = rank == 2 ? static_cast<std::size_t>(edge.index) : 0;
    if (sizes.size() <= row) sizes.resize(row + 1, 0);
    sizes[row] = edge.size;
  }
  std::vector<double> floating;
  std::vector<std::int64_t> integral;
  for (std::uint64_t i = items.first_value[vertex]; i < items.first_value[vertex + 1]; ++i) {
    const FieldValue& value = graph.field_values[items.values[i]];
    if (value.field != number) continue;
    sizes.front() = value.count;
    floating.clear();
    integral.clear();
    for (std::uint64_t at = 0; at < value.count; ++at) {
      const std::uint8_t* const element = graph.field_bytes.data() + value.first_byte + at * TypeBytes(field.type);
      if (IsFloating(field.type)) {
        floating.push_back(ElementValue(element, field.type));
      } else {
        integral.push_back(ElementInteger(element, field.type));
      }
    }
  }
  return FieldData(rank, std::move(sizes), std::move(floating), std::move(integral));
}

}  // namespace

void EstimateVertices(GraphState* graph, const ItemsOfVertices& items) {
  if (graph->estimators.empty()) return;
  for (std::uint32_t v = 0; v < graph->vertices.size(); ++v) {
    Vertex& vertex = graph->vertices[v];
    if (vertex.cycles != 0) continue;
    const auto found = graph->estimators.find(vertex.type);
    if (found == graph->estimators.end()) continue;
    const VertexIntrospector introspector(
        [graph, &items, v](const std::string& field) { return DataOf(*graph, items, v, field); });
    vertex.cycles = found->second(introspector, graph->target).cycles;
  }
}

}  // namespace detail
}  // namespace ipu_tf
}  // namespace poplar
