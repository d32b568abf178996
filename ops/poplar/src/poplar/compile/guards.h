// Zones beside the fields of vertices, for the option debug.checkCodelets.
#ifndef IPU_TF_POPLAR_GUARDS_H_
#define IPU_TF_POPLAR_GUARDS_H_

#include <cstdint>
#include <string>

#include "../graph/graph_state.h"

namespace poplar {
inline namespace ipu_tf {
namespace detail {

struct CompiledSet;

constexpr std::uint64_t kGuardBytes = 64;

enum class GuardKind : std::uint8_t { kBefore, kBehind, kInput };

// Bytes that a codelet must leave as they are: beside a field, or an Input.
struct Guard {
  GuardKind kind;
  std::uint32_t field;     // kAllFields: the members of the vertex.
  std::int64_t row;        // Of a list of rows, else -1.
  std::uint64_t elements;  // Of the field; of an Input, the first of these bytes.
  std::uint64_t address;
  std::uint64_t bytes;
  std::uint64_t source;  // Of an Input: the address that it was gathered from.
  bool is_in_scratch;    // The address counts from the scratch memory of the compute set.
};

constexpr std::uint32_t kAllFields = ~std::uint32_t{0};

// Writes the zones of call number `call` anew, before it runs.
void FillGuards(const CompiledSet& set, std::size_t call, std::uint8_t* memory);

// What the codelet of that call wrote outside of its fields, as a message without its end; empty if nothing.
std::string GuardFault(const CompiledSet& set, std::size_t call, const GraphState& graph, const std::uint8_t* memory);

}  // namespace detail
}  // namespace ipu_tf
}  // namespace poplar

#endif  // IPU_TF_POPLAR_GUARDS_H_
