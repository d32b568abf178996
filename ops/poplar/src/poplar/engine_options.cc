#include "engine_options.h"

#include <cctype>
#include <cstdlib>
#include <string>
#include <string_view>

#include <poplar/exceptions.hpp>

namespace poplar {
inline namespace ipu_tf {
namespace detail {
namespace {

constexpr const char* kVariable = "POPLAR_ENGINE_OPTIONS";

// Reads a JSON object of strings without escapes, numbers and booleans.
class ObjectReader {
 public:
  explicit ObjectReader(std::string_view text) : rest_(text) {}

  // Takes a character, behind spaces, if it is the next one.
  bool Take(char wanted) {
    SkipSpaces();
    if (rest_.empty() || rest_.front() != wanted) return false;
    rest_.remove_prefix(1);
    return true;
  }

  bool ReadString(std::string& found) {
    if (!Take('"')) return false;
    const size_t end = rest_.find_first_of("\"\\");
    if (end == std::string_view::npos || rest_[end] != '"') return false;
    found = rest_.substr(0, end);
    rest_.remove_prefix(end + 1);
    return true;
  }

  bool ReadValue(std::string& found) {
    if (ReadString(found)) return true;
    const size_t end = rest_.find_first_of(" \t\n\r,}");
    if (end == 0 || end == std::string_view::npos) return false;
    found = rest_.substr(0, end);
    rest_.remove_prefix(end);
    return found == "true" || found == "false" || found.find_first_not_of("-+.0123456789eE") == std::string::npos;
  }

  bool AtEnd() {
    SkipSpaces();
    return rest_.empty();
  }

 private:
  void SkipSpaces() {
    while (!rest_.empty() && std::isspace(static_cast<unsigned char>(rest_.front()))) rest_.remove_prefix(1);
  }

  std::string_view rest_;
};

bool ReadOptions(const std::string& text, OptionFlags& options) {
  ObjectReader reader(text);
  if (!reader.Take('{')) return false;
  if (reader.Take('}')) return reader.AtEnd();
  do {
    std::string name, value;
    if (!reader.ReadString(name) || !reader.Take(':') || !reader.ReadValue(value)) return false;
    options.set(name, value);
  } while (reader.Take(','));
  return reader.Take('}') && reader.AtEnd();
}

}  // namespace

OptionFlags EnvironmentOptions() {
  const char* const given = std::getenv(kVariable);
  OptionFlags options;
  if (given == nullptr || given[0] == '\0') return options;
  if (!ReadOptions(given, options)) {
    throw invalid_option(std::string(kVariable) +
                         " must be a JSON object, such as {\"autoReport.all\": \"true\"}. Received: '" + given + "'.");
  }
  return options;
}

}  // namespace detail
}  // namespace ipu_tf
}  // namespace poplar
