#include <dlfcn.h>
#include <elf.h>
#include <link.h>

#include <algorithm>

#include <poplar/Executable.hpp>

#include "../base/json_text.h"
#include "profile.h"

namespace poplar {
inline namespace ipu_tf {
namespace detail {

struct TargetAccess {
  static unsigned LinkSyncCycles(const Target& target) { return target.link_sync_cycles_; }
};

namespace {

constexpr std::uint32_t kPointerBytes = 4;
constexpr std::uint32_t kCountBytes = 4;

template <typename Items>
std::string JsonList(const Items& items) {
  std::string json = "[";
  for (const std::string& one : items) json += (json.size() > 1 ? "," : "") + one;
  return json + "]";
}

std::uint32_t BytesOf(const Field& field) {
  switch (field.kind) {
    case FieldKind::kOwn:
      return kPointerBytes;
    case FieldKind::kValue:
      return static_cast<std::uint32_t>(TypeBytes(field.type));
    default:
      return kPointerBytes + (field.has_count ? kCountBytes : 0);
  }
}

// Bytes of machine code of the codelet, as compiled for the host; 0 if the library does not say.
std::uint64_t CodeBytes(const VertexType& type) {
  Dl_info info;
  const ElfW(Sym)* symbol = nullptr;
  const auto address = reinterpret_cast<const void*>(type.compute);
  if (dladdr1(address, &info, reinterpret_cast<void**>(const_cast<ElfW(Sym)**>(&symbol)), RTLD_DL_SYMENT) == 0)
    return 0;
  return symbol == nullptr ? 0 : symbol->st_size;
}

void AddTarget(const GraphState& graph, Records* records) {
  const Target& target = graph.target;
  const char* const kinds[] = {"ipu", "model", "cpu"};
  const int kind = target.getTargetType() == TargetType::IPU         ? 0
                   : target.getTargetType() == TargetType::IPU_MODEL ? 1
                                                                     : 2;
  records->AddText(
      "target", "{\"kind\":\"" + std::string(kinds[kind]) + "\",\"version\":" + JsonText(target.getTargetArchString()) +
                    ",\"ipus\":" + std::to_string(target.getNumIPUs()) + ",\"replication_factor\":" +
                    std::to_string(graph.replicas) + ",\"tiles_per_ipu\":" + std::to_string(target.getTilesPerIPU()) +
                    ",\"workers\":" + std::to_string(target.getNumWorkerContexts()) +
                    ",\"tile_bytes\":" + std::to_string(target.getBytesPerTile()) +
                    ",\"exchange_bytes_per_cycle\":" + std::to_string(target.getExchangeBytesPerCycle()) +
                    ",\"sync_cycles\":" + std::to_string(target.getMinIPUSyncDelay()) +
                    ",\"link_sync_cycles\":" + std::to_string(TargetAccess::LinkSyncCycles(target)) +
                    ",\"clock_hz\":" + std::to_string(target.getTileClockFrequency()) + "}");
}

void AddVariables(const Compiled& compiled, Records* records) {
  const GraphState& graph = *compiled.graph;
  std::vector<std::uint64_t> bytes;
  std::vector<std::uint8_t> flags;
  std::string names;
  std::vector<std::uint64_t> begins;
  std::vector<std::uint64_t> sizes;
  std::vector<std::uint32_t> tiles;
  for (std::size_t v = 0; v < graph.variables.size(); ++v) {
    const Variable& variable = graph.variables[v];
    const std::uint64_t each = TypeBytes(variable.type);
    bytes.push_back(variable.size * each);
    flags.push_back(static_cast<std::uint8_t>((variable.is_constant ? 1 : 0) | (variable.bytes.empty() ? 0 : 2)));
    names += variable.name + '\0';
    variable.ForTiles(0, variable.size, [&](std::uint64_t begin, std::uint64_t count, std::uint32_t tile) {
      begins.push_back(compiled.variables[v] + begin * each);
      sizes.push_back(count * each);
      tiles.push_back(tile);
    });
  }
  for (const auto* accesses : {&graph.host_writes, &graph.host_reads}) {
    for (const auto& [handle, access] : *accesses) {
      TensorAccess::ForRuns(access.tensor, [&](const Run& run) { flags[run.variable] |= 4; });
    }
  }
  records->Add("variables.address", compiled.variables);
  records->Add("variables.bytes", bytes);
  records->Add("variables.flags", flags);
  records->AddText("variables.names", names);
  records->Add("tiles.address", begins);
  records->Add("tiles.bytes", sizes);
  records->Add("tiles.tile", tiles);
}

void AddVertices(const GraphState& graph, Records* records) {
  std::vector<std::string> types;
  for (const auto& type : graph.vertex_types) {
    std::uint64_t state = 0;
    for (const Field& field : type->fields) state += BytesOf(field);
    types.push_back("{\"name\":" + JsonText(type->name) + ",\"kind\":" + std::to_string(int(type->kind)) +
                    ",\"state_bytes\":" + std::to_string(state) +
                    ",\"code_bytes\":" + std::to_string(CodeBytes(*type)) + "}");
  }
  std::vector<std::string> sets;
  for (const std::string& name : graph.compute_sets) sets.push_back(JsonText(name));
  std::vector<std::uint32_t> type;
  std::vector<std::uint32_t> set;
  std::vector<std::uint32_t> tile;
  std::vector<std::uint64_t> cycles;
  for (const Vertex& one : graph.vertices) {
    type.push_back(one.type);
    set.push_back(one.compute_set);
    tile.push_back(one.tile);
    cycles.push_back(one.cycles);
  }
  records->AddText("types", JsonList(types));
  records->AddText("sets", JsonList(sets));
  records->Add("vertices.type", type);
  records->Add("vertices.set", set);
  records->Add("vertices.tile", tile);
  records->Add("vertices.cycles", cycles);
}

void AddEdges(const Compiled& compiled, Records* records) {
  const GraphState& graph = *compiled.graph;
  std::vector<std::uint32_t> vertex;
  std::vector<std::uint8_t> flags;
  std::vector<std::uint32_t> runs;
  std::vector<std::uint64_t> addresses;
  std::vector<std::uint64_t> sizes;
  addresses.reserve(graph.edge_runs.size());
  sizes.reserve(graph.edge_runs.size());
  for (const Edge& edge : graph.edges) {
    const Field& field = graph.vertex_types[graph.vertices[edge.vertex].type]->fields[edge.field];
    const bool is_row = field.kind == FieldKind::kEdgeList;
    vertex.push_back(edge.vertex);
    flags.push_back(static_cast<std::uint8_t>((field.IsRead() ? 1 : 0) | (field.IsWritten() ? 2 : 0) |
                                              (is_row ? 4 : 0) | (is_row && field.rows_have_count ? 8 : 0)));
    runs.push_back(static_cast<std::uint32_t>(edge.run_count));
    const std::uint64_t each = TypeBytes(field.type);
    for (std::uint64_t i = 0; i < edge.run_count; ++i) {
      const Run& run = graph.edge_runs[edge.first_run + i];
      addresses.push_back(compiled.variables[run.variable] + run.begin * each);
      sizes.push_back(run.size * each);
    }
  }
  records->Add("edges.vertex", vertex);
  records->Add("edges.flags", flags);
  records->Add("edges.runs", runs);
  records->Add("runs.address", addresses);
  records->Add("runs.bytes", sizes);
}

// The steps of all functions and programs, each before its children, by their numbers.
class Steps {
 public:
  void Add(const Step& step, std::int32_t parent) {
    const auto number = static_cast<std::int32_t>(step.number);
    kind_.push_back(static_cast<std::uint8_t>(step.kind));
    id_.push_back(step.function != nullptr ? step.function->number : step.id);
    parent_.push_back(parent);
    count_.push_back(step.count);
    bytes_.push_back(step.bytes);
    moves_.push_back(static_cast<std::uint32_t>(step.moves.size()));
    for (const Move& move : step.moves) {
      from_.push_back(move.from);
      to_.push_back(move.to);
      size_.push_back(move.bytes);
    }
    for (const auto& child : step.children) Add(*child, number);
  }

  void Send(Records* records) const {
    records->Add("steps.kind", kind_);
    records->Add("steps.id", id_);
    records->Add("steps.parent", parent_);
    records->Add("steps.count", count_);
    records->Add("steps.bytes", bytes_);
    records->Add("steps.moves", moves_);
    records->Add("moves.from", from_);
    records->Add("moves.to", to_);
    records->Add("moves.bytes", size_);
  }

 private:
  std::vector<std::uint8_t> kind_;
  std::vector<std::uint32_t> id_;
  std::vector<std::int32_t> parent_;
  std::vector<std::uint64_t> count_;
  std::vector<std::uint64_t> bytes_;
  std::vector<std::uint32_t> moves_;
  std::vector<std::uint64_t> from_;
  std::vector<std::uint64_t> to_;
  std::vector<std::uint64_t> size_;
};

}  // namespace

Records GraphRecords(const Compiled& compiled) {
  constexpr std::int32_t kFunction = -1;
  constexpr std::int32_t kProgram = -2;
  const GraphState& graph = *compiled.graph;
  Records records;
  AddTarget(graph, &records);
  AddVariables(compiled, &records);
  AddVertices(graph, &records);
  AddEdges(compiled, &records);
  Steps steps;
  for (const auto& one : compiled.functions) steps.Add(*one, kFunction);
  for (const auto& one : compiled.programs) steps.Add(*one, kProgram);
  steps.Send(&records);
  std::vector<std::string> streams;
  for (const DataStream& one : graph.streams) streams.push_back(JsonText(one.handle()));
  for (const HostSignature& one : graph.host_functions) streams.push_back(JsonText(one.handle));  // Their copies.
  records.AddText("streams", JsonList(streams));
  std::vector<std::string> remote;
  for (const RemoteBuffer& one : graph.remote_buffers) remote.push_back(JsonText(one.handle()));
  records.AddText("remote_buffers", JsonList(remote));
  return records;
}

std::string GraphBytes(const Executable& executable) {
  const Records records = GraphRecords(*executable.compiled_);
  const std::uint32_t count = records.count();
  return std::string(reinterpret_cast<const char*>(&count), sizeof count) + records.bytes();
}

}  // namespace detail
}  // namespace ipu_tf
}  // namespace poplar
