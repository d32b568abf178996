// popc: compiles codelets to a file that Graph::addCodelets loads.
#include <fstream>
#include <iostream>
#include <string>
#include <vector>

#include <poplar/exceptions.hpp>

#include "../poplar/codelets.h"

namespace {

constexpr const char* kUsage =
    "usage: popc [FLAG...] FILE.cpp... -o FILE.gp\n"
    "Compiles codelets for the simulated machine. Flags go to the compiler; --target is read and left out.\n";

int Compile(const std::vector<std::string>& words) {
  std::string output;
  std::string flags;
  std::string text;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string& word = words[i];
    const bool has_next = i + 1 < words.size();
    if (word == "-o" && has_next) {
      output = words[++i];
    } else if (word == "--target" && has_next) {
      ++i;
    } else if (word.rfind("--target=", 0) == 0) {
      continue;
    } else if ((word == "-I" || word == "-D") && has_next) {
      flags += " " + word + words[++i];
    } else if (word[0] == '-') {
      flags += " " + word;
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
