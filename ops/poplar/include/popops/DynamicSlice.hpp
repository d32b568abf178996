// Parts of tensors at places known at run time, and rows of tables.
//
// A tensor is sliced by the tiles that hold its first slice, each of which works on its elements of all slices: tensors
// of createSliceableTensor hold them there. Options: `remapOutOfBoundIndices` makes rows that are not there row 0;
// without it they read as zeros, and updates of them are left out. Other options have no effect.
#ifndef IPU_TF_POPOPS_DYNAMIC_SLICE_HPP_
#define IPU_TF_POPOPS_DYNAMIC_SLICE_HPP_

#include <cstddef>
#include <iosfwd>
#include <vector>

#include <poplar/ArrayRef.hpp>
#include <poplar/DebugContext.hpp>
#include <poplar/Graph.hpp>
#include <poplar/OptionFlags.hpp>
#include <poplar/Program.hpp>

namespace popops {
inline namespace ipu_tf {

// What look-ups are planned for. All plans lay tables out alike: in columns, with all entries of a column on one tile.
class SlicePlan {
 public:
  SlicePlan() = default;
  SlicePlan(std::size_t groups, std::size_t entries, std::size_t columns)
      : groups_(groups), entries_(entries), columns_(columns) {}
  std::size_t groups() const { return groups_; }

  friend bool operator==(const SlicePlan& a, const SlicePlan& b) noexcept {
    return a.groups_ == b.groups_ && a.entries_ == b.entries_ && a.columns_ == b.columns_;
  }
  friend bool operator!=(const SlicePlan& a, const SlicePlan& b) noexcept { return !(a == b); }
  friend bool operator<(const SlicePlan& a, const SlicePlan& b) noexcept;
  friend std::ostream& operator<<(std::ostream& stream, const SlicePlan& plan);

 private:
  std::size_t groups_ = 0;
  std::size_t entries_ = 0;
  std::size_t columns_ = 0;
};

using Sizes = std::vector<std::size_t>;

// A tensor whose slices along `dims` are spread over the tiles, at least `minGrainSize` elements on each.
poplar::Tensor createSliceableTensor(poplar::Graph& graph, const poplar::Type& type, const Sizes& shape,
                                     const Sizes& dims, const Sizes& sizes, std::size_t minGrainSize = 0,
                                     const poplar::DebugContext& debugContext = {});
poplar::Tensor createSliceableTensor(poplar::Graph& graph, const poplar::Type& type, const Sizes& shape,
                                     const Sizes& dims, const Sizes& sizes, const SlicePlan& plan,
                                     const poplar::OptionFlags& options, const poplar::DebugContext& debugContext = {});
// A tensor of the shape for each group, with a new first dimension; groups share the tiles.
poplar::Tensor createGroupedSliceableTensor(poplar::Graph& graph, const poplar::Type& type, std::size_t groupSize,
                                            const Sizes& shape, const Sizes& dims, const Sizes& sizes,
                                            const SlicePlan& plan, const poplar::OptionFlags& options,
                                            const poplar::DebugContext& debugContext = {});
// So many slices of a tensor, with a new first dimension, on the tiles that slice it.
poplar::Tensor createSliceTensor(poplar::Graph& graph, const poplar::Tensor& t, const Sizes& dims, const Sizes& sizes,
                                 std::size_t numIndices, const poplar::DebugContext& debugContext = {});
poplar::Tensor createSliceTensor(poplar::Graph& graph, const poplar::Type& type, const Sizes& shape, const Sizes& dims,
                                 const Sizes& sizes, std::size_t numIndices, const SlicePlan& plan,
                                 const poplar::OptionFlags& options, const poplar::DebugContext& debugContext = {});
poplar::Tensor createGroupedSliceTensor(poplar::Graph& graph, const poplar::Type& type, std::size_t groupSize,
                                        const Sizes& shape, const Sizes& dims, const Sizes& sizes,
                                        std::size_t numIndices, const SlicePlan& plan,
                                        const poplar::OptionFlags& options,
                                        const poplar::DebugContext& debugContext = {});
// UNSIGNED_INT, {numIndices, dims}, linearly mapped; of groups {groupSize, numIndices, dims}.
poplar::Tensor createIndicesTensor(poplar::Graph& graph, const Sizes& dims, std::size_t numIndices,
                                   const SlicePlan& plan, const poplar::OptionFlags& options,
                                   const poplar::DebugContext& debugContext = {});
poplar::Tensor createGroupedIndicesTensor(poplar::Graph& graph, std::size_t groupSize, const Sizes& dims,
                                          std::size_t numIndices, const SlicePlan& plan,
                                          const poplar::OptionFlags& options,
                                          const poplar::DebugContext& debugContext = {});

// The part of `sizes` along `dims` from the offsets on, which are UNSIGNED_INT or INT; behind the end it goes on at the
// beginning.
poplar::Tensor dynamicSlice(poplar::Graph& graph, const poplar::Tensor& t, const poplar::Tensor& offset,
                            const Sizes& dims, const Sizes& sizes, poplar::program::Sequence& prog,
                            const poplar::DebugContext& debugContext = {}, const poplar::OptionFlags& options = {});
void dynamicSliceWithOutput(poplar::Graph& graph, const poplar::Tensor& output, const poplar::Tensor& t,
                            const poplar::Tensor& offset, const Sizes& dims, const Sizes& sizes,
                            poplar::program::Sequence& prog, const poplar::DebugContext& debugContext = {},
                            const poplar::OptionFlags& options = {});
void dynamicUpdate(poplar::Graph& graph, const poplar::Tensor& t, const poplar::Tensor& s, const poplar::Tensor& offset,
                   const Sizes& dims, const Sizes& sizes, poplar::program::Sequence& prog,
                   const poplar::DebugContext& debugContext = {}, const poplar::OptionFlags& options = {});

// Rows along one dimension: {offsets, shape of `t` with 1 there}.
poplar::Tensor multiSlice(poplar::Graph& graph, const poplar::Tensor& t, const poplar::Tensor& offsets,
                          const Sizes& dims, const Sizes& sizes, poplar::program::Sequence& prog, const SlicePlan& plan,
                          const poplar::OptionFlags& options, const poplar::DebugContext& debugContext = {});
poplar::Tensor multiSlice(poplar::Graph& graph, const poplar::Tensor& t, poplar::ArrayRef<unsigned> offsets,
                          std::size_t dim, poplar::program::Sequence& prog,
                          const poplar::DebugContext& debugContext = {}, const poplar::OptionFlags& optionFlags = {});
// With the groups as the first dimension of `t` and the offsets; dimensions count without them.
poplar::Tensor groupedMultiSlice(poplar::Graph& graph, const poplar::Tensor& t, const poplar::Tensor& offsets,
                                 const Sizes& dims, const Sizes& sizes, poplar::program::Sequence& prog,
                                 const SlicePlan& plan, const poplar::OptionFlags& options,
                                 const poplar::DebugContext& debugContext = {});

// Rows of `t` become those of `s`, one after the other; or their maximum, product, or sum with those of `s` times a
// scalar.
#define IPU_TF_UPDATE(NAME)                                                                                        \
  void NAME(poplar::Graph& graph, const poplar::Tensor& t, const poplar::Tensor& s, const poplar::Tensor& offsets, \
            const Sizes& dims, const Sizes& sizes, poplar::program::Sequence& prog, const SlicePlan& plan,         \
            const poplar::OptionFlags& options, const poplar::DebugContext& debugContext = {});
IPU_TF_UPDATE(multiUpdate)
IPU_TF_UPDATE(multiUpdateMax)
IPU_TF_UPDATE(multiUpdateMul)
IPU_TF_UPDATE(groupedMultiUpdate)
IPU_TF_UPDATE(groupedMultiUpdateMax)
IPU_TF_UPDATE(groupedMultiUpdateMul)
#undef IPU_TF_UPDATE
void multiUpdateAdd(poplar::Graph& graph, const poplar::Tensor& t, const poplar::Tensor& s,
                    const poplar::Tensor& offsets, const poplar::Tensor& scale, const Sizes& dims, const Sizes& sizes,
                    poplar::program::Sequence& prog, const SlicePlan& plan, const poplar::OptionFlags& options,
                    const poplar::DebugContext& debugContext = {});
void multiUpdateAdd(poplar::Graph& graph, const poplar::Tensor& t, const poplar::Tensor& s,
                    poplar::ArrayRef<unsigned> offsets, const poplar::Tensor& scale, std::size_t dim,
                    poplar::program::Sequence& prog, const poplar::DebugContext& debugContext = {},
                    const poplar::OptionFlags& optionFlags = {});
void groupedMultiUpdateAdd(poplar::Graph& graph, const poplar::Tensor& t, const poplar::Tensor& s,
                           const poplar::Tensor& offsets, const poplar::Tensor& scale, const Sizes& dims,
                           const Sizes& sizes, poplar::program::Sequence& prog, const SlicePlan& plan,
                           const poplar::OptionFlags& options, const poplar::DebugContext& debugContext = {});

namespace embedding {

SlicePlan plan(const poplar::Graph& graph, const poplar::Type& dataType, std::size_t numEntries, std::size_t outputSize,
               const Sizes& numLookups, const poplar::OptionFlags& options);
SlicePlan plan(const poplar::Graph& graph, const poplar::Type& dataType, std::size_t groupSize, std::size_t numEntries,
               std::size_t outputSize, const Sizes& numLookups, const poplar::OptionFlags& options);

}  // namespace embedding
}  // namespace ipu_tf
}  // namespace popops

#endif  // IPU_TF_POPOPS_DYNAMIC_SLICE_HPP_
