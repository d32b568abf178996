#include <dlfcn.h>

#include <cstdlib>
#include <string>

#include <popops/codelets.hpp>

namespace popops {
inline namespace ipu_tf {
namespace {

// The folder above that of this library.
std::string Prefix() {
  Dl_info info;
  if (dladdr(reinterpret_cast<const void*>(&Prefix), &info) == 0) return "..";
  char* real = realpath(info.dli_fname, nullptr);
  std::string path = real == nullptr ? info.dli_fname : real;
  std::free(real);
  for (int up = 0; up < 2; ++up) path.resize(path.rfind('/') == std::string::npos ? 0 : path.rfind('/'));
  return path;
}

}  // namespace

void addCodelets(poplar::Graph& graph) { graph.addCodelets(Prefix() + "/codelets/popops.cpp"); }

}  // namespace ipu_tf
}  // namespace popops
