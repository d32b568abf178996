// What a graph holds, in arrays.
#ifndef IPU_TF_POPLAR_GRAPH_STATE_H_
#define IPU_TF_POPLAR_GRAPH_STATE_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include <poplar/Graph.hpp>
#include <poplar/Program.hpp>

#include "../base/values.h"
#include "../codelets/codelets.h"
#include "tensor_access.h"

namespace poplar {
inline namespace ipu_tf {
namespace detail {

constexpr std::uint32_t kUnmapped = ~std::uint32_t{0};

struct Variable {
  std::string name;
  Type type;
  std::uint64_t size = 0;
  bool is_constant = false;
  // The first element of each stretch of elements on one tile.
  std::map<std::uint64_t, std::uint32_t> tiles{{0, kUnmapped}};
  // A constant that `connect` made lives with this vertex.
  std::uint32_t vertex = ~std::uint32_t{0};
  std::vector<std::uint8_t> bytes;  // Of constants, and of variables with initial values.

  void Map(std::uint64_t begin, std::uint64_t size, std::uint32_t tile);
  // Calls work(begin, size, tile) for the stretches of a range.
  template <typename Work>
  void ForTiles(std::uint64_t begin, std::uint64_t count, const Work& work) const {
    auto at = std::prev(tiles.upper_bound(begin));
    while (count > 0) {
      const auto next = std::next(at);
      const std::uint64_t end = next == tiles.end() ? size : next->first;
      const std::uint64_t here = std::min(count, end - begin);
      work(begin, here, at->second);
      begin += here;
      count -= here;
      at = next;
    }
  }
};

struct Vertex {
  std::uint32_t type = 0;
  std::uint32_t compute_set = 0;
  std::uint32_t tile = kUnmapped;
  std::uint64_t cycles = 0;
};

// An edge of a vertex: runs [first_run, first_run + run_count) of the graph.
struct Edge {
  std::uint32_t vertex = 0;
  std::uint32_t field = 0;
  std::int64_t index = -1;  // Of a field that is a list of edges.
  std::uint64_t first_run = 0;
  std::uint64_t run_count = 0;
  std::uint64_t size = 0;
};

// The value of a field without edge: bytes [first_byte, first_byte + byte_count) of the graph.
struct FieldValue {
  std::uint32_t vertex = 0;
  std::uint32_t field = 0;
  std::uint64_t first_byte = 0;
  std::uint64_t count = 0;  // Elements.
};

struct HostAccess {
  Tensor tensor;
  bool is_read = false;
};

// What a function of the host takes and gives.
struct HostSignature {
  std::string handle;
  std::vector<Graph::HostFunctionArgument> inputs;
  std::vector<Graph::HostFunctionArgument> outputs;
};

struct GraphState {
  explicit GraphState(const Target& t) : target(t) {}

  Target target;  // Of one replica.
  unsigned replicas = 1;
  std::vector<Variable> variables;
  std::vector<std::string> compute_sets;
  std::vector<Vertex> vertices;
  std::vector<Edge> edges;
  std::vector<Run> edge_runs;
  std::vector<FieldValue> field_values;
  std::vector<std::uint8_t> field_bytes;
  std::vector<std::shared_ptr<const VertexType>> vertex_types;
  std::unordered_map<std::string, std::uint32_t> vertex_type_ids;
  std::unordered_map<std::uint32_t, PerfEstimateFunc> estimators;  // By vertex type.
  std::map<std::string, HostAccess> host_writes;
  std::map<std::string, HostAccess> host_reads;
  std::vector<DataStream> streams;
  std::vector<RemoteBuffer> remote_buffers;
  std::vector<program::Program> functions;
  std::vector<HostSignature> host_functions;
  std::vector<std::uint32_t> replica_indices;  // Variables that hold the number of their replica.

  Tensor Add(Variable variable, ArrayRef<std::size_t> shape);
  // "vertex 3 (Sum) of compute set 'reduce'".
  std::string VertexText(std::uint32_t vertex) const;
  // " (replica 1)"; empty without replicas.
  std::string ReplicaText(unsigned replica) const;
  // "elements 4 to 7 of 'x'".
  std::string RunText(const Run& run) const;
};

// The graph of a tensor must be this one.
void CheckGraph(const GraphState& state, const Tensor& tensor, const std::string& call);

struct GraphAccess {
  static GraphState& StateOf(const Graph& graph) { return *graph.state_; }
  static std::shared_ptr<GraphState> Shared(const Graph& graph) { return graph.state_; }
};

// Whether elements are in two of the runs, or in runs of both lists.
bool HasOverlap(std::vector<Run> runs);
bool Intersect(std::vector<Run> a, std::vector<Run> b);

}  // namespace detail
}  // namespace ipu_tf
}  // namespace poplar

#endif  // IPU_TF_POPLAR_GRAPH_STATE_H_
