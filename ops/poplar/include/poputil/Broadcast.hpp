// Shapes that are made equal as in NumPy.
#ifndef IPU_TF_POPUTIL_BROADCAST_HPP_
#define IPU_TF_POPUTIL_BROADCAST_HPP_

#include <cstddef>
#include <vector>

#include <poplar/Tensor.hpp>

namespace poputil {
inline namespace ipu_tf {

// Gives the tensor of lower rank new first dimensions of one.
void expandToMatchRanks(poplar::Tensor& a, poplar::Tensor& b);
// Views of a shape that both share: dimensions of one repeat. Raises poplibs_error if the shapes do not fit.
void broadcastToMatch(poplar::Tensor& a, const std::vector<std::size_t>& shape);
void broadcastToMatch(poplar::Tensor& a, poplar::Tensor& b);
void broadcastToMatch(poplar::Tensor& a, poplar::Tensor& b, poplar::Tensor& c);
bool canBroadcastToMatch(const poplar::Tensor& a, const poplar::Tensor& b);

}  // namespace ipu_tf
}  // namespace poputil

#endif  // IPU_TF_POPUTIL_BROADCAST_HPP_
