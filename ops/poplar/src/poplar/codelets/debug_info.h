// Reads the classes of a shared library from its debug information (DWARF 4, as g++ -gdwarf-4 writes it).
#ifndef IPU_TF_POPLAR_DEBUG_INFO_H_
#define IPU_TF_POPLAR_DEBUG_INFO_H_

#include <cstdint>
#include <string>
#include <vector>

namespace poplar {
inline namespace ipu_tf {
namespace detail {

// An entry of the debug information.
struct DebugEntry {
  std::uint64_t offset = 0;
  std::uint32_t tag = 0;
  std::string name;
  std::uint64_t type = 0;  // Offset of another entry; 0 for none.
  std::uint64_t byte_size = 0;
  std::uint64_t location = 0;  // Of a member in its class.
  std::int64_t value = 0;
  bool is_declaration = false;
  bool is_static = false;  // A member without place in objects.
  std::size_t parent = 0;  // Number of an entry.
  std::vector<std::size_t> children;
};

namespace tag {
constexpr std::uint32_t kClass = 0x02;
constexpr std::uint32_t kEnumeration = 0x04;
constexpr std::uint32_t kMember = 0x0d;
constexpr std::uint32_t kPointer = 0x0f;
constexpr std::uint32_t kStructure = 0x13;
constexpr std::uint32_t kTypedef = 0x16;
constexpr std::uint32_t kInheritance = 0x1c;
constexpr std::uint32_t kBaseType = 0x24;
constexpr std::uint32_t kConst = 0x26;
constexpr std::uint32_t kEnumerator = 0x28;
constexpr std::uint32_t kTemplateType = 0x2f;
constexpr std::uint32_t kTemplateValue = 0x30;
constexpr std::uint32_t kVolatile = 0x35;
constexpr std::uint32_t kNamespace = 0x39;
}  // namespace tag

// All entries of a file; number 0 is none. Raises file_load_error if the file is not what g++ writes.
class DebugInfo {
 public:
  explicit DebugInfo(const std::string& path);

  const std::vector<DebugEntry>& entries() const { return entries_; }
  const DebugEntry& operator[](std::size_t number) const { return entries_[number]; }
  // The entry at an offset, through typedef, const and volatile; number 0 for none.
  std::size_t TypeAt(std::uint64_t offset) const;
  // The name with its namespaces and classes.
  std::string QualifiedName(std::size_t number) const;

 private:
  std::vector<DebugEntry> entries_;
};

}  // namespace detail
}  // namespace ipu_tf
}  // namespace poplar

#endif  // IPU_TF_POPLAR_DEBUG_INFO_H_
