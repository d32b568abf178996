// Picks the kernels for this machine.
#include <cstdlib>
#include <cstring>

#include "kernels.h"

namespace ipu_tf {
namespace {

const Kernels& Choose() {
  const char* wanted = std::getenv("IPU_TF_ISA");
  if (wanted != nullptr && std::strcmp(wanted, "avx2") == 0) return Avx2Kernels();
  __builtin_cpu_init();
  const bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
                      __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq");
  return avx512 ? Avx512Kernels() : Avx2Kernels();
}

}  // namespace

const Kernels& ActiveKernels() {
  static const Kernels& kernels = Choose();
  return kernels;
}

}  // namespace ipu_tf
