#include <popops/Reduce.hpp>

#include <algorithm>
#include <string>

#include <poputil/TileMapping.hpp>
#include <poputil/VertexTemplates.hpp>
#include <poputil/exceptions.hpp>

#include "workers.h"

namespace popops {
inline namespace ipu_tf {
namespace {

using poplar::DebugContext;
using poplar::Graph;
using poplar::Interval;
using poplar::Tensor;
using poplar::program::Execute;
using poplar::program::Sequence;

// The sizes of the other dimensions.
std::vector<std::size_t> ResultShape(const Tensor& in, const std::vector<std::size_t>& dims) {
  std::vector<std::size_t> shape;
  for (const std::size_t d : dims) {
    if (d >= in.rank()) {
      throw poputil::poplibs_error("popops::reduce: there is no dimension " + std::to_string(d) + " in the shape " +
                                   in.shapeToString() + ".");
    }
  }
  for (unsigned d = 0; d < in.rank(); ++d) {
    if (std::find(dims.begin(), dims.end(), d) == dims.end()) shape.push_back(in.dim(d));
  }
  return shape;
}

// One row for each result.
Tensor Rows(const Tensor& in, const std::vector<std::size_t>& dims, std::size_t results) {
  std::vector<unsigned> order;
  for (unsigned d = 0; d < in.rank(); ++d) {
    if (std::find(dims.begin(), dims.end(), d) == dims.end()) order.push_back(d);
  }
  for (unsigned d = 0; d < in.rank(); ++d) {
    if (std::find(dims.begin(), dims.end(), d) != dims.end()) order.push_back(d);
  }
  return in.dimShuffle(order).reshape({results, results == 0 ? 0 : in.numElements() / results});
}

poplar::ComputeSet Add(Graph& graph, const Tensor& in, const Tensor& out, const std::vector<std::size_t>& dims,
                       const ReduceParams& params, const DebugContext& context) {
  const std::vector<std::size_t> shape = ResultShape(in, dims);
  std::size_t results = 1;
  for (const std::size_t one : shape) results *= one;
  if (results != out.numElements()) {
    throw poputil::poplibs_error("popops::reduceWithOutput: there are " + std::to_string(results) +
                                 " results. Received: an output of the shape " + out.shapeToString() + ".");
  }
  if (params.op == Operation::LOG_ADD) throw poputil::poplibs_error("popops::reduce: LOG_ADD is not supported yet.");
  const Tensor rows = Rows(in, dims, results);
  const Tensor flat = out.flatten();
  const poplar::ComputeSet set = graph.addComputeSet(DebugContext(context, "reduce"));
  const std::string type = poputil::templateVertex(params.update ? "popops::ReduceUpdate" : "popops::Reduce",
                                                   in.elementType(), out.elementType(), static_cast<int>(params.op));
  // A load and the operation for each operand; a result has the reading of its row besides.
  const std::uint64_t operand = params.op == Operation::SQUARE_ADD ? 3 : 2;
  const std::uint64_t result = 13 + (out.elementType() == poplar::HALF ? 2 : 0) + (params.update ? 2 : 0);
  const detail::Slots slots{4, result + operand * rows.dim(1)};
  detail::ForWorkers(graph, flat, [&](unsigned tile, const std::vector<Interval>& part) {
    const poplar::VertexRef vertex = graph.addVertex(set, type);
    graph.setTileMapping(vertex, tile);
    graph.connect(vertex["out"], detail::Part(flat, part));
    detail::Estimate(graph, vertex, slots, part);
    std::size_t row = 0;
    for (const Interval& one : part) {
      for (std::size_t i = one.begin(); i < one.end(); ++i) graph.connect(vertex["in"][row++], rows[i]);
    }
  });
  return set;
}

Tensor Result(Graph& graph, const Tensor& in, const poplar::Type& type, const std::vector<std::size_t>& dims,
              const DebugContext& context) {
  Tensor out = graph.addVariable(type, ResultShape(in, dims), context);
  poputil::mapTensorLinearly(graph, out);
  return out;
}

}  // namespace

void reduceWithOutput(Graph& graph, const Tensor& in, const Tensor& out, const std::vector<std::size_t>& dims,
                      ReduceParams params, Sequence& prog, const DebugContext& debugContext,
                      const poplar::OptionFlags&) {
  prog.add(Execute(Add(graph, in, out, dims, params, debugContext)));
}

void reduceWithOutput(Graph& graph, const Tensor& in, const Tensor& out, const std::vector<std::size_t>& dims,
                      ReduceParams params, std::vector<poplar::ComputeSet>& css, const DebugContext& debugContext,
                      const poplar::OptionFlags&) {
  css.push_back(Add(graph, in, out, dims, params, debugContext));
}

Tensor reduce(Graph& graph, const Tensor& in, const poplar::Type& outType, const std::vector<std::size_t>& dims,
              ReduceParams params, Sequence& prog, const DebugContext& debugContext,
              const poplar::OptionFlags& options) {
  const Tensor out = Result(graph, in, outType, dims, debugContext);
  reduceWithOutput(graph, in, out, dims, params, prog, debugContext, options);
  return out;
}

Tensor reduce(Graph& graph, const Tensor& in, const std::vector<std::size_t>& dims, ReduceParams params, Sequence& prog,
              const DebugContext& debugContext, const poplar::OptionFlags& options) {
  return reduce(graph, in, in.elementType(), dims, params, prog, debugContext, options);
}

Tensor reduce(Graph& graph, const Tensor& in, const std::vector<std::size_t>& dims, ReduceParams params,
              std::vector<poplar::ComputeSet>& css, const DebugContext& debugContext,
              const poplar::OptionFlags& options) {
  const Tensor out = Result(graph, in, in.elementType(), dims, debugContext);
  reduceWithOutput(graph, in, out, dims, params, css, debugContext, options);
  return out;
}

}  // namespace ipu_tf
}  // namespace popops
