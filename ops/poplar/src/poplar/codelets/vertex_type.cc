// What is known of a vertex type: its fields, and the ways in which its name may be written.
#include <cctype>
#include <utility>

#include <poplar/exceptions.hpp>

#include "codelets.h"

namespace poplar {
inline namespace ipu_tf {
namespace detail {

std::uint32_t VertexType::FieldOf(const std::string& field) const {
  for (std::uint32_t i = 0; i < fields.size(); ++i) {
    if (fields[i].name == field) return i;
  }
  std::string known;
  for (const Field& one : fields) known += (known.empty() ? "" : ", ") + one.name;
  throw unknown_field("The vertex type " + name + " has no field '" + field + "'. Its fields are: " + known + ".");
}

std::string NormalName(const std::string& name) {
  static const std::vector<std::pair<std::string, std::string>> spellings{
      {"long long unsigned int", "unsigned long long"},
      {"long unsigned int", "unsigned long"},
      {"short unsigned int", "unsigned short"},
      {"long long int", "long long"},
      {"long int", "long"},
      {"short int", "short"},
      {"unsigned int", "unsigned"},
      {"_Float16", "half"},
  };
  std::string text = name;
  for (const auto& [from, to] : spellings) {
    for (std::size_t at = 0; (at = text.find(from, at)) != std::string::npos;) text.replace(at, from.size(), to);
  }
  std::string normal;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool is_suffix = (text[i] == 'u' || text[i] == 'l') && !normal.empty() && std::isdigit(normal.back()) != 0 &&
                           (i + 1 == text.size() || std::isalnum(text[i + 1]) == 0);
    if (text[i] != ' ' && !is_suffix) normal += text[i];
  }
  return normal;
}

}  // namespace detail
}  // namespace ipu_tf
}  // namespace poplar
