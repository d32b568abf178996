#include <ostream>
#include <set>
#include <string>
#include <utility>

#include <poplar/Graph.hpp>

#include "../base/json_text.h"
#include "graph_state.h"

namespace poplar {
inline namespace ipu_tf {
namespace detail {
namespace {

// A JSON list of items, one a line; item(i) writes one.
template <typename Item>
void List(std::ostream& out, const char* name, std::size_t size, const Item& item) {
  out << "\"" << name << "\": [";
  for (std::size_t i = 0; i < size; ++i) {
    out << (i == 0 ? "\n  {" : ",\n  {");
    item(i);
    out << "}";
  }
  out << "]";
}

std::string TileText(std::uint32_t tile) { return tile == kUnmapped ? "null" : std::to_string(tile); }

void WriteVariable(std::ostream& out, const Variable& variable) {
  out << "\"name\": " << JsonText(variable.name) << ", \"type\": " << JsonText(variable.type.toString())
      << ", \"elements\": " << variable.size << ", \"constant\": " << (variable.is_constant ? "true" : "false")
      << ", \"tiles\": [";
  const char* separator = "";
  for (const auto& [begin, tile] : variable.tiles) {
    out << separator << "[" << begin << ", " << TileText(tile) << "]";
    separator = ", ";
  }
  out << "]";
}

void WriteEdge(std::ostream& out, const GraphState& graph, const Edge& edge) {
  const VertexType& type = *graph.vertex_types[graph.vertices[edge.vertex].type];
  out << "\"vertex\": " << edge.vertex << ", \"field\": " << JsonText(type.fields[edge.field].name);
  if (edge.index >= 0) out << ", \"row\": " << edge.index;
  out << ", \"elements\": [";
  for (std::uint64_t i = 0; i < edge.run_count; ++i) {
    const Run& run = graph.edge_runs[edge.first_run + i];
    out << (i == 0 ? "[" : ", [") << run.variable << ", " << run.begin << ", " << run.size << "]";
  }
  out << "]";
}

void WriteJson(std::ostream& out, const GraphState& graph) {
  out << "{\"tiles\": " << graph.target.getNumTiles() << ",\n";
  List(out, "variables", graph.variables.size(), [&](std::size_t i) { WriteVariable(out, graph.variables[i]); });
  out << ",\n";
  List(out, "compute_sets", graph.compute_sets.size(),
       [&](std::size_t i) { out << "\"name\": " << JsonText(graph.compute_sets[i]); });
  out << ",\n";
  List(out, "vertices", graph.vertices.size(), [&](std::size_t i) {
    const Vertex& one = graph.vertices[i];
    out << "\"type\": " << JsonText(graph.vertex_types[one.type]->name) << ", \"compute_set\": " << one.compute_set
        << ", \"tile\": " << TileText(one.tile);
  });
  out << ",\n";
  List(out, "edges", graph.edges.size(), [&](std::size_t i) { WriteEdge(out, graph, graph.edges[i]); });
  out << "}\n";
}

// An arrow for each variable that a node reads, or writes; node(edge) numbers what has the edge.
template <typename Node>
void WriteArrows(std::ostream& out, const GraphState& graph, const Node& node) {
  std::set<std::pair<std::uint32_t, std::uint32_t>> reads;
  std::set<std::pair<std::uint32_t, std::uint32_t>> writes;
  for (const Edge& edge : graph.edges) {
    const Field& field = graph.vertex_types[graph.vertices[edge.vertex].type]->fields[edge.field];
    for (std::uint64_t i = 0; i < edge.run_count; ++i) {
      const std::uint32_t variable = graph.edge_runs[edge.first_run + i].variable;
      if (field.IsRead()) reads.emplace(node(edge), variable);
      if (field.IsWritten()) writes.emplace(node(edge), variable);
    }
  }
  for (const auto& [number, variable] : reads) out << "  variable" << variable << " -> node" << number << ";\n";
  for (const auto& [number, variable] : writes) out << "  node" << number << " -> variable" << variable << ";\n";
}

void WriteVariables(std::ostream& out, const GraphState& graph) {
  out << "digraph {\n";
  for (std::size_t i = 0; i < graph.variables.size(); ++i) {
    out << "  variable" << i << " [shape=box, label=" << JsonText(graph.variables[i].name) << "];\n";
  }
}

}  // namespace
}  // namespace detail

void Graph::serialize(std::ostream& stream, SerializationFormat) const { detail::WriteJson(stream, *state_); }

void Graph::outputVertexGraph(std::ostream& stream, ArrayRef<program::Program>) const {
  detail::WriteVariables(stream, *state_);
  for (std::uint32_t i = 0; i < state_->vertices.size(); ++i) {
    stream << "  node" << i << " [label=" << detail::JsonText(state_->VertexText(i)) << "];\n";
  }
  detail::WriteArrows(stream, *state_, [](const detail::Edge& edge) { return edge.vertex; });
  stream << "}\n";
}

void Graph::outputComputeGraph(std::ostream& stream, ArrayRef<program::Program>) const {
  detail::WriteVariables(stream, *state_);
  for (std::size_t i = 0; i < state_->compute_sets.size(); ++i) {
    stream << "  node" << i << " [label=" << detail::JsonText(state_->compute_sets[i]) << "];\n";
  }
  detail::WriteArrows(stream, *state_,
                      [&](const detail::Edge& edge) { return state_->vertices[edge.vertex].compute_set; });
  stream << "}\n";
}

}  // namespace ipu_tf
}  // namespace poplar
