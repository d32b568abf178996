#include "environment.h"

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <iterator>
#include <string>
#include <string_view>

#include <poplar/exceptions.hpp>

namespace poplar {
inline namespace ipu_tf {
namespace detail {
namespace {

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

void AddOptionsOf(const char* variable, OptionFlags& options) {
  const char* const given = std::getenv(variable);
  if (given == nullptr || given[0] == '\0') return;
  if (ReadOptions(given, options)) return;
  throw invalid_option(std::string(variable) +
                       " must be a JSON object, such as {\"autoReport.all\": \"true\"}. Received: '" + given + "'.");
}

// What names of options begin with, and those that have an effect.
constexpr const char* kGroups[] = {"autoReport.", "debug.",    "exchange.",        "opt.",
                                   "prng.",       "profiler.", "streamCallbacks.", "target."};
constexpr const char* kEffective[] = {
    "autoReport.all",   "autoReport.directory",    "autoReport.outputExecutionProfile",
    "cycles",           "debug.allowOutOfMemory",  "debug.checkCodelets",
    "debug.instrument", "debug.instrumentCompute", "target.hostSyncTimeout"};

std::string Lower(std::string text) {
  for (char& one : text) one = static_cast<char>(std::tolower(static_cast<unsigned char>(one)));
  return text;
}

void CheckName(const std::string& name) {
  for (const char* const known : kEffective) {
    if (name == known) return;
    if (Lower(name) == Lower(known)) {
      throw invalid_option("There is no option '" + name + "' of engines. Write '" + known + "'.");
    }
  }
  const bool has_group = std::any_of(std::begin(kGroups), std::end(kGroups),
                                     [&](const std::string& group) { return name.rfind(group, 0) == 0; });
  if (has_group) return;
  std::string groups;
  for (const char* const group : kGroups) groups += std::string(groups.empty() ? "" : ", ") + group;
  throw invalid_option("There is no option '" + name + "' of engines. Names begin with " + groups +
                       "; cycles is one of this machine's own.");
}

// Whether a level of POPLAR_LOG_LEVEL shows what a program does.
bool ShowsInfo() {
  const char* const given = std::getenv("POPLAR_LOG_LEVEL");
  if (given == nullptr || given[0] == '\0') return false;
  const std::string level = given;
  for (const char* const shown : {"INFO", "DEBUG", "TRACE"}) {
    if (level == shown) return true;
  }
  for (const char* const hidden : {"OFF", "ERR", "WARN"}) {
    if (level == hidden) return false;
  }
  throw invalid_option("POPLAR_LOG_LEVEL is OFF, ERR, WARN, INFO, DEBUG or TRACE. Received: '" + level + "'.");
}

}  // namespace

OptionFlags EngineOptions(const OptionFlags& of_program) {
  OptionFlags options = of_program;
  AddOptionsOf("POPLAR_ENGINE_OPTIONS", options);
  AddOptionsOf("POPLAR_RUNTIME_OPTIONS", options);
  for (const auto& [name, value] : options) CheckName(name);
  return options;
}

bool IsTrue(const OptionFlags& options, const std::string& name) {
  const auto found = options.find(name);
  if (found == options.end() || found->second == "false") return false;
  if (found->second == "true") return true;
  throw invalid_option("The option " + name + " is \"true\" or \"false\". Received: \"" + found->second + "\".");
}

void LogTime(const std::string& what, std::chrono::steady_clock::time_point started) {
  if (!ShowsInfo()) return;
  const char* const given = std::getenv("POPLAR_LOG_DEST");
  const std::string destination = given == nullptr || given[0] == '\0' ? "stderr" : given;
  char seconds[32];
  std::snprintf(seconds, sizeof seconds, "%.3g",
                std::chrono::duration<double>(std::chrono::steady_clock::now() - started).count());
  const std::string line = "poplar: " + what + " (" + seconds + " s)\n";
  if (destination == "stderr") {
    std::cerr << line;
  } else if (destination == "stdout") {
    std::cout << line;
  } else if (!(std::ofstream(destination, std::ios::app) << line)) {
    throw invalid_option("POPLAR_LOG_DEST is stdout, stderr or a file that can be written. Received: '" + destination +
                         "'.");
  }
}

}  // namespace detail

void readJSON(StringRef text, OptionFlags& options) {
  if (detail::ReadOptions(std::string(text), options)) return;
  throw parse_error("readJSON: options are a JSON object, such as {\"autoReport.all\": \"true\"}. Received: '" +
                    std::string(text) + "'.");
}

void readJSON(std::istream& stream, OptionFlags& options) {
  readJSON(std::string(std::istreambuf_iterator<char>(stream), {}), options);
}

}  // namespace ipu_tf
}  // namespace poplar
