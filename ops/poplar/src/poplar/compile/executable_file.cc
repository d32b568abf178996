#include <fstream>
#include <istream>
#include <iterator>
#include <map>
#include <memory>
#include <ostream>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <poplar/Executable.hpp>
#include <poplar/exceptions.hpp>

#include "compiled.h"

namespace poplar {
inline namespace ipu_tf {
namespace detail {
namespace {

// The first words of a file; another number where its layout is another.
constexpr char kMagic[] = "ipu_tf executable 3\n";

class Writer {
 public:
  explicit Writer(std::ostream* out) : out_(*out) {}
  static constexpr bool kReads = false;
  void Bytes(void* data, std::size_t size) {
    if (size == 0) return;
    if (!out_.write(static_cast<const char*>(data), static_cast<std::streamsize>(size))) {
      throw file_load_error("Executable::serialize: the stream takes no more bytes. Is the disk full?");
    }
  }

 private:
  std::ostream& out_;
};

class Reader {
 public:
  explicit Reader(std::istream* in) : in_(*in) {}
  static constexpr bool kReads = true;
  void Bytes(void* data, std::size_t size) {
    if (size == 0) return;
    if (!in_.read(static_cast<char*>(data), static_cast<std::streamsize>(size))) {
      throw file_load_error("Executable::deserialize: the file ends too early. Serialize the executable again.");
    }
  }

 private:
  std::istream& in_;
};

// One function of each type for both directions; a Writer changes nothing.
template <typename A, typename T, std::enable_if_t<std::is_trivially_copyable<T>::value, int> = 0>
void Visit(A& file, T& value) {
  file.Bytes(&value, sizeof value);
}

template <typename A, typename... T>
void VisitAll(A& file, T&... values) {
  (Visit(file, values), ...);
}

template <typename A, typename List>
std::size_t VisitSize(A& file, List& list) {
  std::uint64_t size = list.size();
  Visit(file, size);
  return size;
}

template <typename A>
void Visit(A& file, std::string& text) {
  text.resize(VisitSize(file, text));
  file.Bytes(text.data(), text.size());
}

template <typename A>
void Visit(A& file, Type& type) {
  auto kind = static_cast<std::int32_t>(type.kind());
  Visit(file, kind);
  if (A::kReads) type = Type(static_cast<Type::Kind>(kind));
}

template <typename A, typename T>
void Visit(A& file, std::vector<T>& list) {
  list.resize(VisitSize(file, list));
  if constexpr (std::is_trivially_copyable<T>::value) {
    file.Bytes(list.data(), list.size() * sizeof(T));
  } else {
    for (T& one : list) Visit(file, one);
  }
}

template <typename A, typename K, typename T>
void Visit(A& file, std::map<K, T>& items) {
  const std::size_t size = VisitSize(file, items);
  if (A::kReads) items.clear();
  auto at = items.begin();
  for (std::size_t i = 0; i < size; ++i) {
    K key = A::kReads ? K() : at->first;
    Visit(file, key);
    Visit(file, A::kReads ? items[key] : (at++)->second);
  }
}

template <typename A>
void Visit(A& file, Variable& variable) {
  VisitAll(file, variable.name, variable.type, variable.size, variable.is_constant, variable.tiles, variable.bytes);
}

template <typename A>
void Visit(A& file, DataStream& stream) {
  std::string handle = stream.handle();
  Type type = stream.elementType();
  std::uint32_t id = stream.getId();
  std::uint64_t elements = stream.numElements();
  bool to_device = stream.isHostToDevice();
  ReplicatedStreamMode mode = stream.replicatedMode();
  VisitAll(file, handle, type, id, elements, to_device, mode);
  if (A::kReads) stream = DataStream(id, handle, type, elements, to_device, mode);
}

template <typename A>
void Visit(A& file, RemoteBuffer& buffer) {
  std::string handle = buffer.handle();
  Type type = buffer.elementType();
  std::uint32_t id = buffer.getId();
  std::uint64_t elements = buffer.numElements();
  std::uint64_t repeats = buffer.getRepeats();
  VisitAll(file, handle, type, id, elements, repeats);
  if (A::kReads) buffer = RemoteBuffer(id, handle, type, elements, repeats);
}

template <typename A>
void Visit(A& file, HostSignature& function) {
  VisitAll(file, function.handle, function.inputs, function.outputs);
}

template <typename A>
void Visit(A& file, HostAccess& access) {
  Type type = A::kReads ? Type() : access.tensor.elementType();
  std::vector<std::size_t> shape = access.tensor.shape();
  std::vector<Run> runs;
  if (!A::kReads) TensorAccess::ForRuns(access.tensor, [&](const Run& run) { runs.push_back(run); });
  VisitAll(file, type, shape, runs, access.is_read);
  if (!A::kReads) return;
  auto elements = std::make_shared<Elements>();
  for (const Run& run : runs) elements->Append(run);
  access.tensor = TensorAccess::Make(std::move(elements), type, std::move(shape));
}

template <typename A>
void Visit(A& file, CompiledSet& set) {
  VisitAll(file, set.calls, set.gathers, set.scatters, set.parts, set.guards, set.first_guard);
}

template <typename A>
void Visit(A& file, HostTransfer& transfer) {
  VisitAll(file, transfer.moves, transfer.bytes);
}

// Steps name functions by their numbers.
using Functions = std::vector<std::unique_ptr<Step>>;

template <typename A>
void VisitStep(A& file, std::unique_ptr<Step>& step, const Functions& functions);

template <typename A>
void VisitSteps(A& file, std::vector<std::unique_ptr<Step>>& steps, const Functions& functions) {
  steps.resize(VisitSize(file, steps));
  for (auto& one : steps) VisitStep(file, one, functions);
}

template <typename A>
void VisitStep(A& file, std::unique_ptr<Step>& step, const Functions& functions) {
  if (A::kReads) step = std::make_unique<Step>();
  VisitAll(file, step->kind, step->number);
  VisitSteps(file, step->children, functions);
  Visit(file, step->id);
  // The number of a function is that of the step which calls it.
  if (A::kReads && step->kind == ProgramKind::kCall) step->function = functions.at(step->id).get();
  VisitAll(file, step->count, step->moves, step->is_staged, step->bytes, step->predicate, step->predicate_type,
           step->rows, step->cases, step->text, step->type, step->shape, step->places, step->together);
}

// The libraries of codelets, which are code, are parts of the file.
void WriteTypes(Writer& file, const GraphState& graph) {
  std::map<std::string, std::string> libraries;
  for (const auto& type : graph.vertex_types) {
    if (libraries.count(type->library) != 0) continue;
    std::ifstream stream(type->library, std::ios::binary);
    std::string bytes{std::istreambuf_iterator<char>(stream), {}};
    if (bytes.empty()) throw file_load_error("Executable::serialize: the codelets " + type->library + " are gone.");
    libraries.emplace(type->library, std::move(bytes));
  }
  Visit(file, libraries);
  std::uint64_t types = graph.vertex_types.size();
  Visit(file, types);
  for (const auto& type : graph.vertex_types) {
    std::string library = type->library;
    std::string name = type->name;
    Visit(file, library);
    Visit(file, name);
  }
}

void ReadTypes(Reader& file, GraphState* graph) {
  std::map<std::string, std::string> libraries;
  Visit(file, libraries);
  std::map<std::pair<std::string, std::string>, std::shared_ptr<const VertexType>> known;
  for (const auto& [path, bytes] : libraries) {
    const std::string library = WriteToCache(bytes, ".so");
    for (const auto& type : CompileCodelets(library, "", path)) known[{path, type->name}] = type;
  }
  std::uint64_t types = 0;
  Visit(file, types);
  for (std::uint64_t i = 0; i < types; ++i) {
    std::pair<std::string, std::string> name;
    Visit(file, name.first);
    Visit(file, name.second);
    graph->vertex_types.push_back(known.at(name));
  }
}

template <typename A>
void VisitCompiled(A& file, Compiled& compiled) {
  GraphState& graph = *compiled.graph;
  VisitAll(file, graph.variables, graph.compute_sets, graph.vertices, graph.edges, graph.edge_runs, graph.field_values,
           graph.field_bytes, graph.host_writes, graph.host_reads, graph.streams, graph.remote_buffers, graph.replicas,
           graph.replica_indices, graph.host_functions, compiled.variables, compiled.states, compiled.image,
           compiled.pointers, compiled.scratch, compiled.bytes, compiled.sets, compiled.reads_cycles, compiled.steps);
  VisitSteps(file, compiled.functions, compiled.functions);
  VisitSteps(file, compiled.programs, compiled.functions);
  VisitAll(file, compiled.host_writes, compiled.host_reads);
}

// Addresses of functions belong to one process.
void LinkCalls(Compiled* compiled) {
  const GraphState& graph = *compiled->graph;
  for (CompiledSet& set : compiled->sets) {
    for (VertexCall& call : set.calls) call.compute = graph.vertex_types[graph.vertices[call.vertex].type]->compute;
  }
}

}  // namespace

struct TargetFile {
  template <typename A>
  static void Visit(A& file, Target& target) {
    VisitAll(file, target.type_, target.version_, target.num_ipus_, target.tiles_per_ipu_, target.workers_,
             target.bytes_per_tile_, target.exchange_bytes_per_cycle_, target.memcpy_bytes_per_cycle_,
             target.sync_cycles_, target.link_sync_cycles_, target.clock_hz_);
  }
};

}  // namespace detail

void Executable::serialize(std::ostream& out) const {
  if (compiled_ == nullptr) throw poplar_error("Executable::serialize: the executable is empty.");
  detail::Writer file(&out);
  std::string magic = detail::kMagic;
  file.Bytes(magic.data(), magic.size());
  auto& compiled = const_cast<detail::Compiled&>(*compiled_);  // A Writer changes nothing.
  detail::TargetFile::Visit(file, compiled.graph->target);
  std::map<std::string, std::string> options(compiled.options.begin(), compiled.options.end());
  detail::Visit(file, options);
  detail::WriteTypes(file, *compiled.graph);
  detail::VisitCompiled(file, compiled);
}

Executable Executable::deserialize(std::istream& in) {
  std::string magic(sizeof detail::kMagic - 1, ' ');
  if (!in.read(magic.data(), static_cast<std::streamsize>(magic.size())) || magic != detail::kMagic) {
    throw file_load_error(
        "Executable::deserialize: this is no executable that this machine wrote. Compile the graph with compileGraph, "
        "and serialize it again.");
  }
  detail::Reader file(&in);
  Target target;
  detail::TargetFile::Visit(file, target);
  auto compiled = std::make_shared<detail::Compiled>();
  compiled->graph = std::make_shared<detail::GraphState>(target);
  std::map<std::string, std::string> options;
  detail::Visit(file, options);
  for (const auto& [name, value] : options) compiled->options.set(name, value);
  detail::ReadTypes(file, compiled->graph.get());
  detail::VisitCompiled(file, *compiled);
  detail::LinkCalls(compiled.get());
  Executable executable;
  executable.compiled_ = std::move(compiled);
  return executable;
}

}  // namespace ipu_tf
}  // namespace poplar
