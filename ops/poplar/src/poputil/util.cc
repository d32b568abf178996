#include <poputil/Util.hpp>

#include <cmath>
#include <cstdint>
#include <numeric>

#include <poputil/exceptions.hpp>

namespace poputil {
inline namespace ipu_tf {
namespace {

using poplar::Tensor;

std::vector<std::size_t> Joined(std::vector<std::size_t> a, const std::vector<std::size_t>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

std::vector<std::size_t> Part(const std::vector<std::size_t>& shape, std::size_t begin, std::size_t end) {
  return {shape.begin() + static_cast<std::ptrdiff_t>(begin), shape.begin() + static_cast<std::ptrdiff_t>(end)};
}

// 0, 1, ... with pairs of dimensions swapped by the caller.
std::vector<unsigned> Order(unsigned rank) {
  std::vector<unsigned> order(rank);
  std::iota(order.begin(), order.end(), 0u);
  return order;
}

void CheckDims(const Tensor& tensor, std::size_t dims, unsigned start, const char* call) {
  if (start + dims <= tensor.rank()) return;
  throw poplibs_error(std::string("poputil::") + call + ": the shape " + tensor.shapeToString() + " has no " +
                      std::to_string(dims) + " dimensions from dimension " + std::to_string(start) + " on.");
}

}  // namespace

std::vector<int> balancedPartition(int rangeUpperBound, int splitCount) {
  std::vector<int> sizes(static_cast<std::size_t>(splitCount), rangeUpperBound / splitCount);
  for (int i = 0; i < rangeUpperBound % splitCount; ++i) ++sizes[static_cast<std::size_t>(i)];
  return sizes;
}

Tensor duplicate(poplar::Graph& graph, const Tensor& tensor, poplar::program::Sequence& prog,
                 const poplar::DebugContext& debugContext, poplar::TensorCloneMethod method) {
  const Tensor clone = graph.clone(tensor, debugContext, method);
  prog.add(poplar::program::Copy(tensor, clone));
  return clone;
}

Tensor cloneN(poplar::Graph& graph, const Tensor& tensor, unsigned N, const poplar::DebugContext& debugContext,
              poplar::TensorCloneMethod method) {
  std::vector<Tensor> clones;
  for (unsigned i = 0; i < N; ++i) clones.push_back(graph.clone(tensor, debugContext, method).expand({0}));
  return poplar::concat(clones);
}

double castToDeviceHalfValue(const poplar::Target& target, double input) {
  const auto number = static_cast<float>(input);
  std::uint16_t bits = 0;
  poplar::copyFloatToDeviceHalf(target, &number, &bits, 1);
  float back = 0;
  poplar::copyDeviceHalfToFloat(target, &bits, &back, 1);
  return static_cast<double>(back);
}

bool checkAccuracyWhenCast(const poplar::Target& target, double input, poplar::Type inputType, poplar::Type outputType,
                           double tolerance) {
  for (const poplar::Type& type : {inputType, outputType}) {
    if (type == poplar::FLOAT || type == poplar::HALF) continue;
    throw poplibs_error("poputil::checkAccuracyWhenCast: the types are FLOAT or HALF. Received: " + type.toString() +
                        ".");
  }
  const double before = inputType == poplar::HALF ? castToDeviceHalfValue(target, input) : input;
  const double after = outputType == poplar::HALF ? castToDeviceHalfValue(target, before) : before;
  return std::isfinite(after) && std::abs(after - before) <= std::abs(before) * tolerance;
}

Tensor factorDims(const Tensor& tensor, const std::vector<std::size_t>& factors, unsigned startDim) {
  const auto dims = static_cast<unsigned>(factors.size());
  CheckDims(tensor, dims, startDim, "factorDims");
  std::vector<std::size_t> shape = Part(tensor.shape(), 0, startDim);
  for (unsigned i = 0; i < dims; ++i) {
    const std::size_t size = tensor.dim(startDim + i);
    if (factors[i] == 0 || size % factors[i] != 0) {
      throw poplibs_error("poputil::factorDims: the factor " + std::to_string(factors[i]) + " does not divide " +
                          std::to_string(size) + ", the size of dimension " + std::to_string(startDim + i) + ".");
    }
    shape.push_back(size / factors[i]);
    shape.push_back(factors[i]);
  }
  shape = Joined(shape, Part(tensor.shape(), startDim + dims, tensor.rank()));
  std::vector<unsigned> order = Order(static_cast<unsigned>(shape.size()));
  for (unsigned i = 0; i < dims; ++i) {
    order[startDim + i] = startDim + 2 * i;
    order[startDim + dims + i] = startDim + 2 * i + 1;
  }
  return tensor.reshape(shape).dimShuffle(order);
}

Tensor unfactorDims(const Tensor& tensor, unsigned numDims, unsigned startDim) {
  CheckDims(tensor, 2 * std::size_t{numDims}, startDim, "unfactorDims");
  std::vector<unsigned> order = Order(tensor.rank());
  std::vector<std::size_t> shape = Part(tensor.shape(), 0, startDim);
  for (unsigned i = 0; i < numDims; ++i) {
    order[startDim + 2 * i] = startDim + i;
    order[startDim + 2 * i + 1] = startDim + numDims + i;
    shape.push_back(tensor.dim(startDim + i) * tensor.dim(startDim + numDims + i));
  }
  shape = Joined(shape, Part(tensor.shape(), startDim + 2 * numDims, tensor.rank()));
  return tensor.dimShuffle(order).reshape(shape);
}

}  // namespace ipu_tf
}  // namespace poputil
