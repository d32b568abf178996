// A name: a string of any kind.
#ifndef IPU_TF_POPLAR_STRING_REF_HPP_
#define IPU_TF_POPLAR_STRING_REF_HPP_

#include <string>
#include <string_view>

namespace poplar {
inline namespace ipu_tf {

class StringRef : public std::string_view {
 public:
  constexpr StringRef() = default;
  constexpr StringRef(const char* text) : std::string_view(text) {}
  constexpr StringRef(std::string_view text) : std::string_view(text) {}
  StringRef(const std::string& text) : std::string_view(text) {}

  std::string cloneAsString() const { return std::string(*this); }
  operator std::string() const { return std::string(data(), size()); }
};

}  // namespace ipu_tf
}  // namespace poplar

#endif  // IPU_TF_POPLAR_STRING_REF_HPP_
