// Text in JSON.
#ifndef IPU_TF_POPLAR_JSON_TEXT_H_
#define IPU_TF_POPLAR_JSON_TEXT_H_

#include <cstdio>
#include <string>

namespace poplar {
inline namespace ipu_tf {
namespace detail {

// A string of JSON with its quotes, which Graphviz reads, too.
inline std::string JsonText(const std::string& text) {
  std::string json = "\"";
  for (const char one : text) {
    if (one == '"' || one == '\\') json += '\\';
    if (static_cast<unsigned char>(one) >= 0x20) {
      json += one;
    } else {
      char code[8];
      std::snprintf(code, sizeof code, "\\u%04x", static_cast<unsigned>(one));
      json += code;
    }
  }
  return json + '"';
}

}  // namespace detail
}  // namespace ipu_tf
}  // namespace poplar

#endif  // IPU_TF_POPLAR_JSON_TEXT_H_
