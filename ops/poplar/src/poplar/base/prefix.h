// The folder that libraries are installed in.
#ifndef IPU_TF_POPLAR_PREFIX_H_
#define IPU_TF_POPLAR_PREFIX_H_

#include <dlfcn.h>

#include <cstdlib>
#include <string>

namespace poplar {
inline namespace ipu_tf {
namespace detail {

// The folder above that of the library which holds an object: "/x" for /x/lib/libpoplar.so.
inline std::string PrefixOf(const void* object) {
  Dl_info info;
  if (dladdr(object, &info) == 0) return "..";
  char* real = realpath(info.dli_fname, nullptr);
  std::string path = real == nullptr ? info.dli_fname : real;
  std::free(real);
  for (int up = 0; up < 2; ++up) path.resize(path.rfind('/') == std::string::npos ? 0 : path.rfind('/'));
  return path.empty() ? "." : path;
}

}  // namespace detail
}  // namespace ipu_tf
}  // namespace poplar

#endif  // IPU_TF_POPLAR_PREFIX_H_
