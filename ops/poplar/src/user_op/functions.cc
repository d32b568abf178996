#include "functions.h"

#include <cxxabi.h>
#include <dlfcn.h>
#include <elf.h>
#include <link.h>

#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>

namespace poplar {
inline namespace ipu_tf {
namespace user_op {
namespace {

constexpr int kNewestLevel = 5;
constexpr int kWithAttributes = 2;
constexpr int kWithAliases = 3;
constexpr int kWithHashable = 4;

using program::Program;
using Tensors = std::vector<Tensor>;
using Text = const std::string&;
using Indices = std::vector<std::int64_t>;
using Aliases = std::map<std::int64_t, std::int64_t>;
using Shape = std::vector<std::size_t>;

template <typename Function>
Function* As(void* symbol) {
  return reinterpret_cast<Function*>(symbol);
}

// Calls work(name) for the names of the functions that a library exports, until it returns true.
template <typename Work>
void ForNames(void* library, const Work& work) {
  link_map* map = nullptr;
  if (dlinfo(library, RTLD_DI_LINKMAP, &map) != 0) return;
  const ElfW(Sym)* symbols = nullptr;
  const char* names = nullptr;
  for (const ElfW(Dyn)* entry = map->l_ld; entry->d_tag != DT_NULL; ++entry) {
    if (entry->d_tag == DT_SYMTAB) symbols = reinterpret_cast<const ElfW(Sym)*>(entry->d_un.d_ptr);
    if (entry->d_tag == DT_STRTAB) names = reinterpret_cast<const char*>(entry->d_un.d_ptr);
  }
  // Linkers put the names behind the table of symbols.
  const auto* const end = reinterpret_cast<const ElfW(Sym)*>(names);
  if (symbols == nullptr || symbols > end) return;
  for (; symbols < end; ++symbols) {
    if (symbols->st_shndx != SHN_UNDEF && work(std::string(names + symbols->st_name))) return;
  }
}

// A function of this name with the name that C++ gives it, as it is written; empty if there is none.
std::string MangledFunction(void* library, const std::string& name) {
  const std::string start = "_Z" + std::to_string(name.size()) + name;
  std::string found;
  ForNames(library, [&](const std::string& one) {
    if (one.rfind(start, 0) != 0) return false;
    int status = 0;
    const std::unique_ptr<char, void (*)(void*)> plain(abi::__cxa_demangle(one.c_str(), nullptr, nullptr, &status),
                                                       std::free);
    found = plain == nullptr ? one : plain.get();
    return true;
  });
  return found;
}

// Libraries stay open: codelets and programs of an op may be used for as long as the process lives.
void* Opened(const std::string& path) {
  void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library != nullptr) return library;
  const char* const why = dlerror();
  throw Error("the library cannot be loaded: " + std::string(why == nullptr ? path : why) +
              ". Compile it against the headers that `ipu-tf poplar-config` names; libraries that were built with the "
              "vendor's SDK do not run here.");
}

int LevelOf(void* library, const std::string& path) {
  const void* const symbol = dlsym(library, "custom_op_api_level");
  const std::string advice = " Write extern \"C\" { int32_t custom_op_api_level = " + std::to_string(kNewestLevel) +
                             "; } and the functions of that level.";
  if (symbol == nullptr) throw Error("the library '" + path + "' has no `custom_op_api_level`." + advice);
  std::int32_t level = 0;
  std::memcpy(&level, symbol, sizeof level);
  if (level >= 1 && level <= kNewestLevel) return level;
  throw Error("`custom_op_api_level` of the library '" + path + "' must be from 1 to " + std::to_string(kNewestLevel) +
              "." + advice + " Received: " + std::to_string(level) + ".");
}

// A function that may be missing, but not be there without extern "C".
void* Optional(void* library, const std::string& name) {
  void* const symbol = dlsym(library, name.c_str());
  if (symbol != nullptr) return symbol;
  const std::string found = MangledFunction(library, name);
  if (found.empty()) return nullptr;
  throw Error("the function `" + found + "` cannot be found by its name. Declare it as extern \"C\".");
}

}  // namespace

Functions::Functions(const std::string& path, const std::string& name) {
  void* const library = Opened(path);
  level_ = LevelOf(library, path);
  build_ = Optional(library, name);
  if (build_ == nullptr) {
    throw Error("the library '" + path + "' has no function `" + name + "`. Write it, and declare it as extern \"C\".");
  }
  metadata_ = Optional(library, name + "_metadata");
  allocator_ = Optional(library, name + "_allocator");
}

Metadata Functions::MetadataOf(std::uint32_t inputs) const {
  Metadata found;
  if (metadata_ == nullptr) return found;
  bool is_elementwise = false;
  bool is_hashable = false;
  std::uint32_t in_place = 0;
  Aliases aliases;
  Indices identical;
  if (level_ < kWithAliases) {
    As<void(Indices&, std::uint32_t&, bool&, bool&, std::uint32_t)>(metadata_)(
        found.allocating, in_place, is_elementwise, found.is_stateless, inputs);
  } else if (level_ < kWithHashable) {
    As<void(Indices&, Aliases&, bool&, bool&, std::uint32_t)>(metadata_)(found.allocating, aliases, is_elementwise,
                                                                         found.is_stateless, inputs);
  } else if (level_ < kNewestLevel) {
    As<void(Indices&, Aliases&, bool&, bool&, bool&, std::uint32_t)>(metadata_)(
        found.allocating, aliases, is_elementwise, found.is_stateless, is_hashable, inputs);
  } else {
    As<void(Indices&, Indices&, Aliases&, bool&, bool&, bool&, std::uint32_t)>(metadata_)(
        found.allocating, identical, aliases, is_elementwise, found.is_stateless, is_hashable, inputs);
  }
  return found;
}

Tensor Functions::Allocate(Graph& graph, std::uint32_t operand, Type type, const Shape& shape,
                           const std::string& attributes, const std::string& prefix) const {
  if (level_ < kWithAttributes) {
    return As<Tensor(Graph&, std::uint32_t, const Shape&, Type, Text)>(allocator_)(graph, operand, shape, type, prefix);
  }
  return As<Tensor(Graph&, std::uint32_t, const Shape&, Type, Text, Text)>(allocator_)(graph, operand, shape, type,
                                                                                       attributes, prefix);
}

// An op may change its list of inputs, so it gets one of its own.
Program Functions::Build(Graph& graph, const Tensors& inputs, Tensors* outputs, const std::string& attributes,
                         const std::string& prefix) const {
  Tensors own = inputs;
  if (level_ < kWithAttributes) {
    return As<Program(Graph&, Tensors&, Tensors&, Text)>(build_)(graph, own, *outputs, prefix);
  }
  return As<Program(Graph&, Tensors&, Tensors&, Text, Text)>(build_)(graph, own, *outputs, attributes, prefix);
}

Program Functions::BuildGradient(Graph& graph, int input, const GradientTensors& tensors, Tensors* outputs,
                                 const std::string& attributes, const std::string& prefix) const {
  GradientTensors own = tensors;
  if (level_ < kWithAttributes) {
    return As<Program(Graph&, int, Tensors&, Tensors&, Tensors&, Tensors&, Text)>(build_)(
        graph, input, own.gradients, own.inputs, own.outputs, *outputs, prefix);
  }
  return As<Program(Graph&, int, Tensors&, Tensors&, Tensors&, Tensors&, Text, Text)>(build_)(
      graph, input, own.gradients, own.inputs, own.outputs, *outputs, attributes, prefix);
}

}  // namespace user_op
}  // namespace ipu_tf
}  // namespace poplar
