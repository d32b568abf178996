#include <poplar/Tensor.hpp>

#include <algorithm>
#include <numeric>
#include <ostream>
#include <set>
#include <string>

#include <poplar/exceptions.hpp>

#include "graph_state.h"
#include "tensor_access.h"

namespace poplar {
inline namespace ipu_tf {
namespace {

using detail::Elements;
using detail::Run;
using detail::TensorAccess;

std::uint64_t Product(const std::vector<std::size_t>& shape) {
  return std::accumulate(shape.begin(), shape.end(), std::uint64_t{1}, std::multiplies<std::uint64_t>());
}

std::string ShapeText(const std::vector<std::size_t>& shape) {
  std::string text = "{";
  for (std::size_t d = 0; d < shape.size(); ++d) text += (d == 0 ? "" : ",") + std::to_string(shape[d]);
  return text + "}";
}

// The strides of a shape over the same elements, or nothing if no strides give them.
bool StridesOf(const std::vector<std::size_t>& shape, const std::vector<std::int64_t>& strides,
               const std::vector<std::size_t>& wanted, std::vector<std::int64_t>* found) {
  found->assign(wanted.size(), 1);
  std::size_t from = 0;
  std::size_t to = 0;
  while (from < shape.size() || to < wanted.size()) {
    // The next groups of dimensions with equally many elements.
    std::size_t from_end = from;
    std::size_t to_end = to;
    std::uint64_t from_size = 1;
    std::uint64_t to_size = 1;
    if (from_end < shape.size()) from_size = shape[from_end++];
    if (to_end < wanted.size()) to_size = wanted[to_end++];
    while (from_size != to_size) {
      if (from_size < to_size) {
        if (from_end == shape.size()) return false;
        from_size *= shape[from_end++];
      } else {
        if (to_end == wanted.size()) return false;
        to_size *= wanted[to_end++];
      }
    }
    // The group must have one stride; dimensions of one have any.
    std::int64_t step = 0;
    std::int64_t expected = 0;
    bool is_first = true;
    for (std::size_t d = from_end; d-- > from;) {
      if (shape[d] == 1) continue;
      if (is_first) {
        step = strides[d];
      } else if (strides[d] != expected) {
        return false;
      }
      expected = strides[d] * static_cast<std::int64_t>(shape[d]);
      is_first = false;
    }
    for (std::size_t d = to_end; d-- > to;) {
      (*found)[d] = step;
      step *= static_cast<std::int64_t>(wanted[d]);
    }
    from = from_end;
    to = to_end;
  }
  return true;
}

}  // namespace

Tensor TensorAccess::Make(std::shared_ptr<const Elements> elements, Type type, const std::vector<std::size_t>& shape) {
  Tensor tensor;
  tensor.elements_ = std::move(elements);
  tensor.type_ = type;
  tensor.shape_ = shape;
  tensor.strides_.resize(shape.size());
  std::int64_t stride = 1;
  for (std::size_t d = shape.size(); d-- > 0;) {
    tensor.strides_[d] = stride;
    stride *= static_cast<std::int64_t>(shape[d]);
  }
  return tensor;
}

std::shared_ptr<Elements> TensorAccess::Materialised(const Tensor& tensor) {
  auto found = std::make_shared<Elements>();
  found->graph = tensor.elements_->graph;
  ForRuns(tensor, [&](const Run& run) { found->Append(run); });
  return found;
}

void Tensor::CheckValid(const char* call) const {
  if (!valid()) {
    throw poplar_error(std::string("Tensor::") + call +
                       " needs a tensor of a graph, but this one is empty. Assign it what Graph::addVariable returns.");
  }
}

void Tensor::CheckDimension(const char* call, std::size_t dimension, std::size_t limit) const {
  CheckValid(call);
  if (dimension >= limit) {
    throw index_error(std::string("Tensor::") + call + ": there is no dimension " + std::to_string(dimension) +
                      " in the shape " + ShapeText(shape_) + ".");
  }
}

Type Tensor::elementType() const {
  CheckValid("elementType");
  return type_;
}

std::size_t Tensor::dim(unsigned i) const {
  CheckDimension("dim", i, shape_.size());
  return shape_[i];
}

std::size_t Tensor::numElements() const {
  CheckValid("numElements");
  return Product(shape_);
}

std::string Tensor::shapeToString() const { return ShapeText(shape_); }

Tensor Tensor::operator[](std::size_t i) const& {
  CheckDimension("operator[]", 0, shape_.size());
  if (i >= shape_[0]) {
    throw index_error("Tensor::operator[]: the index " + std::to_string(i) +
                      " is not below the size of dimension 0 of " + ShapeText(shape_) + ".");
  }
  Tensor result;
  result.elements_ = elements_;
  result.type_ = type_;
  result.offset_ = offset_ + i * static_cast<std::uint64_t>(strides_[0]);
  result.shape_.assign(shape_.begin() + 1, shape_.end());
  result.strides_.assign(strides_.begin() + 1, strides_.end());
  return result;
}

Tensor Tensor::index(ArrayRef<std::size_t> indices) const {
  Tensor result = *this;
  for (const std::size_t i : indices) result = result[i];
  return result;
}

Tensor Tensor::slice(std::size_t begin, std::size_t end, unsigned dimension) const {
  CheckDimension("slice", dimension, shape_.size());
  if (begin > end || end > shape_[dimension]) {
    throw index_error("Tensor::slice: the range from " + std::to_string(begin) + " to " + std::to_string(end) +
                      " is not inside of dimension " + std::to_string(dimension) + " of " + ShapeText(shape_) + ".");
  }
  Tensor result = *this;
  result.offset_ += begin * static_cast<std::uint64_t>(strides_[dimension]);
  result.shape_[dimension] = end - begin;
  return result;
}

Tensor Tensor::slice(const Interval& region, unsigned dimension) const {
  return slice(region.begin(), region.end(), dimension);
}

Tensor Tensor::slice(ArrayRef<std::size_t> begin, ArrayRef<std::size_t> end) const {
  CheckValid("slice");
  if (begin.size() != end.size() || begin.size() > shape_.size()) {
    throw index_error(
        "Tensor::slice: a box of " + ShapeText(shape_) + " has a begin and an end for each of its first " +
        "dimensions. Received: " + std::to_string(begin.size()) + " and " + std::to_string(end.size()) + " numbers.");
  }
  Tensor result = *this;
  for (unsigned d = 0; d < begin.size(); ++d) result = result.slice(begin[d], end[d], d);
  return result;
}

std::vector<Tensor> Tensor::slices(ArrayRef<Interval> intervals, unsigned dimension) const {
  std::vector<Tensor> result;
  result.reserve(intervals.size());
  for (const Interval& one : intervals) result.push_back(slice(one, dimension));
  return result;
}

Tensor Tensor::subSample(unsigned stride, unsigned dimension) const {
  CheckDimension("subSample", dimension, shape_.size());
  if (stride == 0) throw poplar_error("Tensor::subSample: the stride must be at least 1. Received: 0.");
  Tensor result = *this;
  result.shape_[dimension] = (shape_[dimension] + stride - 1) / stride;
  result.strides_[dimension] *= stride;
  return result;
}

Tensor Tensor::upsample(unsigned scale, unsigned dimension, UpsampleMethod) const {
  CheckDimension("upsample", dimension, shape_.size());
  Tensor result = *this;
  result.shape_.insert(result.shape_.begin() + dimension + 1, scale);
  result.strides_.insert(result.strides_.begin() + dimension + 1, 0);
  std::vector<std::size_t> shape = shape_;
  shape[dimension] *= scale;
  return result.reshape(shape);
}

Tensor Tensor::broadcast(unsigned n, unsigned dimension) const {
  CheckDimension("broadcast", dimension, shape_.size());
  Tensor result = *this;
  if (shape_[dimension] == 1) {
    result.shape_[dimension] = n;
    result.strides_[dimension] = 0;
    return result;
  }
  result.shape_.insert(result.shape_.begin() + dimension, n);
  result.strides_.insert(result.strides_.begin() + dimension, 0);
  std::vector<std::size_t> shape = shape_;
  shape[dimension] *= n;
  return result.reshape(shape);
}

Tensor Tensor::reverse(unsigned dimension) const {
  CheckDimension("reverse", dimension, shape_.size());
  Tensor result = *this;
  if (shape_[dimension] == 0) return result;
  result.offset_ += (shape_[dimension] - 1) * static_cast<std::uint64_t>(strides_[dimension]);
  result.strides_[dimension] = -strides_[dimension];
  return result;
}

Tensor Tensor::flatten() const { return reshape({numElements()}); }

Tensor Tensor::flatten(unsigned dimBegin, unsigned dimEnd) const {
  CheckValid("flatten");
  if (dimBegin > dimEnd || dimEnd > shape_.size()) {
    throw index_error("Tensor::flatten: the dimensions from " + std::to_string(dimBegin) + " to " +
                      std::to_string(dimEnd) + " are not in the shape " + ShapeText(shape_) + ".");
  }
  std::size_t size = 1;
  for (unsigned d = dimBegin; d < dimEnd; ++d) size *= shape_[d];
  return reshapePartial(dimBegin, dimEnd, {size});
}

Tensor Tensor::reshape(ArrayRef<std::size_t> wanted) const {
  CheckValid("reshape");
  const std::vector<std::size_t> shape = wanted.cloneAsVector();
  if (Product(shape) != Product(shape_)) {
    throw poplar_error("Tensor::reshape: the shapes " + ShapeText(shape_) + " and " + ShapeText(shape) +
                       " have different numbers of elements, " + std::to_string(Product(shape_)) + " and " +
                       std::to_string(Product(shape)) + ".");
  }
  Tensor result = *this;
  result.shape_ = shape;
  if (Product(shape) == 0) {
    result.strides_.assign(shape.size(), 1);
    return result;
  }
  if (StridesOf(shape_, strides_, shape, &result.strides_)) return result;
  return TensorAccess::Make(TensorAccess::Materialised(*this), type_, shape);
}

Tensor Tensor::reshapePartial(unsigned beginIndex, unsigned endIndex, ArrayRef<std::size_t> newDims) const {
  CheckValid("reshapePartial");
  if (beginIndex > endIndex || endIndex > shape_.size()) {
    throw index_error("Tensor::reshapePartial: the dimensions from " + std::to_string(beginIndex) + " to " +
                      std::to_string(endIndex) + " are not in the shape " + ShapeText(shape_) + ".");
  }
  std::vector<std::size_t> shape(shape_.begin(), shape_.begin() + beginIndex);
  shape.insert(shape.end(), newDims.begin(), newDims.end());
  shape.insert(shape.end(), shape_.begin() + endIndex, shape_.end());
  return reshape(shape);
}

Tensor Tensor::expand(ArrayRef<std::size_t> indices) const {
  CheckValid("expand");
  std::vector<std::size_t> shape;
  for (std::size_t d = 0; d <= shape_.size(); ++d) {
    shape.insert(shape.end(), static_cast<std::size_t>(std::count(indices.begin(), indices.end(), d)), 1);
    if (d < shape_.size()) shape.push_back(shape_[d]);
  }
  for (const std::size_t i : indices) CheckDimension("expand", i, shape_.size() + 1);
  return reshape(shape);
}

Tensor Tensor::squeeze() const {
  std::vector<std::size_t> ones;
  for (std::size_t d = 0; d < shape_.size(); ++d) {
    if (shape_[d] == 1) ones.push_back(d);
  }
  return squeeze(ones);
}

Tensor Tensor::squeeze(ArrayRef<std::size_t> indices) const {
  std::vector<std::size_t> shape;
  for (const std::size_t i : indices) {
    CheckDimension("squeeze", i, shape_.size());
    if (shape_[i] != 1) {
      throw poplar_error("Tensor::squeeze: dimension " + std::to_string(i) + " of " + ShapeText(shape_) + " has " +
                         std::to_string(shape_[i]) + " elements; only dimensions of one can go.");
    }
  }
  for (std::size_t d = 0; d < shape_.size(); ++d) {
    if (std::find(indices.begin(), indices.end(), d) == indices.end()) shape.push_back(shape_[d]);
  }
  return reshape(shape);
}

Tensor Tensor::dimShuffle(ArrayRef<unsigned> permutation) const {
  CheckValid("dimShuffle");
  std::vector<unsigned> sorted = permutation.cloneAsVector();
  std::sort(sorted.begin(), sorted.end());
  bool is_permutation = sorted.size() == shape_.size();
  for (unsigned d = 0; is_permutation && d < sorted.size(); ++d) is_permutation = sorted[d] == d;
  if (!is_permutation) {
    throw poplar_error("Tensor::dimShuffle: the numbers given are no order of the " + std::to_string(rank()) +
                       " dimensions of " + ShapeText(shape_) + "; name each once.");
  }
  Tensor result = *this;
  for (unsigned d = 0; d < permutation.size(); ++d) {
    result.shape_[d] = shape_[permutation[d]];
    result.strides_[d] = strides_[permutation[d]];
  }
  return result;
}

Tensor Tensor::dimShufflePartial(ArrayRef<unsigned> source, ArrayRef<unsigned> destination) const {
  CheckValid("dimShufflePartial");
  if (source.size() != destination.size()) {
    throw poplar_error("Tensor::dimShufflePartial: as many sources as destinations are needed. Received: " +
                       std::to_string(source.size()) + " and " + std::to_string(destination.size()) + ".");
  }
  constexpr unsigned kFree = ~0u;
  std::vector<unsigned> permutation(rank(), kFree);
  std::vector<bool> is_moved(rank(), false);
  for (std::size_t i = 0; i < source.size(); ++i) {
    CheckDimension("dimShufflePartial", source[i], rank());
    CheckDimension("dimShufflePartial", destination[i], rank());
    permutation[destination[i]] = source[i];
    is_moved[source[i]] = true;
  }
  unsigned next = 0;
  for (unsigned& one : permutation) {
    if (one != kFree) continue;
    while (is_moved[next]) ++next;
    one = next++;
  }
  return dimShuffle(permutation);
}

Tensor Tensor::dimRoll(unsigned dimIdx, unsigned newIdx) const { return dimShufflePartial({dimIdx}, {newIdx}); }

Tensor Tensor::transpose() const {
  if (rank() < 2) {
    throw poplar_error("Tensor::transpose swaps the last two dimensions, but the shape is " + ShapeText(shape_) + ".");
  }
  return dimShufflePartial({rank() - 2, rank() - 1}, {rank() - 1, rank() - 2});
}

Tensor Tensor::reinterpret(const Type& type) const {
  CheckValid("reinterpret");
  if (detail::TypeBytes(type) != detail::TypeBytes(type_)) {
    throw type_error("Tensor::reinterpret: elements of " + type_.toString() + " and " + type.toString() +
                     " have different sizes.");
  }
  Tensor result = *this;
  result.type_ = type;
  return result;
}

bool Tensor::isContiguous() const {
  CheckValid("isContiguous");
  return TensorAccess::Materialised(*this)->runs.size() <= 1;
}

bool Tensor::containsAliases() const {
  CheckValid("containsAliases");
  return detail::HasOverlap(TensorAccess::Materialised(*this)->runs);
}

bool Tensor::containsConstant() const {
  CheckValid("containsConstant");
  bool found = false;
  TensorAccess::ForRuns(
      *this, [&](const Run& run) { found = found || elements_->graph->variables[run.variable].is_constant; });
  return found;
}

bool Tensor::intersectsWith(const Tensor& other) const {
  CheckValid("intersectsWith");
  other.CheckValid("intersectsWith");
  return detail::Intersect(TensorAccess::Materialised(*this)->runs, TensorAccess::Materialised(other)->runs);
}

std::vector<Interval> Tensor::getContiguousRegions() const {
  CheckValid("getContiguousRegions");
  const auto elements = TensorAccess::Materialised(*this);
  std::vector<Interval> result;
  for (std::size_t i = 0; i < elements->runs.size(); ++i) {
    result.emplace_back(elements->starts[i], elements->starts[i] + elements->runs[i].size);
  }
  return result;
}

std::string Tensor::getDebugStr() const {
  if (!valid()) return "no tensor";
  std::set<std::string> names;
  TensorAccess::ForRuns(*this, [&](const Run& run) { names.insert(elements_->graph->variables[run.variable].name); });
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text + " " + ShapeText(shape_) + " " + type_.toString();
}

bool operator==(const Tensor& a, const Tensor& b) {
  if (!a.valid() || !b.valid()) return a.valid() == b.valid();
  if (a.type_ != b.type_ || a.shape_ != b.shape_ || a.elements_->graph != b.elements_->graph) return false;
  const auto of_a = TensorAccess::Materialised(a);
  const auto of_b = TensorAccess::Materialised(b);
  return std::equal(of_a->runs.begin(), of_a->runs.end(), of_b->runs.begin(), of_b->runs.end(),
                    [](const Run& one, const Run& other) {
                      return one.variable == other.variable && one.begin == other.begin && one.size == other.size;
                    });
}

std::ostream& operator<<(std::ostream& stream, const Tensor& tensor) { return stream << tensor.getDebugStr(); }

Tensor concat(ArrayRef<Tensor> tensors, unsigned dimension) {
  if (tensors.empty()) throw poplar_error("concat: at least one tensor is needed. Received: none.");
  std::vector<std::size_t> shape = tensors[0].shape();
  if (dimension >= shape.size()) {
    throw index_error("concat: there is no dimension " + std::to_string(dimension) + " in the shape " +
                      ShapeText(shape) + ".");
  }
  std::size_t size = 0;
  for (const Tensor& one : tensors) {
    std::vector<std::size_t> other = one.shape();
    const bool is_alike = one.valid() && other.size() == shape.size();
    if (is_alike) {
      size += other[dimension];
      other[dimension] = shape[dimension];
    }
    if (!is_alike || other != shape) {
      throw poplar_error("concat: tensors must have equal sizes in all dimensions but " + std::to_string(dimension) +
                         ". Received: " + ShapeText(shape) + " and " + ShapeText(one.shape()) + ".");
    }
    if (one.elementType() != tensors[0].elementType()) {
      throw type_error("concat: tensors must have one type. Received: " + tensors[0].elementType().toString() +
                       " and " + one.elementType().toString() + ".");
    }
    if (TensorAccess::GraphOf(one) != TensorAccess::GraphOf(tensors[0])) {
      throw poplar_error("concat: the tensors belong to different graphs.");
    }
  }
  // The parts one after the other along a first dimension, which then goes where it belongs.
  auto elements = std::make_shared<Elements>();
  elements->graph = TensorAccess::GraphOf(tensors[0]);
  for (const Tensor& one : tensors) {
    TensorAccess::ForRuns(one.dimRoll(dimension, 0), [&](const Run& run) { elements->Append(run); });
  }
  std::vector<std::size_t> rolled = shape;
  rolled.erase(rolled.begin() + dimension);
  rolled.insert(rolled.begin(), size);
  return TensorAccess::Make(std::move(elements), tensors[0].elementType(), rolled).dimRoll(0, dimension);
}

Tensor concat(const Tensor& first, const Tensor& second, unsigned dimension) {
  return concat(std::vector<Tensor>{first, second}, dimension);
}

Tensor append(const Tensor& first, const Tensor& second, unsigned dimension) {
  return concat(first, second.expand({dimension}), dimension);
}

}  // namespace ipu_tf
}  // namespace poplar
