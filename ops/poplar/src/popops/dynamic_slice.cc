#include <popops/DynamicSlice.hpp>

#include <poputil/VertexTemplates.hpp>
#include <poputil/exceptions.hpp>

#include "slices.h"

namespace popops {
inline namespace ipu_tf {
namespace {

using poplar::DebugContext;
using poplar::Graph;
using poplar::Interval;
using poplar::Tensor;
using poplar::program::Sequence;

void CheckOffsets(const Tensor& offset, const Sizes& dims, const std::string& call) {
  if (offset.numElements() == dims.size()) return;
  throw poputil::poplibs_error("popops::" + call + ": there is an offset for each of " + std::to_string(dims.size()) +
                               " dimensions. Received: the shape " + offset.shapeToString() + ".");
}

// One vertex on each tile of columns: rows of `part` from or to the table.
void AddVertices(Graph* graph, const char* name, const char* field, const Tensor& table, const Tensor& part,
                 const Tensor& offset, Sequence* prog, const DebugContext& context) {
  const std::string type = poputil::templateVertex(name, table.elementType());
  detail::AddFile(graph, "popops_slice.cpp", type);
  const poplar::ComputeSet set = graph->addComputeSet(DebugContext(context, field[0] == 'o' ? "slice" : "update"));
  detail::ForTiles(graph, set, type, detail::Columns(*graph, table),
                   [&](const poplar::VertexRef& vertex, const std::vector<Interval>& columns) {
                     graph->connect(vertex["table"], detail::InColumns(table, columns));
                     graph->connect(vertex["offset"], offset);
                     graph->connect(vertex[field], detail::InColumns(part, columns));
                     graph->setInitialValue(vertex["columns"], detail::Elements(columns));
                     detail::SetWork(graph, vertex, detail::Elements(columns), part.dim(0));
                   });
  prog->add(poplar::program::Execute(set));
}

// A slice along one dimension.
Tensor Slice(Graph* graph, const Tensor& t, const Tensor& offset, std::size_t dim, std::size_t size, Sequence* prog,
             const DebugContext& context) {
  const Tensor table = detail::Table(t, dim);
  const Tensor part =
      detail::AddRows(graph, t.elementType(), size, detail::Columns(*graph, table), DebugContext(context, "slice"));
  AddVertices(graph, "popops::DynamicSlice", "out", table, part, offset, prog, context);
  return detail::FromTable(part, t.shape(), dim);
}

}  // namespace

Tensor dynamicSlice(Graph& graph, const Tensor& t, const Tensor& offset, const Sizes& dims, const Sizes& sizes,
                    Sequence& prog, const DebugContext& debugContext, const poplar::OptionFlags&) {
  detail::CheckDims(t.shape(), dims, sizes, "dynamicSlice");
  CheckOffsets(offset, dims, "dynamicSlice");
  const Tensor offsets = detail::Unsigned(offset, "dynamicSlice").flatten();
  Tensor part = t;
  for (std::size_t i = 0; i < dims.size(); ++i) {
    part = Slice(&graph, part, offsets[i], dims[i], sizes[i], &prog, debugContext);
  }
  return part;
}

void dynamicSliceWithOutput(Graph& graph, const Tensor& output, const Tensor& t, const Tensor& offset,
                            const Sizes& dims, const Sizes& sizes, Sequence& prog, const DebugContext& debugContext,
                            const poplar::OptionFlags& options) {
  prog.add(poplar::program::Copy(dynamicSlice(graph, t, offset, dims, sizes, prog, debugContext, options), output));
}

void dynamicUpdate(Graph& graph, const Tensor& t, const Tensor& s, const Tensor& offset, const Sizes& dims,
                   const Sizes& sizes, Sequence& prog, const DebugContext& debugContext,
                   const poplar::OptionFlags& options) {
  detail::CheckDims(t.shape(), dims, sizes, "dynamicUpdate");
  CheckOffsets(offset, dims, "dynamicUpdate");
  Sizes expected = t.shape();
  for (std::size_t i = 0; i < dims.size(); ++i) expected[dims[i]] = sizes[i];
  if (s.shape() != expected || s.elementType() != t.elementType()) {
    throw poputil::poplibs_error(
        "popops::dynamicUpdate: the update is not of the type and the shape of a slice. "
        "Received: " +
        s.elementType().toString() + " " + s.shapeToString() + ".");
  }
  const Tensor offsets = detail::Unsigned(offset, "dynamicUpdate").flatten();
  if (dims.empty()) {
    prog.add(poplar::program::Copy(s, t));
    return;
  }
  // The slice along the first dimension is updated along the others, and put back.
  Tensor part = s;
  if (dims.size() > 1) {
    part = Slice(&graph, t, offsets[0], dims[0], sizes[0], &prog, debugContext);
    dynamicUpdate(graph, part, s, offsets.slice(1, offsets.numElements()), {dims.begin() + 1, dims.end()},
                  {sizes.begin() + 1, sizes.end()}, prog, debugContext, options);
  }
  AddVertices(&graph, "popops::DynamicUpdate", "in", detail::Table(t, dims[0]), detail::Table(part, dims[0]),
              offsets[0], &prog, debugContext);
}

}  // namespace ipu_tf
}  // namespace popops
