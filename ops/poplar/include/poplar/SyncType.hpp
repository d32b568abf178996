// The kinds of synchronisation.
#ifndef IPU_TF_POPLAR_SYNC_TYPE_HPP_
#define IPU_TF_POPLAR_SYNC_TYPE_HPP_

namespace poplar {
inline namespace ipu_tf {

enum class SyncType { EXTERNAL, INTERNAL, GLOBAL };

}  // namespace ipu_tf
}  // namespace poplar

#endif  // IPU_TF_POPLAR_SYNC_TYPE_HPP_
