// Streams of random bits on the replicas of a program.
#ifndef IPU_TF_OPS_CORE_REPLICA_STREAMS_H_
#define IPU_TF_OPS_CORE_REPLICA_STREAMS_H_

#include <cstdint>

namespace ipu_tf {

// The streams of a replica lie this far behind those of the one before.
constexpr uint64_t kReplicaStride = uint64_t{1} << 48;

// Makes all replicas draw the same bits from now on, or bits of their own. Thread-safe.
void SetIdenticalReplicas(bool identical);

}  // namespace ipu_tf

#endif  // IPU_TF_OPS_CORE_REPLICA_STREAMS_H_
