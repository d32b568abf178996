#include "debug_info.h"

#include <elf.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <iterator>
#include <unordered_map>

#include <poplar/exceptions.hpp>

namespace poplar {
inline namespace ipu_tf {
namespace detail {
namespace {

// Attributes and forms by their numbers in the DWARF 4 standard, sections 7.5.4 and 7.5.5.
constexpr std::uint32_t kAttributeName = 0x03;
constexpr std::uint32_t kAttributeByteSize = 0x0b;
constexpr std::uint32_t kAttributeConstValue = 0x1c;
constexpr std::uint32_t kAttributeMemberLocation = 0x38;
constexpr std::uint32_t kAttributeDeclaration = 0x3c;
constexpr std::uint32_t kAttributeExternal = 0x3f;
constexpr std::uint32_t kAttributeType = 0x49;

class Reader {
 public:
  Reader(const std::string& path, const std::uint8_t* at, const std::uint8_t* end) : path_(path), at_(at), end_(end) {}

  bool AtEnd() const { return at_ >= end_; }
  const std::uint8_t* at() const { return at_; }

  template <typename T>
  T Fixed() {
    T value;
    Need(sizeof value);
    std::memcpy(&value, at_, sizeof value);
    at_ += sizeof value;
    return value;
  }

  std::uint64_t Unsigned() {
    std::uint64_t value = 0;
    for (unsigned shift = 0;; shift += 7) {
      const auto byte = Fixed<std::uint8_t>();
      if (shift < 64) value |= std::uint64_t{byte & 0x7fu} << shift;
      if ((byte & 0x80) == 0) return value;
    }
  }

  std::int64_t Signed() {
    std::uint64_t value = 0;
    unsigned shift = 0;
    std::uint8_t byte = 0;
    do {
      byte = Fixed<std::uint8_t>();
      if (shift < 64) value |= std::uint64_t{byte & 0x7fu} << shift;
      shift += 7;
    } while ((byte & 0x80) != 0);
    if (shift < 64 && (byte & 0x40) != 0) value |= ~std::uint64_t{0} << shift;
    return static_cast<std::int64_t>(value);
  }

  std::string Text() {
    const auto* stop = static_cast<const std::uint8_t*>(std::memchr(at_, 0, static_cast<std::size_t>(end_ - at_)));
    if (stop == nullptr) Need(static_cast<std::size_t>(end_ - at_) + 1);
    std::string text(at_, stop);
    at_ = stop + 1;
    return text;
  }

  void Skip(std::uint64_t bytes) {
    Need(bytes);
    at_ += bytes;
  }

 private:
  void Need(std::uint64_t bytes) const {
    if (static_cast<std::uint64_t>(end_ - at_) < bytes) {
      throw file_load_error("The debug information of " + path_ + " ends too early.");
    }
  }

  const std::string& path_;
  const std::uint8_t* at_;
  const std::uint8_t* end_;
};

struct Section {
  const std::uint8_t* begin = nullptr;
  const std::uint8_t* end = nullptr;
};

class File {
 public:
  explicit File(const std::string& path) : path_(path) {
    std::ifstream stream(path, std::ios::binary);
    bytes_.assign(std::istreambuf_iterator<char>(stream), {});
    Elf64_Ehdr header;
    if (bytes_.size() < sizeof header) throw file_load_error("The file " + path + " is not a shared library.");
    std::memcpy(&header, bytes_.data(), sizeof header);
    for (unsigned i = 0; i < header.e_shnum; ++i)
      sections_.push_back(At<Elf64_Shdr>(header.e_shoff + i * sizeof(Elf64_Shdr)));
    names_ = header.e_shstrndx;
  }

  Section Find(const std::string& name) const {
    for (const Elf64_Shdr& one : sections_) {
      if (name != reinterpret_cast<const char*>(bytes_.data() + sections_[names_].sh_offset + one.sh_name)) continue;
      if (one.sh_offset + one.sh_size > bytes_.size()) break;
      return {bytes_.data() + one.sh_offset, bytes_.data() + one.sh_offset + one.sh_size};
    }
    throw file_load_error("The file " + path_ + " has no whole section " + name + ".");
  }

 private:
  template <typename T>
  T At(std::uint64_t offset) const {
    T value;
    if (offset + sizeof value > bytes_.size()) throw file_load_error("The file " + path_ + " is cut short.");
    std::memcpy(&value, bytes_.data() + offset, sizeof value);
    return value;
  }

  const std::string& path_;
  std::vector<std::uint8_t> bytes_;
  std::vector<Elf64_Shdr> sections_;
  std::size_t names_ = 0;
};

struct Abbreviation {
  std::uint32_t tag = 0;
  bool has_children = false;
  std::vector<std::pair<std::uint32_t, std::uint32_t>> attributes;  // Name and form.
};

std::unordered_map<std::uint64_t, Abbreviation> ReadAbbreviations(Reader reader) {
  std::unordered_map<std::uint64_t, Abbreviation> found;
  while (const std::uint64_t code = reader.Unsigned()) {
    Abbreviation& one = found[code];
    one.tag = static_cast<std::uint32_t>(reader.Unsigned());
    one.has_children = reader.Fixed<std::uint8_t>() != 0;
    while (true) {
      const auto attribute = static_cast<std::uint32_t>(reader.Unsigned());
      const auto form = static_cast<std::uint32_t>(reader.Unsigned());
      if (attribute == 0 && form == 0) break;
      one.attributes.emplace_back(attribute, form);
    }
  }
  return found;
}

struct Value {
  std::uint64_t number = 0;
  std::string text;
};

Value ReadValue(Reader* reader, std::uint32_t form, std::uint64_t unit, const Section& strings,
                const std::string& path) {
  Value value;
  switch (form) {
    case 0x01:  // addr
    case 0x07:  // data8
    case 0x20:  // ref_sig8
      value.number = reader->Fixed<std::uint64_t>();
      break;
    case 0x03:  // block2
      reader->Skip(reader->Fixed<std::uint16_t>());
      break;
    case 0x04:  // block4
      reader->Skip(reader->Fixed<std::uint32_t>());
      break;
    case 0x05:  // data2
      value.number = reader->Fixed<std::uint16_t>();
      break;
    case 0x06:  // data4
    case 0x10:  // ref_addr
    case 0x17:  // sec_offset
      value.number = reader->Fixed<std::uint32_t>();
      break;
    case 0x08:  // string
      value.text = reader->Text();
      break;
    case 0x09:  // block
    case 0x18:  // exprloc
      reader->Skip(reader->Unsigned());
      break;
    case 0x0a:  // block1
      reader->Skip(reader->Fixed<std::uint8_t>());
      break;
    case 0x0b:  // data1
    case 0x0c:  // flag
      value.number = reader->Fixed<std::uint8_t>();
      break;
    case 0x0d:  // sdata
      value.number = static_cast<std::uint64_t>(reader->Signed());
      break;
    case 0x0e: {  // strp
      const auto offset = reader->Fixed<std::uint32_t>();
      value.text = Reader(path, std::min(strings.begin + offset, strings.end), strings.end).Text();
      break;
    }
    case 0x0f:  // udata
      value.number = reader->Unsigned();
      break;
    case 0x11:  // ref1
      value.number = unit + reader->Fixed<std::uint8_t>();
      break;
    case 0x12:  // ref2
      value.number = unit + reader->Fixed<std::uint16_t>();
      break;
    case 0x13:  // ref4
      value.number = unit + reader->Fixed<std::uint32_t>();
      break;
    case 0x14:  // ref8
      value.number = unit + reader->Fixed<std::uint64_t>();
      break;
    case 0x19:  // flag_present
      value.number = 1;
      break;
    default:
      throw file_load_error("The debug information of " + path + " has a form that is not of DWARF 4: " +
                            std::to_string(form) + ". Set CXX to a g++ that knows -gdwarf-4.");
  }
  return value;
}

void Enter(DebugEntry* entry, std::uint32_t attribute, const Value& value) {
  switch (attribute) {
    case kAttributeName:
      entry->name = value.text;
      break;
    case kAttributeByteSize:
      entry->byte_size = value.number;
      break;
    case kAttributeConstValue:
      entry->value = static_cast<std::int64_t>(value.number);
      break;
    case kAttributeMemberLocation:
      entry->location = value.number;
      break;
    case kAttributeDeclaration:
      entry->is_declaration = value.number != 0;
      break;
    case kAttributeExternal:
      entry->is_static = value.number != 0;
      break;
    case kAttributeType:
      entry->type = value.number;
      break;
    default:
      break;
  }
}

}  // namespace

DebugInfo::DebugInfo(const std::string& path) {
  const File file(path);
  const Section info = file.Find(".debug_info");
  const Section abbreviations = file.Find(".debug_abbrev");
  const Section strings = file.Find(".debug_str");
  entries_.emplace_back();
  Reader units(path, info.begin, info.end);
  while (!units.AtEnd()) {
    const auto unit = static_cast<std::uint64_t>(units.at() - info.begin);
    const auto length = units.Fixed<std::uint32_t>();
    Reader reader(path, units.at(), std::min(units.at() + length, info.end));
    units.Skip(length);
    const auto version = reader.Fixed<std::uint16_t>();
    const auto abbreviation_offset = reader.Fixed<std::uint32_t>();
    reader.Fixed<std::uint8_t>();
    if (version != 4) continue;  // Of libraries of the compiler.
    const auto known = ReadAbbreviations(
        Reader(path, std::min(abbreviations.begin + abbreviation_offset, abbreviations.end), abbreviations.end));
    std::vector<std::size_t> open{0};
    while (!reader.AtEnd()) {
      const auto offset = static_cast<std::uint64_t>(reader.at() - info.begin);
      const std::uint64_t code = reader.Unsigned();
      if (code == 0) {
        if (open.size() > 1) open.pop_back();
        continue;
      }
      const auto found = known.find(code);
      if (found == known.end()) throw file_load_error("The debug information of " + path + " is damaged.");
      DebugEntry entry;
      entry.offset = offset;
      entry.tag = found->second.tag;
      entry.parent = open.back();
      for (const auto& [attribute, form] : found->second.attributes) {
        Enter(&entry, attribute, ReadValue(&reader, form, unit, strings, path));
      }
      const std::size_t number = entries_.size();
      entries_.push_back(std::move(entry));
      if (open.back() != 0) entries_[open.back()].children.push_back(number);
      if (found->second.has_children) open.push_back(number);
    }
  }
}

std::size_t DebugInfo::TypeAt(std::uint64_t offset) const {
  while (offset != 0) {
    const auto at = std::lower_bound(entries_.begin() + 1, entries_.end(), offset,
                                     [](const DebugEntry& entry, std::uint64_t o) { return entry.offset < o; });
    if (at == entries_.end() || at->offset != offset) return 0;
    if (at->tag != tag::kTypedef && at->tag != tag::kConst && at->tag != tag::kVolatile) {
      return static_cast<std::size_t>(at - entries_.begin());
    }
    offset = at->type;
  }
  return 0;
}

std::string DebugInfo::QualifiedName(std::size_t number) const {
  std::string name = entries_[number].name;
  for (std::size_t up = entries_[number].parent; up != 0; up = entries_[up].parent) {
    const std::uint32_t kind = entries_[up].tag;
    if (kind != tag::kNamespace && kind != tag::kClass && kind != tag::kStructure) break;
    if (!entries_[up].name.empty()) name = entries_[up].name + "::" + name;
  }
  return name;
}

}  // namespace detail
}  // namespace ipu_tf
}  // namespace poplar
