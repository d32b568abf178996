// Tensors for slices.
#include <algorithm>
#include <ostream>
#include <tuple>

#include <poputil/TileMapping.hpp>
#include <poputil/exceptions.hpp>

#include "slices.h"

namespace popops {
inline namespace ipu_tf {
namespace {

using poplar::DebugContext;
using poplar::Graph;
using poplar::Interval;
using poplar::OptionFlags;
using poplar::Tensor;
using poplar::Type;
using Mapping = std::vector<std::vector<Interval>>;

std::string Text(const Sizes& sizes) {
  std::string text;
  for (const std::size_t one : sizes) text += (text.empty() ? "" : ",") + std::to_string(one);
  return "{" + text + "}";
}

std::size_t Product(const Sizes& sizes) {
  std::size_t product = 1;
  for (const std::size_t one : sizes) product *= one;
  return product;
}

// Columns dealt to tiles [first, first + count).
Mapping Dealt(const Graph& graph, std::size_t columns, std::size_t grain, unsigned first, unsigned count) {
  Mapping mapping(graph.getTarget().getNumTiles());
  const std::size_t share = std::max({(columns + count - 1) / count, grain, std::size_t{1}});
  for (std::size_t begin = 0; begin < columns; begin += share) {
    mapping[first + begin / share].emplace_back(begin, std::min(columns, begin + share));
  }
  return mapping;
}

Tensor Sliceable(Graph* graph, const Type& type, const Sizes& shape, const Sizes& dims, std::size_t grain,
                 unsigned first, unsigned count, const DebugContext& context) {
  // Sliced dimensions first, then the others.
  std::vector<unsigned> order;
  for (const bool is_sliced : {true, false}) {
    for (unsigned d = 0; d < shape.size(); ++d) {
      if ((std::find(dims.begin(), dims.end(), d) != dims.end()) == is_sliced) order.push_back(d);
    }
  }
  Sizes ordered;
  std::vector<unsigned> back(shape.size());
  std::size_t rows = 1;
  for (unsigned i = 0; i < order.size(); ++i) {
    ordered.push_back(shape[order[i]]);
    back[order[i]] = i;
    if (i < dims.size()) rows *= shape[order[i]];
  }
  const std::size_t columns = rows == 0 ? 0 : Product(shape) / rows;
  const Tensor table = detail::AddRows(graph, type, rows, Dealt(*graph, columns, grain, first, count), context);
  return table.reshape(ordered).dimShuffle(back);
}

unsigned Tiles(const Graph& graph) { return graph.getTarget().getNumTiles(); }

// The slices of a sliceable tensor of the shape.
Sizes SliceShape(Sizes shape, const Sizes& dims, const Sizes& sizes) {
  for (std::size_t i = 0; i < dims.size(); ++i) shape[dims[i]] = sizes[i];
  return shape;
}

Tensor Grouped(Graph* graph, const Type& type, std::size_t groups, const Sizes& shape, const Sizes& dims,
               const DebugContext& context) {
  const unsigned tiles = Tiles(*graph);
  const unsigned each = std::max<unsigned>(1, tiles / static_cast<unsigned>(std::max<std::size_t>(1, groups)));
  std::vector<Tensor> all;
  for (std::size_t i = 0; i < groups; ++i) {
    const unsigned first = static_cast<unsigned>(i) * each % (tiles - each + 1);
    all.push_back(Sliceable(graph, type, shape, dims, 0, first, each, context).expand({0}));
  }
  return poplar::concat(all);
}

}  // namespace

namespace detail {

void CheckDims(const Sizes& shape, const Sizes& dims, const Sizes& sizes, const std::string& call) {
  bool fits = dims.size() == sizes.size();
  for (std::size_t i = 0; fits && i < dims.size(); ++i) {
    fits = dims[i] < shape.size() && sizes[i] <= shape[dims[i]] && std::count(dims.begin(), dims.end(), dims[i]) == 1;
  }
  if (fits) return;
  throw poputil::poplibs_error("popops::" + call + ": each dimension to slice is one of the shape " + Text(shape) +
                               ", with a size up to its own. Received: dimensions " + Text(dims) + " and sizes " +
                               Text(sizes) + ".");
}

Tensor Unsigned(const Tensor& offsets, const std::string& call) {
  const Type type = offsets.elementType();
  if (type == poplar::UNSIGNED_INT) return offsets;
  if (type == poplar::INT) return offsets.reinterpret(poplar::UNSIGNED_INT);
  throw poputil::poplibs_error("popops::" + call +
                               ": offsets are of UNSIGNED_INT or INT. Received: " + type.toString() + ".");
}

Tensor AddRows(Graph* graph, const Type& type, std::size_t rows, const Mapping& columns, const DebugContext& context) {
  std::size_t width = 0;
  for (const auto& of_tile : columns) width += Elements(of_tile);
  const Tensor all = graph->addVariable(type, {rows * width}, context);
  std::vector<std::pair<std::size_t, Tensor>> parts;  // By their first column.
  std::size_t place = 0;
  for (unsigned tile = 0; tile < columns.size(); ++tile) {
    const std::size_t of_tile = Elements(columns[tile]);
    if (of_tile == 0) continue;
    const Tensor block = all.slice(place, place + rows * of_tile);
    graph->setTileMapping(block, tile);
    place += rows * of_tile;
    std::size_t column = 0;
    for (const Interval& one : columns[tile]) {
      parts.emplace_back(one.begin(), block.reshape({rows, of_tile}).slice(column, column + one.size(), 1));
      column += one.size();
    }
  }
  if (parts.empty()) return all.reshape({rows, width});
  std::stable_sort(parts.begin(), parts.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<Tensor> sorted;
  for (const auto& one : parts) sorted.push_back(one.second);
  return poplar::concat(sorted, 1);
}

}  // namespace detail

bool operator<(const SlicePlan& a, const SlicePlan& b) noexcept {
  return std::tie(a.groups_, a.entries_, a.columns_) < std::tie(b.groups_, b.entries_, b.columns_);
}

std::ostream& operator<<(std::ostream& stream, const SlicePlan& plan) {
  return stream << plan.groups_ << " groups of " << plan.entries_ << " entries of " << plan.columns_ << " elements";
}

Tensor createSliceableTensor(Graph& graph, const Type& type, const Sizes& shape, const Sizes& dims, const Sizes& sizes,
                             std::size_t minGrainSize, const DebugContext& debugContext) {
  detail::CheckDims(shape, dims, sizes, "createSliceableTensor");
  return Sliceable(&graph, type, shape, dims, minGrainSize, 0, Tiles(graph), debugContext);
}

Tensor createSliceableTensor(Graph& graph, const Type& type, const Sizes& shape, const Sizes& dims, const Sizes& sizes,
                             const SlicePlan&, const OptionFlags&, const DebugContext& debugContext) {
  return createSliceableTensor(graph, type, shape, dims, sizes, 0, debugContext);
}

Tensor createGroupedSliceableTensor(Graph& graph, const Type& type, std::size_t groupSize, const Sizes& shape,
                                    const Sizes& dims, const Sizes& sizes, const SlicePlan&, const OptionFlags&,
                                    const DebugContext& debugContext) {
  detail::CheckDims(shape, dims, sizes, "createGroupedSliceableTensor");
  return Grouped(&graph, type, groupSize, shape, dims, debugContext);
}

Tensor createSliceTensor(Graph& graph, const Tensor& t, const Sizes& dims, const Sizes& sizes, std::size_t numIndices,
                         const DebugContext& debugContext) {
  detail::CheckDims(t.shape(), dims, sizes, "createSliceTensor");
  std::vector<Tensor> slices;
  Tensor part = t;
  for (std::size_t i = 0; i < dims.size(); ++i) part = part.slice(0, sizes[i], static_cast<unsigned>(dims[i]));
  for (std::size_t i = 0; i < numIndices; ++i) slices.push_back(graph.clone(part, debugContext).expand({0}));
  return poplar::concat(slices);
}

Tensor createSliceTensor(Graph& graph, const Type& type, const Sizes& shape, const Sizes& dims, const Sizes& sizes,
                         std::size_t numIndices, const SlicePlan&, const OptionFlags&,
                         const DebugContext& debugContext) {
  detail::CheckDims(shape, dims, sizes, "createSliceTensor");
  Sizes all = SliceShape(shape, dims, sizes);
  all.insert(all.begin(), numIndices);
  Sizes sliced{0};
  for (const std::size_t one : dims) sliced.push_back(one + 1);
  return Sliceable(&graph, type, all, sliced, 0, 0, Tiles(graph), debugContext);
}

Tensor createGroupedSliceTensor(Graph& graph, const Type& type, std::size_t groupSize, const Sizes& shape,
                                const Sizes& dims, const Sizes& sizes, std::size_t numIndices, const SlicePlan&,
                                const OptionFlags&, const DebugContext& debugContext) {
  detail::CheckDims(shape, dims, sizes, "createGroupedSliceTensor");
  Sizes all = SliceShape(shape, dims, sizes);
  all.insert(all.begin(), numIndices);
  Sizes sliced{0};
  for (const std::size_t one : dims) sliced.push_back(one + 1);
  return Grouped(&graph, type, groupSize, all, sliced, debugContext);
}

Tensor createIndicesTensor(Graph& graph, const Sizes& dims, std::size_t numIndices, const SlicePlan&,
                           const OptionFlags&, const DebugContext& debugContext) {
  const Tensor indices = graph.addVariable(poplar::UNSIGNED_INT, {numIndices, dims.size()}, debugContext);
  poputil::mapTensorLinearly(graph, indices);
  return indices;
}

Tensor createGroupedIndicesTensor(Graph& graph, std::size_t groupSize, const Sizes& dims, std::size_t numIndices,
                                  const SlicePlan&, const OptionFlags&, const DebugContext& debugContext) {
  const Tensor indices = graph.addVariable(poplar::UNSIGNED_INT, {groupSize, numIndices, dims.size()}, debugContext);
  poputil::mapTensorLinearly(graph, indices);
  return indices;
}

namespace embedding {

SlicePlan plan(const Graph& graph, const Type& dataType, std::size_t numEntries, std::size_t outputSize,
               const Sizes& numLookups, const OptionFlags& options) {
  return plan(graph, dataType, 1, numEntries, outputSize, numLookups, options);
}

SlicePlan plan(const Graph&, const Type&, std::size_t groupSize, std::size_t numEntries, std::size_t outputSize,
               const Sizes&, const OptionFlags&) {
  return {groupSize, numEntries, outputSize};
}

}  // namespace embedding
}  // namespace ipu_tf
}  // namespace popops
