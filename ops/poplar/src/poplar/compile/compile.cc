#include <algorithm>
#include <cstring>
#include <numeric>

#include "../base/environment.h"
#include "compiled.h"

namespace poplar {
inline namespace ipu_tf {
namespace detail {
namespace {

constexpr std::uint64_t kLine = 64;

std::uint64_t Aligned(std::uint64_t bytes, std::uint64_t alignment) {
  return (bytes + alignment - 1) / alignment * alignment;
}

class Compiler {
 public:
  Compiler(std::shared_ptr<GraphState> graph, const OptionFlags& options)
      : graph_(*graph), result_(std::make_shared<Compiled>()) {
    result_->graph = std::move(graph);
    result_->options = options;
    has_guards_ = IsTrue(options, "debug.checkCodelets");
  }

  std::shared_ptr<const Compiled> Compile(ArrayRef<program::Program> programs) {
    PlaceConstants();
    CheckMapping(graph_);
    CheckStreams(graph_);
    PlaceVariables();
    BucketVertices();
    EstimateVertices(&graph_, {first_edge_, edges_, first_value_, values_});
    result_->sets.resize(graph_.compute_sets.size());
    for (std::uint32_t set = 0; set < graph_.compute_sets.size(); ++set) CompileSet(set);
    PlaceScratch();
    MakeSteps(programs, result_.get());
    return result_;
  }

 private:
  // Constants that `connect` made are on the tile of their vertex.
  void PlaceConstants() {
    for (Variable& variable : graph_.variables) {
      if (variable.vertex == kUnmapped || variable.size == 0) continue;
      variable.Map(0, variable.size, graph_.vertices[variable.vertex].tile);
    }
  }

  void PlaceVariables() {
    std::uint64_t at = kLine;  // Nothing is at 0.
    for (const Variable& variable : graph_.variables) {
      result_->variables.push_back(at);
      at += Aligned(variable.size * TypeBytes(variable.type), kLine) + kLine;
    }
    result_->states = at;
  }

  // Vertices by compute set, and edges and values by vertex.
  void BucketVertices() {
    vertices_.resize(graph_.compute_sets.size());
    for (std::uint32_t v = 0; v < graph_.vertices.size(); ++v) vertices_[graph_.vertices[v].compute_set].push_back(v);
    for (std::vector<std::uint32_t>& set : vertices_) {
      std::stable_sort(set.begin(), set.end(), [&](std::uint32_t a, std::uint32_t b) {
        return graph_.vertices[a].tile < graph_.vertices[b].tile;
      });
    }
    Bucket(graph_.edges, &first_edge_, &edges_);
    Bucket(graph_.field_values, &first_value_, &values_);
  }

  template <typename T>
  void Bucket(const std::vector<T>& items, std::vector<std::uint64_t>* first, std::vector<std::uint32_t>* order) const {
    first->assign(graph_.vertices.size() + 1, 0);
    for (const T& item : items) ++(*first)[item.vertex + 1];
    std::partial_sum(first->begin(), first->end(), first->begin());
    order->resize(items.size());
    std::vector<std::uint64_t> next(first->begin(), first->end() - 1);
    for (std::uint32_t i = 0; i < items.size(); ++i) (*order)[next[items[i].vertex]++] = i;
  }

  void CompileSet(std::uint32_t number) {
    const SetEdges edges{vertices_[number], first_edge_, edges_};
    CheckConnections(graph_, edges);
    CheckWriters(graph_, edges);
    CompiledSet& set = result_->sets[number];
    scratch_ = 0;
    for (const std::uint32_t vertex : vertices_[number]) {
      const std::uint32_t tile = graph_.vertices[vertex].tile;
      if (set.calls.empty() || set.calls.back().tile != tile) set.parts.push_back(set.calls.size());
      if (has_guards_) set.first_guard.push_back(set.guards.size());
      set.calls.push_back(CallOf(vertex, &set));
    }
    if (has_guards_) set.first_guard.push_back(set.guards.size());
    most_scratch_ = std::max(most_scratch_, scratch_);
  }

  template <typename T>
  void Put(std::uint64_t at, T value) {
    std::memcpy(result_->image.data() + at, &value, sizeof value);
  }

  void PutPointer(std::uint64_t at, std::uint64_t address) {
    Put(at, address);
    result_->pointers.push_back(result_->states + at);
  }

  // Scratch addresses are known when all compute sets are; until then they count from 0.
  void PutScratchPointer(std::uint64_t at, std::uint64_t offset) {
    Put(at, offset);
    scratch_pointers_.push_back(at);
    result_->pointers.push_back(result_->states + at);
  }

  std::uint64_t Allocate(std::uint64_t bytes) {
    const std::uint64_t at = Aligned(result_->image.size(), 16);
    result_->image.resize(at + bytes);
    return at;
  }

  VertexCall CallOf(std::uint32_t vertex, CompiledSet* set) {
    const VertexType& type = *graph_.vertex_types[graph_.vertices[vertex].type];
    VertexCall call{};
    call.compute = type.compute;
    call.vertex = vertex;
    call.tile = graph_.vertices[vertex].tile;
    call.first_gather = set->gathers.size();
    call.first_scatter = set->scatters.size();
    const std::uint64_t state = Allocate(type.size);
    call.state = result_->states + state;
    if (has_guards_) {
      AddGuard(set, GuardKind::kBehind, {kAllFields, -1, 0}, result_->states + Allocate(kGuardBytes), false);
    }
    for (const Field& field : type.fields) {
      if (field.kind == FieldKind::kEdgeList) AllocateRows(vertex, field, state);
    }
    for (std::uint64_t i = first_edge_[vertex]; i < first_edge_[vertex + 1]; ++i) {
      const Edge& edge = graph_.edges[edges_[i]];
      const Field& field = type.fields[edge.field];
      std::uint64_t at = state + field.offset;
      bool has_count = field.has_count;
      if (field.kind == FieldKind::kEdgeList) {
        std::uint64_t rows = 0;
        std::memcpy(&rows, result_->image.data() + at, sizeof rows);
        has_count = field.rows_have_count;
        at = rows - result_->states + static_cast<std::uint64_t>(edge.index) * (has_count ? 16 : 8);
      }
      Connect(edge, field, at, set);
      if (has_count && field.kind != FieldKind::kEdge) Put(at + 8, static_cast<std::uint32_t>(edge.size));
    }
    for (std::uint64_t i = first_value_[vertex]; i < first_value_[vertex + 1]; ++i) {
      SetValue(graph_.field_values[values_[i]], type, state, set);
    }
    call.gathers = static_cast<std::uint32_t>(set->gathers.size() - call.first_gather);
    call.scatters = static_cast<std::uint32_t>(set->scatters.size() - call.first_scatter);
    return call;
  }

  void AllocateRows(std::uint32_t vertex, const Field& field, std::uint64_t state) {
    std::uint32_t rows = 0;
    const VertexType& type = *graph_.vertex_types[graph_.vertices[vertex].type];
    for (std::uint64_t i = first_edge_[vertex]; i < first_edge_[vertex + 1]; ++i) {
      rows += &type.fields[graph_.edges[edges_[i]].field] == &field ? 1 : 0;
    }
    const std::uint64_t at = Allocate(std::uint64_t{rows} * (field.rows_have_count ? 16 : 8));
    PutPointer(state + field.offset, result_->states + at);
    if (field.has_count) Put(state + field.offset + 8, rows);
  }

  // An edge points into its variable if its elements are one range, aligned as the codelet asks; else into scratch.
  void Connect(const Edge& edge, const Field& field, std::uint64_t at, CompiledSet* set) {
    const std::uint64_t each = TypeBytes(field.type);
    const auto address = [&](const Run& run) { return result_->variables[run.variable] + run.begin * each; };
    if (edge.run_count <= 1) {
      const std::uint64_t to = edge.run_count == 0 ? kLine : address(graph_.edge_runs[edge.first_run]);
      if (to % field.alignment == 0 && !has_guards_) return PutPointer(at, to);
    }
    const GuardedField guarded{edge.field, edge.index, edge.size};
    if (has_guards_) {
      AddGuard(set, GuardKind::kBefore, guarded, scratch_ = Aligned(scratch_, kGuardBytes), true);
      scratch_ += kGuardBytes;
    }
    scratch_ = Aligned(scratch_, std::max<std::uint64_t>(8, field.alignment));
    PutScratchPointer(at, scratch_);
    const std::uint64_t start = scratch_;
    for (std::uint64_t i = 0; i < edge.run_count; ++i) {
      const Run& run = graph_.edge_runs[edge.first_run + i];
      const std::uint64_t bytes = run.size * each;
      // What an Output leaves as it is keeps its value.
      set->gathers.push_back({address(run), scratch_, bytes});
      if (field.IsWritten()) set->scatters.push_back({scratch_, address(run), bytes});
      if (has_guards_ && !field.IsWritten()) {
        AddInputGuard(set, {edge.field, edge.index, (scratch_ - start) / each}, address(run), bytes);
      }
      scratch_ += bytes;
    }
    if (has_guards_) {
      AddGuard(set, GuardKind::kBehind, guarded, scratch_, true);
      scratch_ += kGuardBytes;
    }
  }

  struct GuardedField {
    std::uint32_t field;
    std::int64_t row;
    std::uint64_t elements;
  };

  static void AddGuard(CompiledSet* set, GuardKind kind, const GuardedField& of, std::uint64_t address,
                       bool is_in_scratch) {
    set->guards.push_back({kind, of.field, of.row, of.elements, address, kGuardBytes, 0, is_in_scratch});
  }

  void AddInputGuard(CompiledSet* set, const GuardedField& of, std::uint64_t source, std::uint64_t bytes) const {
    set->guards.push_back({GuardKind::kInput, of.field, of.row, of.elements, scratch_, bytes, source, true});
  }

  void SetValue(const FieldValue& value, const VertexType& type, std::uint64_t state, CompiledSet* set) {
    const Field& field = type.fields[value.field];
    const std::uint64_t bytes = value.count * TypeBytes(field.type);
    std::uint64_t at = state + field.offset;
    if (field.kind == FieldKind::kValues) {
      const std::uint64_t list = Allocate(bytes + (has_guards_ ? kGuardBytes : 0));
      PutPointer(at, result_->states + list);
      if (has_guards_) {
        AddGuard(set, GuardKind::kBehind, {value.field, -1, value.count}, result_->states + list + bytes, false);
      }
      if (field.has_count) Put(at + 8, static_cast<std::uint32_t>(value.count));
      at = list;
    }
    std::memcpy(result_->image.data() + at, graph_.field_bytes.data() + value.first_byte, bytes);
  }

  void PlaceScratch() {
    result_->scratch = Aligned(result_->states + result_->image.size(), kLine);
    result_->bytes = result_->scratch + most_scratch_ + kLine;
    for (const std::uint64_t at : scratch_pointers_) {
      std::uint64_t offset = 0;
      std::memcpy(&offset, result_->image.data() + at, sizeof offset);
      Put(at, offset + result_->scratch);
    }
    for (CompiledSet& set : result_->sets) {
      for (Move& move : set.gathers) move.to += result_->scratch;
      for (Move& move : set.scatters) move.from += result_->scratch;
      for (Guard& guard : set.guards) guard.address += guard.is_in_scratch ? result_->scratch : 0;
    }
  }

  GraphState& graph_;
  std::shared_ptr<Compiled> result_;
  std::vector<std::vector<std::uint32_t>> vertices_;
  std::vector<std::uint64_t> first_edge_;
  std::vector<std::uint32_t> edges_;
  std::vector<std::uint64_t> first_value_;
  std::vector<std::uint32_t> values_;
  bool has_guards_ = false;
  std::uint64_t scratch_ = 0;
  std::uint64_t most_scratch_ = 0;
  std::vector<std::uint64_t> scratch_pointers_;
};

}  // namespace

std::shared_ptr<const Compiled> Compile(std::shared_ptr<GraphState> graph, ArrayRef<program::Program> programs,
                                        const OptionFlags& options) {
  return Compiler(std::move(graph), options).Compile(programs);
}

}  // namespace detail
}  // namespace ipu_tf
}  // namespace poplar
