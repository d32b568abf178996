// The rules of the machine, checked before a program runs.
#include <algorithm>
#include <string>

#include <poplar/exceptions.hpp>

#include "compiled.h"

namespace poplar {
inline namespace ipu_tf {
namespace detail {
namespace {

constexpr std::uint64_t kMostStreamBytes = 128 << 20;  // Graph::addHostToDeviceFIFO in the vendor's API reference.

// A range of a variable that a vertex reads or writes.
struct Use {
  Run run;
  std::uint32_t vertex;
  std::uint32_t field;
};

bool Before(const Use& a, const Use& b) {
  if (a.run.variable != b.run.variable) return a.run.variable < b.run.variable;
  return a.run.begin != b.run.begin ? a.run.begin < b.run.begin : a.vertex < b.vertex;
}

std::uint64_t End(const Use& use) { return use.run.begin + use.run.size; }

Run Common(const Use& a, const Use& b) {
  const std::uint64_t begin = std::max(a.run.begin, b.run.begin);
  return {a.run.variable, begin, std::min(End(a), End(b)) - begin};
}

std::string FieldText(const GraphState& graph, const Use& use) {
  return "field '" + graph.vertex_types[graph.vertices[use.vertex].type]->fields[use.field].name + "' of " +
         graph.VertexText(use.vertex);
}

// Writes of the vertices in order; those of one vertex that touch are one.
std::vector<Use> Merged(const GraphState& graph, std::vector<Use> writes) {
  std::sort(writes.begin(), writes.end(), Before);
  std::vector<Use> merged;
  for (const Use& use : writes) {
    const bool touches =
        !merged.empty() && merged.back().run.variable == use.run.variable && End(merged.back()) > use.run.begin;
    if (touches && merged.back().vertex != use.vertex) {
      throw graph_program_compilation_error(
          "Two vertices of a compute set write " + graph.RunText(Common(merged.back(), use)) + ": " +
          FieldText(graph, merged.back()) + ", and " + FieldText(graph, use) +
          ". Give each vertex elements of its own, or put them into compute sets that run one after the other.");
    }
    if (touches) {
      merged.back().run.size = std::max(End(merged.back()), End(use)) - merged.back().run.begin;
    } else {
      merged.push_back(use);
    }
  }
  return merged;
}

}  // namespace

void CheckMapping(const GraphState& graph) {
  for (std::uint32_t i = 0; i < graph.variables.size(); ++i) {
    const Variable& variable = graph.variables[i];
    if (variable.vertex != kUnmapped) continue;
    variable.ForTiles(0, variable.size, [&](std::uint64_t begin, std::uint64_t count, std::uint32_t tile) {
      if (tile != kUnmapped) return;
      throw invalid_tile_mapping("No tile holds " + graph.RunText({i, begin, count}) +
                                 ". Call Graph::setTileMapping, or poputil::mapTensorLinearly, for every element.");
    });
  }
  for (std::uint32_t i = 0; i < graph.vertices.size(); ++i) {
    if (graph.vertices[i].tile != kUnmapped) continue;
    throw invalid_tile_mapping("No tile runs " + graph.VertexText(i) +
                               ". Call Graph::setTileMapping for every vertex.");
  }
}

void CheckStreams(const GraphState& graph) {
  if (graph.target.getTargetType() == TargetType::CPU) return;
  for (const DataStream& one : graph.streams) {
    const std::uint64_t bytes = one.numElements() * TypeBytes(one.elementType());
    if (bytes <= kMostStreamBytes) continue;
    throw stream_memory_allocation_error(
        "The stream '" + one.handle() + "' has a buffer of " + std::to_string(bytes) + " bytes. The machine holds " +
        std::to_string(kMostStreamBytes) +
        " (128 MB) for a stream. Copy parts of the tensor one after the other, or use a remote buffer.");
  }
}

std::vector<std::uint64_t> VariableBytes(const GraphState& graph) {
  std::vector<std::uint64_t> bytes(graph.target.getNumTiles(), 0);
  for (const Variable& variable : graph.variables) {
    const std::uint64_t each = TypeBytes(variable.type);
    variable.ForTiles(0, variable.size, [&](std::uint64_t, std::uint64_t count, std::uint32_t tile) {
      if (tile != kUnmapped) bytes[tile] += count * each;
    });
  }
  return bytes;
}

void CheckConnections(const GraphState& graph, const SetEdges& edges) {
  for (const std::uint32_t vertex : edges.vertices) {
    const VertexType& type = *graph.vertex_types[graph.vertices[vertex].type];
    for (std::uint32_t f = 0; f < type.fields.size(); ++f) {
      const Field& field = type.fields[f];
      if (!field.IsEdge()) continue;
      std::vector<std::int64_t> indices;
      for (std::uint64_t i = edges.first[vertex]; i < edges.first[vertex + 1]; ++i) {
        const Edge& edge = graph.edges[edges.order[i]];
        if (edge.field != f) continue;
        indices.push_back(edge.index);
        if (edge.size <= field.most_elements) continue;
        throw graph_connection_error(
            "Field '" + field.name + "' of " + graph.VertexText(vertex) +
            " has the layout SHORT_SPAN, whose count holds " + std::to_string(field.most_elements) +
            " elements. Received: " + std::to_string(edge.size) + ". Use SPAN, or more vertices.");
      }
      const std::string what = "Field '" + field.name + "' of " + graph.VertexText(vertex);
      std::sort(indices.begin(), indices.end());
      if (std::adjacent_find(indices.begin(), indices.end()) != indices.end()) {
        throw graph_connection_error(what + " is connected more than once. Connect each edge once.");
      }
      if (field.kind != FieldKind::kEdgeList) {
        if (indices.empty()) throw graph_connection_error(what + " is not connected. Connect it to a tensor.");
        continue;
      }
      for (std::size_t i = 0; i < indices.size(); ++i) {
        if (indices[i] == static_cast<std::int64_t>(i)) continue;
        throw graph_connection_error(what + " has no row " + std::to_string(i) + ", but has row " +
                                     std::to_string(indices[i]) + ". Connect all rows from 0 on.");
      }
    }
  }
}

void CheckWriters(const GraphState& graph, const SetEdges& edges) {
  std::vector<Use> writes;
  std::vector<Use> reads;
  for (const std::uint32_t vertex : edges.vertices) {
    const VertexType& type = *graph.vertex_types[graph.vertices[vertex].type];
    for (std::uint64_t i = edges.first[vertex]; i < edges.first[vertex + 1]; ++i) {
      const Edge& edge = graph.edges[edges.order[i]];
      std::vector<Use>* uses = type.fields[edge.field].IsWritten() ? &writes : &reads;
      for (std::uint64_t r = 0; r < edge.run_count; ++r) {
        const Run& run = graph.edge_runs[edge.first_run + r];
        if (run.size > 0) uses->push_back({run, vertex, edge.field});
      }
    }
  }
  const std::vector<Use> written = Merged(graph, std::move(writes));
  for (const Use& read : reads) {
    // The first range that ends after the beginning of this one.
    auto at = std::partition_point(written.begin(), written.end(), [&](const Use& one) {
      return one.run.variable != read.run.variable ? one.run.variable < read.run.variable : End(one) <= read.run.begin;
    });
    for (; at != written.end() && at->run.variable == read.run.variable && at->run.begin < End(read); ++at) {
      if (at->vertex == read.vertex) continue;
      throw graph_program_compilation_error(
          "Vertices of a compute set write and read " + graph.RunText(Common(*at, read)) + ": " +
          FieldText(graph, *at) + " writes, and " + FieldText(graph, read) +
          " reads. Let one run in a compute set before or after the other, or write to another variable.");
    }
  }
}

}  // namespace detail
}  // namespace ipu_tf
}  // namespace poplar
