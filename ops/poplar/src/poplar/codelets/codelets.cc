#include "codelets.h"

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <sstream>

#include <poplar/exceptions.hpp>

#include "../base/environment.h"
#include "../base/prefix.h"
#include "codelet_files.h"
#include "codelet_library.h"

namespace poplar {
inline namespace ipu_tf {
namespace detail {
namespace {

// Changes with the layout of fields and with what codelets export.
constexpr const char* kVersion = "ipu_tf codelets 6";

// Rounding is that of the codelet's operations one by one: no fused multiply-adds but those it calls.
const std::vector<std::string>& CompileFlags() {
  static const std::vector<std::string> flags{
      "-std=c++17",
      "-fPIC",
      "-mavx2",
      "-mfma",
      "-mf16c",
      "-ffp-contract=off",
      "-w",
      "-D__POPC__=1",
      // The libraries of the chip's compiler have its names everywhere, too.
      "-include",
      "stdint.h",
      "-fno-strict-aliasing",
      "-fno-access-control",
  };
  return flags;
}

std::vector<std::string> SplitFlags(const std::string& flags) {
  std::istringstream stream(flags);
  return {std::istream_iterator<std::string>(stream), {}};
}

void CheckSuffix(const std::string& source, const std::string& what) {
  const std::size_t dot = source.rfind('.');
  const std::string suffix = dot == std::string::npos ? "" : source.substr(dot);
  if (suffix == ".S" || suffix == ".s") {
    throw file_load_error("The file " + what + " is assembly for the chip, which this machine does not run. Give the " +
                          "C++ of the codelet.");
  }
  if (!FileExists(source)) {
    throw file_load_error("There is no file of codelets " + what + ". Paths are relative to the working directory.");
  }
}

bool IsLibrary(const std::string& path) {
  std::ifstream stream(path, std::ios::binary);
  char magic[4] = {};
  stream.read(magic, sizeof magic);
  return std::memcmp(magic, "\177ELF", sizeof magic) == 0;
}

// Whether a codelet declares float2 for all its code, as that of ipudef.h is; headers for models do.
bool HasOwnVectors(const std::string& text) {
  static const std::string kDeclaration = "\nusing float2 ";
  const std::size_t first = text.find(kDeclaration);
  return first != std::string::npos && text.find(kDeclaration, first + 1) != std::string::npos;
}

}  // namespace

std::string CompileToLibrary(const std::string& source, const std::string& flags, const std::string& what) {
  const std::string cache = CacheFolder();
  const WorkFolder work(cache);
  const char* chosen = std::getenv("CXX");
  CodeletCompiler compiler{{chosen != nullptr && chosen[0] != '\0' ? chosen : "g++"}, what, work.File("log")};
  std::vector<std::string>& command = compiler.command;
  command.insert(command.end(), CompileFlags().begin(), CompileFlags().end());
  command.insert(command.end(), {"-O3", "-isystem", PrefixOf(&kVersion) + "/device"});
  const std::vector<std::string> own_flags = SplitFlags(flags);
  command.insert(command.end(), own_flags.begin(), own_flags.end());
  // The name of the library is a digest of all that it depends on: the text with its headers, flags, compiler.
  WriteFile(work.File("probe.cpp"), "static const char* ipu_tf_compiler = __VERSION__;\n#include " + Quoted(source) +
                                        "\n#include <ipu_tf_callers.h>\n");
  compiler.Run({"-E", "-P", work.File("probe.cpp"), "-o", work.File("probe.ii")});
  const std::string text = ReadFile(work.File("probe.ii"));
  if (HasOwnVectors(text)) command.push_back("-DIPU_TF_OWN_VECTORS");
  std::string all = kVersion + text;
  for (const std::string& word : command) all += '\0' + word;
  const std::string library = cache + "/" + Digest(all) + ".so";
  if (FileExists(library)) return library;
  // The fields come from the classes as the compiler sees them.
  compiler.Run({"-O0", "-gdwarf-4", "-gno-split-dwarf", "-fno-eliminate-unused-debug-types", "-shared",
                work.File("probe.cpp"), "-o", work.File("probe.so")});
  const std::vector<VertexClass> classes = FindVertexClasses(work.File("probe.so"));
  const std::string counted = library.substr(0, library.size() - 3) + ".counted";
  WriteFile(work.File("codelets.cpp"), Registration(source, classes, counted));
  compiler.Run({"-shared", work.File("codelets.cpp"), "-o", work.File("codelets.so")});
  // What counts instructions is compiled when a program asks for it, from this text and this command.
  std::string words;
  for (const std::string& word : command) words += word + '\n';
  WriteFile(counted + ".words", words);
  compiler.Run({"-E", "-P", "-DIPU_TF_COUNTED", work.File("codelets.cpp"), "-o", counted + ".ii"});
  RenameFile(work.File("codelets.so"), library);
  return library;
}

std::vector<std::shared_ptr<const VertexType>> CompileCodelets(const std::string& source, const std::string& flags,
                                                               const std::string& what) {
  CheckSuffix(source, what);
  if (IsLibrary(source)) return LoadCodelets(RealPath(source), what);
  const std::string suffix = source.size() < 3 ? "" : source.substr(source.size() - 3);
  if (suffix == ".gp") {
    throw file_load_error("The file " + what +
                          " holds codelets compiled for the chip, which this machine does not run. " +
                          "Give addCodelets the source.");
  }
  const auto started = std::chrono::steady_clock::now();
  const std::string library = CompileToLibrary(RealPath(source), flags, what);
  LogTime("compiled codelets of " + what + ", or found them compiled", started);
  return LoadCodelets(library, what);
}

}  // namespace detail
}  // namespace ipu_tf
}  // namespace poplar
