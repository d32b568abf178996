// popc: compiles codelets to a file that Graph::addCodelets loads.
#include <fstream>
#include <iostream>
#include <string>
#include <vector>

#include <poplar/Target.hpp>
#include <poplar/exceptions.hpp>

#include "../poplar/codelets/codelets.h"

namespace {

constexpr const char* kUsage =
    "usage: popc [FLAG...] FILE.cpp... -o FILE.gp\n"
    "Compiles codelets for the simulated machine. Flags go to the compiler; --target is read and left out.\n"
    "--version and --list-targets print what their names say.\n";

// Whether a word is an option with its value behind "=", with one dash or two.
bool IsTarget(const std::string& word) { return word.rfind("--target=", 0) == 0 || word.rfind("-target=", 0) == 0; }

bool IsSource(const std::string& word) {
  const std::size_t dot = word.rfind('.');
  const std::string suffix = dot == std::string::npos ? "" : word.substr(dot);
  return suffix != ".gp" && suffix != ".S" && suffix != ".s" && suffix != ".o" && suffix != ".so";
}

int Compile(const std::vector<std::string>& words) {
  std::string output;
  std::string flags;
  std::string text;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string& word = words[i];
    const bool has_next = i + 1 < words.size();
    if (word == "--version" || word == "--list-targets") {
      // Makefiles take the third word.
      const std::string version = "POPLAR version " + poplar::versionString() + " (the simulated machine of ipu_tf)\n";
      std::cout << (word == "--version" ? version : "ipu1\nipu2\ncpu\n");
      return 0;
    }
    if (word == "-S" || word == "--S" || word == "--emit-llvm") {
      throw poplar::poplar_error("popc " + word +
                                 " writes instructions of the chip, which this machine does not have.");
    }
    if (word == "-o" && has_next) {
      output = words[++i];
    } else if ((word == "--target" || word == "-target") && has_next) {
      ++i;
    } else if (IsTarget(word)) {
      continue;
    } else if ((word == "-I" || word == "-D") && has_next) {
      flags += " " + word + words[++i];
    } else if (word[0] == '-') {
      flags += " " + word;
    } else if (!IsSource(word)) {
      throw poplar::poplar_error(
          "popc takes sources in C++ or C; assembly, and files that it wrote, are none. Received: '" + word + "'.");
    } else {
      text += "#include \"" + poplar::detail::RealPath(word) + "\"\n";
    }
  }
  if (output.empty() || text.empty()) {
    std::cerr << kUsage;
    return 2;
  }
  const std::string library = poplar::detail::CompileToLibrary(poplar::detail::WriteToCache(text), flags, "popc");
  std::ofstream(output, std::ios::binary) << std::ifstream(library, std::ios::binary).rdbuf();
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return Compile({argv + 1, argv + argc});
  } catch (const poplar::poplar_error& error) {
    std::cerr << "error: " << error.what() << "\n";
    return 1;
  }
}
