#include "codelets.h"

#include <algorithm>
#include <map>
#include <set>

#include "debug_info.h"

namespace poplar {
inline namespace ipu_tf {
namespace detail {
namespace {

// Numbers of VectorLayout and VectorListLayout in device/poplar/Vertex.hpp.
constexpr std::int64_t kSpan = 2;
constexpr std::int64_t kShortSpan = 3;
constexpr std::uint32_t kMostOfShortSpan = (1 << 11) - 1;  // A count of 11 bits.

const std::map<std::string, Type>& TypesByName() {
  static const std::map<std::string, Type> types{
      {"bool", BOOL},
      {"char", CHAR},
      {"signed char", SIGNED_CHAR},
      {"unsigned char", UNSIGNED_CHAR},
      {"short int", SHORT},
      {"short unsigned int", UNSIGNED_SHORT},
      {"int", INT},
      {"unsigned int", UNSIGNED_INT},
      {"long int", LONGLONG},
      {"long unsigned int", UNSIGNED_LONGLONG},
      {"long long int", LONGLONG},
      {"long long unsigned int", UNSIGNED_LONGLONG},
      {"_Float16", HALF},
      {"float", FLOAT},
  };
  return types;
}

// An edge that no tensor fits.
struct Unsupported {
  std::string why;
};

class Finder {
 public:
  explicit Finder(const std::string& library) : info_(library) {}

  std::vector<VertexClass> Find() {
    std::vector<VertexClass> found;
    std::set<std::string> seen;
    for (std::size_t i = 1; i < info_.entries().size(); ++i) {
      const DebugEntry& entry = info_[i];
      const bool is_class = entry.tag == tag::kClass || entry.tag == tag::kStructure;
      if (!is_class || entry.is_declaration || entry.name.empty() || !IsVertex(i)) continue;
      const std::string name = info_.QualifiedName(i);
      if (name.rfind("poplar::", 0) == 0 || !seen.insert(name).second) continue;
      found.push_back(ClassOf(i, name));
    }
    return found;
  }

 private:
  bool IsVertex(std::size_t number) const {
    for (const std::size_t child : info_[number].children) {
      if (info_[child].tag != tag::kInheritance) continue;
      const std::size_t base = info_.TypeAt(info_[child].type);
      if (base == 0) continue;
      const std::string name = info_.QualifiedName(base);
      if (name == "poplar::Vertex" || name == "poplar::MultiVertex" || name == "poplar::SupervisorVertex") return true;
      if (IsVertex(base)) return true;
    }
    return false;
  }

  VertexClass ClassOf(std::size_t number, const std::string& name) const {
    VertexClass found;
    found.cpp_name = name;
    found.names = NamesOf(number, name);
    found.type.name = found.names.front();
    found.type.size = static_cast<std::uint32_t>(info_[number].byte_size);
    try {
      AddFields(number, 0, &found.type.fields);
    } catch (const Unsupported& error) {
      found.type.refusal = error.why;
    }
    return found;
  }

  std::vector<std::string> NamesOf(std::size_t number, const std::string& name) const {
    std::string scoped = name;
    std::string plain = name;
    for (const std::size_t child : info_[number].children) {
      if (info_[child].tag != tag::kTemplateValue) continue;
      const std::size_t type = info_.TypeAt(info_[child].type);
      if (type == 0 || info_[type].tag != tag::kEnumeration) continue;
      const std::string enumeration = info_.QualifiedName(type);
      const std::string written = "(" + enumeration + ")" + std::to_string(info_[child].value);
      const std::size_t colon = enumeration.rfind("::");
      for (const std::size_t one : info_[type].children) {
        if (info_[one].tag != tag::kEnumerator || info_[one].value != info_[child].value) continue;
        Replace(&scoped, written, enumeration + "::" + info_[one].name);
        Replace(&plain, written,
                (colon == std::string::npos ? "" : enumeration.substr(0, colon + 2)) + info_[one].name);
        break;
      }
    }
    std::vector<std::string> names{NormalName(scoped)};
    if (plain != scoped) names.push_back(NormalName(plain));
    return names;
  }

  static void Replace(std::string* text, const std::string& from, const std::string& to) {
    const std::size_t at = text->find(from);
    if (at != std::string::npos) text->replace(at, from.size(), to);
  }

  void AddFields(std::size_t number, std::uint64_t offset, std::vector<Field>* fields) const {
    for (const std::size_t child : info_[number].children) {
      const DebugEntry& entry = info_[child];
      if (entry.tag == tag::kInheritance) {
        const std::size_t base = info_.TypeAt(entry.type);
        if (base != 0) AddFields(base, offset + entry.location, fields);
      } else if (entry.tag == tag::kMember && !entry.is_static && !entry.is_declaration &&
                 entry.name.rfind("_vptr", 0) != 0) {
        const std::size_t type = info_.TypeAt(entry.type);
        Field field;
        field.name = entry.name;
        field.offset = static_cast<std::uint32_t>(offset + entry.location);
        SetType(type, &field);
        fields->push_back(field);
      }
    }
  }

  // The class template that a type is an instance of: "Input" for poplar::Input<...>; empty for others.
  std::string TemplateOf(std::size_t type) const {
    const std::string name = info_.QualifiedName(type);
    if (name.rfind("poplar::", 0) != 0) return {};
    return name.substr(8, name.find('<') - 8);
  }

  std::size_t TypeArgument(std::size_t type) const {
    for (const std::size_t child : info_[type].children) {
      if (info_[child].tag == tag::kTemplateType) return info_.TypeAt(info_[child].type);
    }
    return 0;
  }

  std::int64_t ValueArgument(std::size_t type, unsigned place) const {
    for (const std::size_t child : info_[type].children) {
      if (info_[child].tag == tag::kTemplateValue && place-- == 0) return info_[child].value;
    }
    return 0;
  }

  static Direction DirectionOf(const std::string& name) {
    if (name == "Input") return Direction::kInput;
    if (name == "Output") return Direction::kOutput;
    return name == "InOut" ? Direction::kInOut : Direction::kNone;
  }

  Type ElementType(std::size_t type, const Field& field) const {
    const auto found = TypesByName().find(info_[type].name);
    if (info_[type].tag != tag::kBaseType || found == TypesByName().end()) {
      throw Unsupported{"its field " + field.name + " has elements of " + info_.QualifiedName(type) +
                        ", which is no type of tensors"};
    }
    return found->second;
  }

  void SetVector(std::size_t vector, Field* field) const {
    const std::int64_t layout = ValueArgument(vector, 0);
    field->has_count = layout == kSpan || layout == kShortSpan;
    if (layout == kShortSpan) field->most_elements = kMostOfShortSpan;
    field->alignment = static_cast<std::uint32_t>(std::max<std::int64_t>(1, ValueArgument(vector, 1)));
    field->type = ElementType(TypeArgument(vector), *field);
  }

  void SetEdge(std::size_t of, Field* field) const {
    const std::string name = TemplateOf(of);
    if (name == "Vector") {
      field->kind = FieldKind::kEdgeVector;
      SetVector(of, field);
    } else if (name == "VectorList") {
      field->kind = FieldKind::kEdgeList;
      SetVector(of, field);
      field->has_count = true;
      field->most_elements = Field().most_elements;
      field->rows_have_count = true;
    } else {
      field->kind = FieldKind::kEdge;
      field->type = ElementType(of, *field);
      field->alignment = static_cast<std::uint32_t>(info_[of].byte_size);
    }
  }

  void SetType(std::size_t type, Field* field) const {
    const std::string name = TemplateOf(type);
    field->direction = DirectionOf(name);
    if (field->direction != Direction::kNone) return SetEdge(TypeArgument(type), field);
    if (name != "Vector") {
      SetValue(type, field);
      return;
    }
    // A list of numbers, or of edges.
    const std::size_t of = TypeArgument(type);
    field->direction = DirectionOf(TemplateOf(of));
    if (field->direction == Direction::kNone) {
      field->kind = FieldKind::kValues;
      return SetVector(type, field);
    }
    SetEdge(TypeArgument(of), field);
    const std::int64_t layout = ValueArgument(type, 0);
    const bool is_scalar = field->kind == FieldKind::kEdge;
    if (is_scalar) {
      throw Unsupported{"its field " + field->name + " is a list of scalar edges; write " +
                        "Input<Vector<T>> for elements, or Vector<Input<Vector<T>>> for rows"};
    }
    field->rows_have_count = field->has_count;
    field->kind = FieldKind::kEdgeList;
    field->has_count = layout == kSpan || layout == kShortSpan;
  }

  void SetValue(std::size_t type, Field* field) const {
    field->kind = FieldKind::kValue;
    if (info_[type].tag == tag::kEnumeration) {
      field->type = info_[type].byte_size == 1 ? UNSIGNED_CHAR : info_[type].byte_size == 2 ? UNSIGNED_SHORT : INT;
      return;
    }
    const auto found = TypesByName().find(info_[type].name);
    if (info_[type].tag != tag::kBaseType || found == TypesByName().end()) {
      field->kind = FieldKind::kOwn;
    } else {
      field->type = found->second;
    }
  }

  DebugInfo info_;
};

}  // namespace

std::vector<VertexClass> FindVertexClasses(const std::string& library) { return Finder(library).Find(); }

}  // namespace detail
}  // namespace ipu_tf
}  // namespace poplar
