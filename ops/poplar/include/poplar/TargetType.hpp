// The kinds of targets.
#ifndef IPU_TF_POPLAR_TARGET_TYPE_HPP_
#define IPU_TF_POPLAR_TARGET_TYPE_HPP_

namespace poplar {
inline namespace ipu_tf {

enum class TargetType { IPU, IPU_MODEL, CPU };

}  // namespace ipu_tf
}  // namespace poplar

#endif  // IPU_TF_POPLAR_TARGET_TYPE_HPP_
