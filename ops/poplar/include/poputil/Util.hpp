// Ranges of elements, and copies of tensors.
#ifndef IPU_TF_POPUTIL_UTIL_HPP_
#define IPU_TF_POPUTIL_UTIL_HPP_

#include <algorithm>
#include <cassert>
#include <climits>
#include <cstddef>
#include <string>
#include <vector>

#include <poplar/DebugContext.hpp>
#include <poplar/Device.hpp>
#include <poplar/Graph.hpp>
#include <poplar/Interval.hpp>
#include <poplar/Program.hpp>
#include <poplar/Target.hpp>
#include <poplar/Tensor.hpp>

namespace poputil {
inline namespace ipu_tf {

// Joins ranges that follow one another.
void mergeAdjacentRegions(std::vector<poplar::Interval>& regions);
void mergeAdjacentRegions(std::vector<std::vector<poplar::Interval>>& mapping);
std::vector<poplar::Interval> flattenIntervals(const std::vector<std::vector<poplar::Interval>>& intervals);
std::size_t intervalSequenceNumElements(const std::vector<std::vector<poplar::Interval>>& seq);

// At most `maxPartitions` lists with about as many elements each, in order. Ranges are cut at whole grains from where
// they begin; lists with more than `maxElementsPerPartition` are cut further.
std::vector<std::vector<poplar::Interval>> splitRegions(const std::vector<poplar::Interval>& regions,
                                                        unsigned grainSize, unsigned maxPartitions,
                                                        unsigned minElementsPerPartition = 0,
                                                        unsigned maxElementsPerPartition = UINT_MAX,
                                                        unsigned maxElementsPerRegion = UINT_MAX);
// A list for each worker of a tile.
std::vector<std::vector<poplar::Interval>> splitRegionsBetweenWorkers(const poplar::Target& target,
                                                                      const std::vector<poplar::Interval>& regions,
                                                                      unsigned grainSize,
                                                                      unsigned minElementsPerPartition = 0,
                                                                      unsigned maxElementsPerPartition = UINT_MAX,
                                                                      unsigned maxElementsPerRegion = UINT_MAX);
// The same for lists of ranges, each of which is cut as a whole.
std::vector<std::vector<std::vector<poplar::Interval>>> splitRegions(
    const std::vector<std::vector<poplar::Interval>>& regions, unsigned grainSize, unsigned maxPartitions,
    unsigned minElementsPerPartition = 0, unsigned maxElementsPerPartition = UINT_MAX,
    unsigned maxElementsPerRegion = UINT_MAX);
std::vector<std::vector<std::vector<poplar::Interval>>> splitRegionsBetweenWorkers(
    const poplar::Target& target, const std::vector<std::vector<poplar::Interval>>& regions, unsigned grainSize,
    unsigned minElementsPerPartition = 0, unsigned maxElementsPerPartition = UINT_MAX,
    unsigned maxElementsPerRegion = UINT_MAX);
// Where `concat(t.slices(intervals))` has the elements of `t`: slices by the result undo it.
std::vector<poplar::Interval> calculateUnshufflingIntervals(const std::vector<poplar::Interval>& intervals);

// The place of an element of the flattened tensor, and back.
template <class T>
std::vector<T> unflattenIndex(const std::vector<T>& shape, std::size_t index) {
  std::vector<T> place(shape.size());
  for (std::size_t d = shape.size(); d-- > 0; index /= shape[d]) place[d] = static_cast<T>(index % shape[d]);
  return place;
}
template <class T>
std::size_t flattenIndex(const std::vector<T>& shape, const std::vector<T>& indices) {
  std::size_t index = 0;
  for (std::size_t d = 0; d < shape.size(); ++d) index = index * shape[d] + indices[d];
  return index;
}

// Sizes of so many parts of a range; the first have the remainder.
std::vector<int> balancedPartition(int rangeUpperBound, int splitCount);

// A clone of a tensor, with a Copy of the elements added to `prog`.
poplar::Tensor duplicate(poplar::Graph& graph, const poplar::Tensor& tensor, poplar::program::Sequence& prog,
                         const poplar::DebugContext& debugContext = {},
                         poplar::TensorCloneMethod method = poplar::TensorCloneMethod::PRESERVE_ORDER_UNLESS_ALIASES);
// N clones with a new first dimension.
poplar::Tensor cloneN(poplar::Graph& graph, const poplar::Tensor& tensor, unsigned N,
                      const poplar::DebugContext& debugContext = {},
                      poplar::TensorCloneMethod method = poplar::TensorCloneMethod::PRESERVE_ORDER_UNLESS_ALIASES);

// The half nearest to a number.
double castToDeviceHalfValue(const poplar::Target& target, double input);
// Whether a number survives a cast between FLOAT and HALF with an error of at most `tolerance` of it. Raises
// poplibs_error for other types.
bool checkAccuracyWhenCast(const poplar::Target& target, double input, poplar::Type inputType, poplar::Type outputType,
                           double tolerance);

// Splits dimensions from `startDim` on by factors, and moves the factors behind all of them: {4,6,4} by 1 and 2 is
// {4,3,1,2,4}; and back.
poplar::Tensor factorDims(const poplar::Tensor& tensor, const std::vector<std::size_t>& factors, unsigned startDim = 0);
poplar::Tensor unfactorDims(const poplar::Tensor& tensor, unsigned numDims, unsigned startDim = 0);

}  // namespace ipu_tf
}  // namespace poputil

#endif  // IPU_TF_POPUTIL_UTIL_HPP_
