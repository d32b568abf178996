// Names of the instances of codelet templates.
#ifndef IPU_TF_POPUTIL_VERTEX_TEMPLATES_HPP_
#define IPU_TF_POPUTIL_VERTEX_TEMPLATES_HPP_

#include <string>
#include <type_traits>

#include <poplar/StringRef.hpp>
#include <poplar/Type.hpp>

namespace poputil {
inline namespace ipu_tf {

inline std::string templateArgument(const poplar::Type& type) { return type.toString(); }
inline std::string templateArgument(bool value) { return value ? "true" : "false"; }
inline std::string templateArgument(poplar::StringRef text) { return std::string(text); }
inline std::string templateArgument(const char* text) { return text; }
template <typename T, std::enable_if_t<std::is_integral<T>::value && !std::is_same<T, bool>::value, int> = 0>
std::string templateArgument(T value) {
  return std::to_string(value);
}

// templateVertex("ns::Sum", FLOAT, true) is "ns::Sum<float,true>".
inline std::string templateVertex(const std::string& name) { return name; }
template <typename First, typename... More>
std::string templateVertex(const std::string& name, const First& first, const More&... more) {
  std::string text = name + "<" + templateArgument(first);
  ((text += "," + templateArgument(more)), ...);
  return text + ">";
}

}  // namespace ipu_tf
}  // namespace poputil

#endif  // IPU_TF_POPUTIL_VERTEX_TEMPLATES_HPP_
