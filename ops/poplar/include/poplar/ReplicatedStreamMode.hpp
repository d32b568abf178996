// Which data the replicas of a graph get from a stream.
#ifndef IPU_TF_POPLAR_REPLICATED_STREAM_MODE_HPP_
#define IPU_TF_POPLAR_REPLICATED_STREAM_MODE_HPP_

namespace poplar {
inline namespace ipu_tf {

// Each replica its own, in the order of replicas, or all the same.
enum class ReplicatedStreamMode { REPLICATE, BROADCAST };

}  // namespace ipu_tf
}  // namespace poplar

#endif  // IPU_TF_POPLAR_REPLICATED_STREAM_MODE_HPP_
