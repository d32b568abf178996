#include "guards.h"

#include <cstring>

#include "compiled.h"

namespace poplar {
inline namespace ipu_tf {
namespace detail {
namespace {

constexpr std::uint8_t kPattern = 0xa5;

// The place of the changed byte that is nearest to the field, or none (`bytes`).
std::uint64_t ChangedByte(const Guard& guard, const std::uint8_t* memory) {
  for (std::uint64_t i = 0; i < guard.bytes; ++i) {
    const std::uint64_t at = guard.kind == GuardKind::kBefore ? guard.bytes - 1 - i : i;
    const std::uint8_t was = guard.kind == GuardKind::kInput ? memory[guard.source + at] : kPattern;
    if (memory[guard.address + at] != was) return at;
  }
  return guard.bytes;
}

std::string FieldText(const Guard& guard, const VertexType& type) {
  const std::string name = "'" + type.fields[guard.field].name + "'";
  return guard.row < 0 ? "field " + name : "row " + std::to_string(guard.row) + " of field " + name;
}

// "element 4 of field 'out', which has 4".
std::string PlaceText(const Guard& guard, const VertexType& type, std::uint64_t at) {
  if (guard.field == kAllFields) return "memory behind its members";
  const std::uint64_t each = TypeBytes(type.fields[guard.field].type);
  if (guard.kind == GuardKind::kInput) {
    return "element " + std::to_string(guard.elements + at / each) + " of " + FieldText(guard, type) +
           ", which is an Input";
  }
  const std::string element = guard.kind == GuardKind::kBefore ? "-" + std::to_string((guard.bytes - 1 - at) / each + 1)
                                                               : std::to_string(guard.elements + at / each);
  return "element " + element + " of " + FieldText(guard, type) + ", which has " + std::to_string(guard.elements);
}

}  // namespace

void FillGuards(const CompiledSet& set, std::size_t call, std::uint8_t* memory) {
  for (std::uint64_t i = set.first_guard[call]; i < set.first_guard[call + 1]; ++i) {
    const Guard& guard = set.guards[i];
    if (guard.kind != GuardKind::kInput) std::memset(memory + guard.address, kPattern, guard.bytes);
  }
}

std::string GuardFault(const CompiledSet& set, std::size_t call, const GraphState& graph, const std::uint8_t* memory) {
  const std::uint32_t vertex = set.calls[call].vertex;
  for (std::uint64_t i = set.first_guard[call]; i < set.first_guard[call + 1]; ++i) {
    const Guard& guard = set.guards[i];
    const std::uint64_t at = ChangedByte(guard, memory);
    if (at == guard.bytes) continue;
    return "A codelet writes " + PlaceText(guard, *graph.vertex_types[graph.vertices[vertex].type], at) + ": " +
           graph.VertexText(vertex);
  }
  return {};
}

}  // namespace detail
}  // namespace ipu_tf
}  // namespace poplar
