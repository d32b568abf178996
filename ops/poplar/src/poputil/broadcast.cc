#include <poputil/Broadcast.hpp>

#include <algorithm>

#include <poputil/exceptions.hpp>

namespace poputil {
inline namespace ipu_tf {
namespace {

using poplar::Tensor;

// Where a shape, with dimensions of one before it, has this dimension.
std::size_t Dimension(const std::vector<std::size_t>& shape, std::size_t d, std::size_t rank) {
  return d + shape.size() < rank ? 1 : shape[d + shape.size() - rank];
}

// The shape that both broadcast to; false if there is none.
bool Common(const std::vector<std::size_t>& a, const std::vector<std::size_t>& b, std::vector<std::size_t>* shape) {
  const std::size_t rank = std::max(a.size(), b.size());
  shape->clear();
  for (std::size_t d = 0; d < rank; ++d) {
    const std::size_t of_a = Dimension(a, d, rank);
    const std::size_t of_b = Dimension(b, d, rank);
    if (of_a != of_b && of_a != 1 && of_b != 1) return false;
    shape->push_back(of_a == 1 ? of_b : of_a);
  }
  return true;
}

std::vector<std::size_t> CommonOrRaise(const Tensor& a, const Tensor& b) {
  std::vector<std::size_t> shape;
  if (Common(a.shape(), b.shape(), &shape)) return shape;
  throw poplibs_error("poputil::broadcastToMatch: the shapes " + a.shapeToString() + " and " + b.shapeToString() +
                      " do not broadcast to each other.");
}

}  // namespace

void expandToMatchRanks(Tensor& a, Tensor& b) {
  while (a.rank() < b.rank()) a = a.expand({0});
  while (b.rank() < a.rank()) b = b.expand({0});
}

void broadcastToMatch(Tensor& a, const std::vector<std::size_t>& shape) {
  std::vector<std::size_t> common;
  if (!Common(a.shape(), shape, &common) || common != shape) {
    std::string wanted;
    for (const std::size_t one : shape) wanted += (wanted.empty() ? "" : ",") + std::to_string(one);
    throw poplibs_error("poputil::broadcastToMatch: the shape " + a.shapeToString() + " does not broadcast to {" +
                        wanted + "}.");
  }
  while (a.rank() < shape.size()) a = a.expand({0});
  for (unsigned d = 0; d < shape.size(); ++d) {
    if (a.dim(d) != shape[d]) a = a.broadcast(static_cast<unsigned>(shape[d]), d);
  }
}

void broadcastToMatch(Tensor& a, Tensor& b) {
  const std::vector<std::size_t> shape = CommonOrRaise(a, b);
  broadcastToMatch(a, shape);
  broadcastToMatch(b, shape);
}

void broadcastToMatch(Tensor& a, Tensor& b, Tensor& c) {
  broadcastToMatch(a, b);
  broadcastToMatch(a, c);
  broadcastToMatch(b, c);
}

bool canBroadcastToMatch(const Tensor& a, const Tensor& b) {
  std::vector<std::size_t> shape;
  return Common(a.shape(), b.shape(), &shape);
}

}  // namespace ipu_tf
}  // namespace poputil
