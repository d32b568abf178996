// The codelets of popops.
#ifndef IPU_TF_POPOPS_CODELETS_HPP_
#define IPU_TF_POPOPS_CODELETS_HPP_

#include <poplar/Graph.hpp>

namespace popops {
inline namespace ipu_tf {

// Call it before any other function of popops.
void addCodelets(poplar::Graph& graph);

}  // namespace ipu_tf
}  // namespace popops

#endif  // IPU_TF_POPOPS_CODELETS_HPP_
