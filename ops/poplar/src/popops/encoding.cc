#include <popops/Encoding.hpp>

#include <algorithm>
#include <string>

#include <poputil/VertexTemplates.hpp>
#include <poputil/exceptions.hpp>

#include "library.h"

namespace popops {
inline namespace ipu_tf {
namespace {

using poplar::ComputeSet;
using poplar::DebugContext;
using poplar::Graph;
using poplar::Interval;
using poplar::Tensor;
using poplar::program::Sequence;

void AddIota(Graph* graph, const Tensor& t, std::int64_t start, const poplar::Type& type, Sequence* prog,
             const DebugContext& context) {
  if (t.rank() != 1 || t.elementType() != type) {
    throw poputil::poplibs_error("popops::iota: the tensor is a list of " + type.toString() + ". Received: " +
                                 t.elementType().toString() + " of the shape " + t.shapeToString() + ".");
  }
  const std::string codelet = poputil::templateVertex("popops::Iota", type);
  detail::AddFile(graph, "popops_encode.cpp", codelet);
  const ComputeSet set = graph->addComputeSet(DebugContext(context, "iota"));
  detail::ForTiles(graph, set, codelet, graph->getTileMapping(t),
                   [&](const poplar::VertexRef& vertex, const std::vector<Interval>& part) {
                     std::vector<std::int64_t> first;
                     for (const Interval& one : part) {
                       graph->connect(vertex["out"][first.size()], t.slice(one));
                       first.push_back(start + static_cast<std::int64_t>(one.begin()));
                     }
                     graph->setInitialValue(vertex["first"], first);
                   });
  prog->add(poplar::program::Execute(set));
}

void CheckOneHot(const Tensor& indices, const Tensor& encoded) {
  if (indices.rank() == 1 && encoded.rank() == 2 && encoded.dim(0) == indices.dim(0)) return;
  throw poputil::poplibs_error(
      "popops::encodeOneHot: the shapes of indices and encoded rows are {n} and {n, columns}. "
      "Received: " +
      indices.shapeToString() + " and " + encoded.shapeToString() + ".");
}

}  // namespace

void iota(Graph& graph, const Tensor& t, unsigned startInteger, Sequence& prog, const DebugContext& debugContext) {
  AddIota(&graph, t, startInteger, poplar::UNSIGNED_INT, &prog, debugContext);
}

void iota(Graph& graph, const Tensor& t, int startInteger, Sequence& prog, const DebugContext& debugContext) {
  AddIota(&graph, t, startInteger, poplar::INT, &prog, debugContext);
}

void encodeOneHot(Graph& graph, const Tensor& indices, const Tensor& encoded, Sequence& prog, const Tensor& on,
                  const Tensor& off, const DebugContext& debugContext) {
  CheckOneHot(indices, encoded);
  const std::string type = poputil::templateVertex("popops::OneHot", indices.elementType(), encoded.elementType());
  detail::AddFile(&graph, "popops_encode.cpp", type);
  if (!graph.hasCodelet(type)) {
    throw poputil::poplibs_error(
        "popops::encodeOneHot: indices are of INT or UNSIGNED_INT, and encoded elements of "
        "FLOAT, HALF, INT or UNSIGNED_INT. Received: " +
        indices.elementType().toString() + " and " + encoded.elementType().toString() + ".");
  }
  const std::size_t columns = encoded.dim(1);
  const Tensor flat = encoded.flatten();
  const ComputeSet set = graph.addComputeSet(DebugContext(debugContext, "encodeOneHot"));
  detail::ForTiles(&graph, set, type, graph.getTileMapping(flat),
                   [&](const poplar::VertexRef& vertex, const std::vector<Interval>& part) {
                     std::vector<Tensor> of_rows;
                     std::vector<unsigned> column;
                     for (const Interval& one : part) {
                       for (std::size_t begin = one.begin(); begin < one.end();) {
                         const std::size_t row = begin / columns;
                         const std::size_t end = std::min(one.end(), (row + 1) * columns);
                         graph.connect(vertex["out"][of_rows.size()], flat.slice(begin, end));
                         of_rows.push_back(indices.slice(row, row + 1));
                         column.push_back(static_cast<unsigned>(begin - row * columns));
                         begin = end;
                       }
                     }
                     graph.connect(vertex["indices"], poplar::concat(of_rows));
                     graph.setInitialValue(vertex["column"], column);
                     graph.connect(vertex["on"], on.flatten()[0]);
                     graph.connect(vertex["off"], off.flatten()[0]);
                   });
  prog.add(poplar::program::Execute(set));
}

void encodeOneHot(Graph& graph, const Tensor& indices, const Tensor& encoded, Sequence& prog,
                  const DebugContext& debugContext) {
  const Tensor on = graph.addConstant(encoded.elementType(), {}, 1, DebugContext(debugContext, "on"));
  const Tensor off = graph.addConstant(encoded.elementType(), {}, 0, DebugContext(debugContext, "off"));
  graph.setTileMapping(on, 0);
  graph.setTileMapping(off, 0);
  encodeOneHot(graph, indices, encoded, prog, on, off, debugContext);
}

}  // namespace ipu_tf
}  // namespace popops
