// Picks the kernels for this machine, and the blocks that fit its first cache.
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "kernels.h"

namespace ipu_tf {
namespace {

// Of which all bytes at one place of their page fall into one set of the first cache: 64 lines of 64 bytes, on every
// x86-64 processor with AVX2.
constexpr int64_t kPageFloats = 1024;

int FirstCacheWays() {
  const long ways = sysconf(_SC_LEVEL1_DCACHE_ASSOC);
  return ways > 0 ? static_cast<int>(ways) : 8;  // 8 if the system does not tell: of processors before 2019.
}

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

int RowsOfBlock(const Kernels& kernels, int64_t stride) {
  static const int ways = FirstCacheWays();
  return stride % kPageFloats == 0 ? std::min(kernels.block_rows, ways) : kernels.block_rows;
}

}  // namespace ipu_tf
