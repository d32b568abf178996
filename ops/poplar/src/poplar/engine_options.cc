#include "engine_options.h"

#include <cstdlib>
#include <regex>
#include <string>

#include <poplar/exceptions.hpp>

namespace poplar {
inline namespace ipu_tf {
namespace detail {

OptionFlags EnvironmentOptions() {
  constexpr const char* kVariable = "POPLAR_ENGINE_OPTIONS";
  const char* const given = std::getenv(kVariable);
  OptionFlags options;
  if (given == nullptr || given[0] == '\0') return options;
  const std::string text = given;
  const std::string pair = R"re("([^"\\]*)"\s*:\s*(?:"([^"\\]*)"|(true|false|[-+.0-9eE]+)))re";
  const std::regex whole("\\s*\\{\\s*(?:" + pair + "\\s*(?:,\\s*" + pair + "\\s*)*)?\\}\\s*");
  if (!std::regex_match(text, whole)) {
    throw invalid_option(std::string(kVariable) +
                         " must be a JSON object, such as {\"autoReport.all\": \"true\"}. Received: '" + text + "'.");
  }
  const std::regex each(pair);
  for (std::sregex_iterator one(text.begin(), text.end(), each); one != std::sregex_iterator(); ++one) {
    options.set((*one)[1].str(), (*one)[2].matched ? (*one)[2].str() : (*one)[3].str());
  }
  return options;
}

}  // namespace detail
}  // namespace ipu_tf
}  // namespace poplar
