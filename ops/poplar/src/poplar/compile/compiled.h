// A graph as an engine runs it: addresses instead of tensors.
#ifndef IPU_TF_POPLAR_COMPILED_H_
#define IPU_TF_POPLAR_COMPILED_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "../graph/graph_state.h"
#include "../graph/program_node.h"
#include "guards.h"

namespace poplar {
inline namespace ipu_tf {
namespace detail {

// Bytes from one place of the memory to another.
struct Move {
  std::uint64_t from;
  std::uint64_t to;
  std::uint64_t bytes;
};

// A call of a codelet. Edges that are not in one piece are gathered before it, and scattered after it.
struct VertexCall {
  bool (*compute)(void*);
  std::uint64_t state;
  std::uint32_t vertex;
  std::uint32_t tile;
  std::uint64_t first_gather;
  std::uint64_t first_scatter;
  std::uint32_t gathers;
  std::uint32_t scatters;
};

struct CompiledSet {
  std::vector<VertexCall> calls;  // By tile.
  std::vector<Move> gathers;
  std::vector<Move> scatters;
  std::vector<std::size_t> parts;  // Where threads may begin: always with another tile.
  // Of debug.checkCodelets: the guards of call i are [first_guard[i], first_guard[i + 1]); else empty.
  std::vector<Guard> guards;
  std::vector<std::uint64_t> first_guard;
};

// A step of a program; which members it has depends on its kind.
struct Step {
  ProgramKind kind;
  std::uint32_t number = 0;  // Among all steps of the graph.
  std::vector<std::unique_ptr<Step>> children;
  const Step* function = nullptr;
  std::uint32_t id = 0;
  std::uint64_t count = 0;
  // Of a copy; for the host, `from` or `to` is a place in its buffer. Of Execute, to the exit status, if it is wanted.
  std::vector<Move> moves;
  bool is_staged = false;  // Both sides of a copy overlap.
  std::uint64_t bytes = 0;
  std::uint64_t predicate = 0;
  Type predicate_type;
  std::vector<std::uint64_t> rows;    // Addresses of the numbers of rows of a remote buffer.
  std::vector<std::int32_t> cases;    // Or pairs of a sender and its receiver.
  std::vector<std::uint64_t> places;  // Of arguments of a function of the host, in its buffer.
  std::string together;               // What in it all replicas run together; empty if nothing.
  std::string text;
  Type type;
  std::vector<std::size_t> shape;
};

struct HostTransfer {
  std::vector<Move> moves;  // `to` is a place in the host's buffer.
  std::uint64_t bytes = 0;
};

struct Compiled {
  std::shared_ptr<GraphState> graph;
  std::vector<std::uint64_t> variables;  // Addresses.
  std::uint64_t states = 0;              // Address of `image`.
  std::vector<std::uint8_t> image;       // The fields of all vertices.
  std::vector<std::uint64_t> pointers;   // Addresses of pointers in the image, which hold addresses.
  std::uint64_t scratch = 0;             // Address of what is gathered for one compute set.
  std::uint64_t bytes = 0;               // Of all memory.
  std::vector<CompiledSet> sets;         // By compute set.
  std::vector<std::unique_ptr<Step>> functions;
  std::vector<std::unique_ptr<Step>> programs;
  bool reads_cycles = false;  // A program asks for cycles while it runs.
  std::uint32_t steps = 0;    // Of functions and programs together.
  std::map<std::string, HostTransfer> host_writes;
  std::map<std::string, HostTransfer> host_reads;
  OptionFlags options;
};

std::shared_ptr<const Compiled> Compile(std::shared_ptr<GraphState> graph, ArrayRef<program::Program> programs,
                                        const OptionFlags& options);

// The programs as steps, and the tensors that the host reads and writes; variables have their addresses.
void MakeSteps(ArrayRef<program::Program> programs, Compiled* result);

// The rules of the machine that concern a whole graph; each raises its error.
void CheckMapping(const GraphState& graph);
void CheckStreams(const GraphState& graph);
// Bytes of variables on each tile.
std::vector<std::uint64_t> VariableBytes(const GraphState& graph);

// Edges and field values by vertex: those of vertex v are the numbers [first[v], first[v + 1]) of the list.
struct ItemsOfVertices {
  const std::vector<std::uint64_t>& first_edge;
  const std::vector<std::uint32_t>& edges;
  const std::vector<std::uint64_t>& first_value;
  const std::vector<std::uint32_t>& values;
};
// Gives the vertices without an estimate that of the function which is registered for their type.
void EstimateVertices(GraphState* graph, const ItemsOfVertices& items);

// The rules of one compute set: edges [first, last) of these numbers.
struct SetEdges {
  const std::vector<std::uint32_t>& vertices;  // Of the compute set.
  const std::vector<std::uint64_t>& first;     // Of each vertex of the graph: its edges in `order`.
  const std::vector<std::uint32_t>& order;     // Numbers of edges, by vertex.
};
void CheckConnections(const GraphState& graph, const SetEdges& edges);
void CheckWriters(const GraphState& graph, const SetEdges& edges);

}  // namespace detail
}  // namespace ipu_tf
}  // namespace poplar

#endif  // IPU_TF_POPLAR_COMPILED_H_
