// Where the elements of tensors are in variables.
#include <algorithm>
#include <string>
#include <utility>

#include <poplar/Graph.hpp>
#include <poplar/exceptions.hpp>

#include "graph_state.h"
#include "tensor_access.h"

namespace poplar {
inline namespace ipu_tf {
namespace {

using detail::Run;
using detail::TensorAccess;

// A range of a variable, and its place in a flattened tensor.
struct Placed {
  Run run;
  std::size_t place;
};

// Ranges in the order of variables and their elements.
std::vector<Placed> SortedRuns(const Tensor& flat, ArrayRef<Interval> regions) {
  std::vector<Placed> found;
  for (const Interval& region : regions) {
    std::size_t place = region.begin();
    TensorAccess::ForRuns(flat.slice(region), [&](const Run& run) {
      found.push_back({run, place});
      place += run.size;
    });
  }
  std::stable_sort(found.begin(), found.end(), [](const Placed& a, const Placed& b) {
    return std::pair(a.run.variable, a.run.begin) < std::pair(b.run.variable, b.run.begin);
  });
  return found;
}

}  // namespace

std::vector<VariableInterval> Tensor::getVarRegions() const {
  CheckValid("getVarRegions");
  std::vector<VariableInterval> regions;
  const auto elements = TensorAccess::Materialised(*this);
  for (const Run& run : elements->runs) {
    regions.emplace_back(VariableRef(run.variable), Interval(run.begin, run.begin + run.size));
  }
  return regions;
}

std::vector<Tensor> Tensor::slices(const std::vector<std::vector<Interval>>& lists, unsigned dimension) const {
  std::vector<Tensor> result;
  for (const std::vector<Interval>& one : lists) {
    result.push_back(one.empty() ? slice(0, 0, dimension) : concat(slices(one, dimension), dimension));
  }
  return result;
}

std::vector<std::vector<Interval>> Graph::getSortedContiguousRegions(const Tensor& tensor, ArrayRef<Interval> regions,
                                                                     bool removeAliasedIntervals) const {
  detail::CheckGraph(*state_, tensor, "Graph::getSortedContiguousRegions");
  std::vector<std::vector<Interval>> found;
  std::uint32_t variable = ~std::uint32_t{0};
  std::uint64_t end = 0;  // Of the last range, in its variable.
  for (Placed one : SortedRuns(tensor.flatten(), regions)) {
    const bool is_same = one.run.variable == variable;
    if (removeAliasedIntervals && is_same && one.run.begin < end) {
      const std::uint64_t known = std::min(end - one.run.begin, one.run.size);
      one.run.begin += known;
      one.run.size -= known;
      one.place += known;
      if (one.run.size == 0) continue;
    }
    if (!is_same || one.run.begin != end) found.emplace_back();
    std::vector<Interval>& group = found.back();
    if (!group.empty() && group.back().end() == one.place) {
      group.back() = Interval(group.back().begin(), one.place + one.run.size);
    } else {
      group.emplace_back(one.place, one.place + one.run.size);
    }
    variable = one.run.variable;
    end = one.run.begin + one.run.size;
  }
  return found;
}

void Graph::reorderToSimplify(Tensor* tensor, ArrayRef<Tensor*> others, bool) const {
  const auto check = [&](const Tensor& one) {
    detail::CheckGraph(*state_, one, "Graph::reorderToSimplify");
    if (one.rank() != 1 || one.numElements() != tensor->numElements()) {
      throw poplar_error(
          "Graph::reorderToSimplify: the tensors must be flat, with equally many elements. Received: the shapes " +
          tensor->shapeToString() + " and " + one.shapeToString() + ". Call flatten() on them.");
    }
  };
  check(*tensor);
  for (const Tensor* one : others) check(*one);
  if (tensor->numElements() == 0) return;
  std::vector<Interval> order;
  for (const Placed& one : SortedRuns(*tensor, {Interval(0, tensor->numElements())})) {
    order.emplace_back(one.place, one.place + one.run.size);
  }
  *tensor = concat(tensor->slices(order));
  for (Tensor* one : others) *one = concat(one->slices(order));
}

Tensor Graph::findUnbroadcastTensor(const Tensor& tensor) const {
  detail::CheckGraph(*state_, tensor, "Graph::findUnbroadcastTensor");
  Tensor found = tensor;
  for (unsigned d = 0; d < tensor.rank(); ++d) {
    if (tensor.dim(d) > 1 && TensorAccess::StrideOf(tensor, d) == 0) found = found.slice(0, 1, d);
  }
  return found;
}

Tensor Graph::cloneN(const Type& type, const Tensor& tensor, std::size_t N, const DebugContext& debugContext,
                     TensorCloneMethod method, TensorCloneDuplicationMethod) {
  if (N == 0) throw poplar_error("Graph::cloneN: at least one clone is needed. Received: 0.");
  std::vector<Tensor> clones;
  for (std::size_t i = 0; i < N; ++i) clones.push_back(clone(type, tensor, debugContext, method));
  return concat(clones);
}

Tensor Graph::cloneN(const Tensor& tensor, std::size_t N, const DebugContext& debugContext, TensorCloneMethod method,
                     TensorCloneDuplicationMethod duplication) {
  return cloneN(tensor.elementType(), tensor, N, debugContext, method, duplication);
}

}  // namespace ipu_tf
}  // namespace poplar
