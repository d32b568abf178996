// C functions for ctypes.
#include "../core/elements/random.h"
#include "../core/elements/replica_streams.h"
#include "../core/kernels/kernels.h"

// The headers of the wheel do not know their version; the build passes it.
#ifndef IPU_TF_TENSORFLOW_VERSION
#define IPU_TF_TENSORFLOW_VERSION "unknown"
#endif

extern "C" {

// The TensorFlow version that the library was built for.
__attribute__((visibility("default"))) const char* ipu_tf_built_for() { return IPU_TF_TENSORFLOW_VERSION; }

// The instruction set in use: "avx2" or "avx512".
__attribute__((visibility("default"))) const char* ipu_tf_isa() { return ipu_tf::ActiveKernels().name; }

// Sets the process seed of stochastic rounding and restarts the call count of every stream.
__attribute__((visibility("default"))) void ipu_tf_reset_seed(uint64_t seed, bool identical_replicas) {
  ipu_tf::ResetSeed(seed);
  ipu_tf::SetIdenticalReplicas(identical_replicas);
}

}  // extern "C"
