// Views of the variables of a graph.
#ifndef IPU_TF_POPLAR_TENSOR_HPP_
#define IPU_TF_POPLAR_TENSOR_HPP_

#include <cstddef>
#include <cstdint>
#include <iosfwd>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <poplar/ArrayRef.hpp>
#include <poplar/Interval.hpp>
#include <poplar/StringRef.hpp>
#include <poplar/Type.hpp>
#include <poplar/VariableRef.hpp>

namespace poplar {
inline namespace ipu_tf {

namespace detail {
struct Elements;
struct TensorAccess;
}  // namespace detail

enum class UpsampleMethod { REPEAT };

// An ordered list of elements of variables, with a shape. It holds no data: slices, shuffles and concatenations are
// other views of the same elements.
class Tensor {
 public:
  // No tensor; any use but valid() and an assignment raises poplar_error.
  Tensor() = default;

  bool valid() const { return elements_ != nullptr; }
  Type elementType() const;
  const std::vector<std::size_t>& shape() const { return shape_; }
  std::size_t dim(unsigned i) const;
  unsigned rank() const { return static_cast<unsigned>(shape_.size()); }
  std::size_t numElements() const;
  // "{2,3}".
  std::string shapeToString() const;

  Tensor operator[](std::size_t i) const&;
  Tensor index(ArrayRef<std::size_t> indices) const;
  Tensor slice(std::size_t begin, std::size_t end, unsigned dimension = 0) const;
  Tensor slice(const Interval& region, unsigned dimension = 0) const;
  // The box from `begin` to the place before `end`; later dimensions stay whole.
  Tensor slice(ArrayRef<std::size_t> begin, ArrayRef<std::size_t> end) const;
  std::vector<Tensor> slices(ArrayRef<Interval> intervals, unsigned dimension = 0) const;
  // For each list, its ranges one after the other.
  std::vector<Tensor> slices(const std::vector<std::vector<Interval>>& lists, unsigned dimension = 0) const;
  Tensor subSample(unsigned stride, unsigned dimension) const;
  Tensor upsample(unsigned scale, unsigned dimension, UpsampleMethod method = UpsampleMethod::REPEAT) const;
  Tensor broadcast(unsigned n, unsigned dimension) const;
  Tensor reverse(unsigned dimension) const;

  Tensor flatten() const;
  Tensor flatten(unsigned dimBegin, unsigned dimEnd) const;
  Tensor reshape(ArrayRef<std::size_t> shape) const;
  Tensor reshapePartial(unsigned beginIndex, unsigned endIndex, ArrayRef<std::size_t> newDims) const;
  // New dimensions of one before each of these; one may be named several times.
  Tensor expand(ArrayRef<std::size_t> indices) const;
  Tensor squeeze() const;
  Tensor squeeze(ArrayRef<std::size_t> indices) const;
  Tensor dimShuffle(ArrayRef<unsigned> permutation) const;
  Tensor dimShufflePartial(ArrayRef<unsigned> source, ArrayRef<unsigned> destination) const;
  Tensor dimRoll(unsigned dimIdx, unsigned newIdx = 0) const;
  // The last two dimensions, swapped.
  Tensor transpose() const;
  // The same bits as elements of another type of the same size.
  Tensor reinterpret(const Type& type) const;

  // Whether the elements are one range of one variable.
  bool isContiguous() const;
  // Whether an element is there twice.
  bool containsAliases() const;
  bool containsConstant() const;
  bool isParallelWriteable() const { return !containsAliases() && !containsConstant(); }
  bool intersectsWith(const Tensor& other) const;
  // The ranges of the flattened tensor that are contiguous in a variable.
  std::vector<Interval> getContiguousRegions() const;
  // The same ranges as elements of their variables.
  std::vector<VariableInterval> getVarRegions() const;
  // Names of the variables, shape and type.
  std::string getDebugStr() const;

  friend bool operator==(const Tensor& a, const Tensor& b);
  friend bool operator!=(const Tensor& a, const Tensor& b) { return !(a == b); }
  friend std::ostream& operator<<(std::ostream& stream, const Tensor& tensor);

 private:
  friend struct detail::TensorAccess;

  void CheckValid(const char* call) const;
  void CheckDimension(const char* call, std::size_t dimension, std::size_t limit) const;

  std::shared_ptr<const detail::Elements> elements_;
  Type type_;
  std::uint64_t offset_ = 0;
  std::vector<std::size_t> shape_;
  std::vector<std::int64_t> strides_;  // In elements of elements_.
};

Tensor concat(ArrayRef<Tensor> tensors, unsigned dimension = 0);
Tensor concat(const Tensor& first, const Tensor& second, unsigned dimension = 0);
// With a new last dimension: concat(t.expand({dim}), ...).
Tensor append(const Tensor& first, const Tensor& second, unsigned dimension);

}  // namespace ipu_tf
}  // namespace poplar

#endif  // IPU_TF_POPLAR_TENSOR_HPP_
