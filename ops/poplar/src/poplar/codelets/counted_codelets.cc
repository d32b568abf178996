// Builds of codelets that count their instructions, made when a program asks for them.
#include <dlfcn.h>

#include <map>
#include <mutex>
#include <sstream>

#include <poplar/exceptions.hpp>

#include "codelet_files.h"
#include "codelets.h"
#include "instruction_counts.h"

namespace poplar {
inline namespace ipu_tf {
namespace detail {
namespace {

// Compiles the build that counts, unless it is there.
void CompileCounted(const std::string& counted, const std::string& what) {
  const std::string library = counted + ".so";
  if (FileExists(library)) return;
  if (!FileExists(counted + ".ii")) {
    throw file_load_error("The instructions of " + what + " cannot be counted: " + counted +
                          ".ii is gone. Compile the codelets again.");
  }
  const WorkFolder work(CacheFolder());
  CodeletCompiler compiler{{}, what, work.File("log")};
  std::istringstream stream(ReadFile(counted + ".words"));
  for (std::string word; std::getline(stream, word);) compiler.command.push_back(word);
  compiler.Run({"-O2", "-fno-tree-vectorize", "-ffixed-r15", "-fcf-protection=none", "-fno-asynchronous-unwind-tables",
                "-g0", "-S", counted + ".ii", "-o", work.File("counted.s")});
  WriteFile(work.File("slots.s"), CountedAssembly(ReadFile(work.File("counted.s"))));
  compiler.Run({"-shared", work.File("slots.s"), "-o", work.File("codelets.so")});
  RenameFile(work.File("codelets.so"), library);
}

}  // namespace

bool (*CountedFunction(const VertexType& type))(void*) {
  static std::mutex mutex;
  static std::map<std::string, bool (*const*)(void*)> loaded;
  const std::lock_guard<std::mutex> lock(mutex);
  auto& functions = loaded[type.counted_library];
  if (functions == nullptr) {
    CompileCounted(type.counted_library, type.name);
    const std::string library = type.counted_library + ".so";
    void* handle = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle == nullptr) throw file_load_error("The codelets of " + type.name + " do not load: " + dlerror() + ".");
    functions = static_cast<bool (*const*)(void*)>(dlsym(handle, "ipu_tf_compute"));
  }
  return functions[type.place];
}

}  // namespace detail
}  // namespace ipu_tf
}  // namespace poplar
