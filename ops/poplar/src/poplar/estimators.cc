// What functions that estimate the time of vertices ask of a graph.
#include "compiled.h"

#include <limits>
#include <string>
#include <utility>
#include <vector>

#include <poplar/exceptions.hpp>

#include "graph_state.h"

namespace poplar {
inline namespace ipu_tf {
namespace detail {
namespace {

unsigned RankOf(FieldKind kind) {
  if (kind == FieldKind::kEdgeList) return 2;
  return kind == FieldKind::kValues || kind == FieldKind::kEdgeVector ? 1 : 0;
}

FieldData DataOf(const GraphState& graph, const ItemsOfVertices& items, std::uint32_t vertex, const std::string& name) {
  const VertexType& type = *graph.vertex_types[graph.vertices[vertex].type];
  const std::uint32_t number = type.FieldOf(name);
  const Field& field = type.fields[number];
  const unsigned rank = RankOf(field.kind);
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

void Graph::registerPerfEstimator(StringRef vertexType, PerfEstimateFunc estimator) {
  state_->estimators[TypeNumber("registerPerfEstimator", vertexType)] = std::move(estimator);
}

double Graph::getMaxVertexFieldValue(StringRef vertexType, StringRef field) const {
  const detail::VertexType& type = *state_->vertex_types[TypeNumber("getMaxVertexFieldValue", vertexType)];
  return detail::HighestValue(type.fields[type.FieldOf(std::string(field))].type);
}

std::size_t Graph::getMaxFieldDim(StringRef vertexType, StringRef field, unsigned dimension) const {
  const detail::VertexType& type = *state_->vertex_types[TypeNumber("getMaxFieldDim", vertexType)];
  const detail::Field& known = type.fields[type.FieldOf(std::string(field))];
  if (dimension >= detail::RankOf(known.kind)) {
    throw index_error("Graph::getMaxFieldDim: the field " + known.name + " of " + type.name + " has " +
                      std::to_string(detail::RankOf(known.kind)) +
                      " dimensions. Received: " + std::to_string(dimension) + ".");
  }
  const bool is_inner = dimension + 1 == detail::RankOf(known.kind);
  return is_inner ? known.most_elements : std::numeric_limits<std::uint32_t>::max();
}

std::uint32_t Graph::TypeNumber(const char* call, StringRef name) const {
  const auto found = state_->vertex_type_ids.find(detail::NormalName(std::string(name)));
  if (found == state_->vertex_type_ids.end()) {
    std::string known;
    for (const auto& type : state_->vertex_types) {
      if (type->name.rfind("popops::", 0) != 0) known += (known.empty() ? "" : ", ") + type->name;
    }
    throw unknown_vertex_type(
        std::string("Graph::") + call + ": there is no vertex type '" + std::string(name) +
        "'. The codelets of the graph are: " + (known.empty() ? "none" : known) +
        ". Call addCodelets first; templates need an explicit instance (template class C<float>;).");
  }
  return found->second;
}

}  // namespace ipu_tf
}  // namespace poplar
