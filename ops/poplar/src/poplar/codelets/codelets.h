// Vertex types: what a compiled codelet says about its fields, and how to call it.
#ifndef IPU_TF_POPLAR_CODELETS_H_
#define IPU_TF_POPLAR_CODELETS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <poplar/Type.hpp>

namespace poplar {
inline namespace ipu_tf {
namespace detail {

enum class FieldKind : std::uint8_t {
  kOwn,         // Of the codelet's own type, which starts as zeros; no program sets it.
  kValue,       // A number.
  kValues,      // A list of numbers: pointer and count, or a pointer.
  kEdge,        // A pointer to one element.
  kEdgeVector,  // Elements in a row: pointer and count, or a pointer.
  kEdgeList,    // A list of rows: pointer to rows, and count of them.
};

enum class Direction : std::uint8_t { kNone, kInput, kOutput, kInOut };

struct Field {
  std::string name;
  FieldKind kind = FieldKind::kValue;
  Direction direction = Direction::kNone;
  Type type;
  std::uint32_t offset = 0;
  std::uint32_t alignment = 1;               // Bytes, of the first element.
  bool has_count = false;                    // A count follows the pointer.
  bool rows_have_count = false;              // The same for the rows of a list.
  std::uint32_t most_elements = 0xffffffff;  // That the count of a row holds.

  bool IsEdge() const { return kind >= FieldKind::kEdge; }
  bool IsRead() const { return direction == Direction::kInput || direction == Direction::kInOut; }
  bool IsWritten() const { return direction == Direction::kOutput || direction == Direction::kInOut; }
  // Dimensions of its elements: 2 for rows.
  unsigned Rank() const {
    if (kind == FieldKind::kEdgeList) return 2;
    return kind == FieldKind::kValues || kind == FieldKind::kEdgeVector ? 1 : 0;
  }
};

// Which threads of a tile run a vertex: one worker, all of them, or the supervisor.
enum class VertexKind : std::uint8_t { kWorker, kAllWorkers, kSupervisor };

struct VertexType {
  std::string name;
  std::vector<Field> fields;
  std::uint32_t size = 0;
  VertexKind kind = VertexKind::kWorker;
  // Why no vertex can have this type; empty if one can.
  std::string refusal;
  // Calls compute() of a vertex whose fields are at `state`, once for each worker if it has several. Returns whether
  // all calls return true, or nothing.
  bool (*compute)(void* state) = nullptr;
  std::string library;        // The path that it was loaded from.
  bool reads_cycles = false;  // A codelet of its library does.
  // Path of the build that counts instructions, without its suffixes, and the number of the type there.
  std::string counted_library;
  std::size_t place = 0;

  // The place of a field; raises unknown_field, which lists the fields there are.
  std::uint32_t FieldOf(const std::string& field) const;
};

// A class of codelets in a library.
struct VertexClass {
  std::string cpp_name;            // As C++ writes it.
  std::vector<std::string> names;  // Normal names; enumerators may be written in two ways.
  VertexType type;
};

// The classes derived from poplar::Vertex, MultiVertex or SupervisorVertex in a library with debug information.
std::vector<VertexClass> FindVertexClasses(const std::string& library);

// The same as `compute`, of a build for CountedCall that is compiled at its first use.
bool (*CountedFunction(const VertexType& type))(void*);

// A type's name without what may be written in several ways: spaces, "unsigned int" and "unsigned".
std::string NormalName(const std::string& name);

// Compiles a source of codelets, or finds it compiled.
//
// Args:
//   source: Path of a file.
//   flags: Flags of the caller, separated by spaces.
//   what: The source as messages name it.
//
// Raises graph_program_compilation_error: g++ is missing, or refuses the source; file_load_error: the file cannot
// be read, or is none that this machine runs.
std::vector<std::shared_ptr<const VertexType>> CompileCodelets(const std::string& source, const std::string& flags,
                                                               const std::string& what);

// The same, as a library that CompileCodelets takes for a source.
std::string CompileToLibrary(const std::string& source, const std::string& flags, const std::string& what);

// The path without links; the path itself if there is no such file.
std::string RealPath(const std::string& path);

// Puts text into the folder of the cache and returns the path of the file.
std::string WriteToCache(const std::string& text, const std::string& suffix = ".cpp");

}  // namespace detail
}  // namespace ipu_tf
}  // namespace poplar

#endif  // IPU_TF_POPLAR_CODELETS_H_
