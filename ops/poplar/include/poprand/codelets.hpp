// The codelets of poprand.
#ifndef IPU_TF_POPRAND_CODELETS_HPP_
#define IPU_TF_POPRAND_CODELETS_HPP_

#include <poplar/Graph.hpp>

namespace poprand {
inline namespace ipu_tf {

// Call it before any other function of poprand.
void addCodelets(poplar::Graph& graph);

}  // namespace ipu_tf
}  // namespace poprand

#endif  // IPU_TF_POPRAND_CODELETS_HPP_
