#include <popops/ElementWise.hpp>

#include <algorithm>
#include <string>

#include <popops/AllTrue.hpp>
#include <popops/Cast.hpp>
#include <popops/Fill.hpp>
#include <popops/Reduce.hpp>
#include <popops/Zero.hpp>
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

// Numbers of the operations in codelets/popops.cpp.
enum Binary { kAdd, kSub, kMul, kDiv };

// Two loads, the operation and a store for each element; halves convert, and divisions take three slots.
detail::Slots SlotsOf(Binary op, const poplar::Type& type, bool is_in_place) {
  const bool is_half = type == poplar::HALF;
  const bool is_long = op == kDiv && (is_half || type == poplar::FLOAT);
  return {is_in_place ? 6u : 7u, 4u + (is_half ? 1 : 0) + (is_long ? 2 : 0)};
}

// A load, the conversion and a store; loads and stores convert halves.
detail::Slots SlotsOf(const poplar::Type& from, const poplar::Type& to) {
  const auto is_float = [](const poplar::Type& type) { return type == poplar::FLOAT || type == poplar::HALF; };
  return {6, is_float(from) && is_float(to) ? 2u : 3u};
}

std::vector<std::size_t> BroadcastShape(const Tensor& a, const Tensor& b, const std::string& call) {
  const unsigned rank = std::max(a.rank(), b.rank());
  std::vector<std::size_t> shape(rank);
  for (unsigned d = 0; d < rank; ++d) {
    const std::size_t of_a = d + a.rank() < rank ? 1 : a.dim(d + a.rank() - rank);
    const std::size_t of_b = d + b.rank() < rank ? 1 : b.dim(d + b.rank() - rank);
    if (of_a != of_b && of_a != 1 && of_b != 1) {
      throw poputil::poplibs_error("popops::" + call + ": the shapes " + a.shapeToString() + " and " +
                                   b.shapeToString() + " do not broadcast to each other.");
    }
    shape[d] = of_a == 1 ? of_b : of_a;
  }
  return shape;
}

Tensor BroadcastTo(Tensor tensor, const std::vector<std::size_t>& shape) {
  while (tensor.rank() < shape.size()) tensor = tensor.expand({0});
  for (unsigned d = 0; d < shape.size(); ++d) {
    if (tensor.dim(d) != shape[d]) tensor = tensor.broadcast(static_cast<unsigned>(shape[d]), d);
  }
  return tensor;
}

void CheckTypes(const Tensor& a, const Tensor& b, const std::string& call) {
  if (a.elementType() == b.elementType()) return;
  throw poputil::poplibs_error("popops::" + call +
                               ": the operands must have one type. Received: " + a.elementType().toString() + " and " +
                               b.elementType().toString() + ". Call popops::cast on one.");
}

void Apply(Graph& graph, Binary op, const std::string& call, const Tensor& a, const Tensor& b, const Tensor& out,
           Sequence& prog, const DebugContext& context, bool is_in_place) {
  CheckTypes(a, b, call);
  CheckTypes(a, out, call);
  const std::vector<std::size_t> shape = BroadcastShape(a, b, call);
  if (shape != out.shape()) {
    throw poputil::poplibs_error("popops::" + call + ": the result does not have the shape of the output, " +
                                 out.shapeToString() + ".");
  }
  const Tensor flat_a = BroadcastTo(a, shape).flatten();
  const Tensor flat_b = BroadcastTo(b, shape).flatten();
  const Tensor flat_out = out.flatten();
  const poplar::ComputeSet set = graph.addComputeSet(DebugContext(context, call));
  const std::string type = poputil::templateVertex(is_in_place ? "popops::BinaryInPlace" : "popops::Binary",
                                                   a.elementType(), static_cast<int>(op));
  detail::ForWorkers(graph, flat_out, [&](unsigned tile, const std::vector<Interval>& part) {
    const poplar::VertexRef vertex = graph.addVertex(set, type);
    graph.setTileMapping(vertex, tile);
    if (!is_in_place) graph.connect(vertex["a"], detail::Part(flat_a, part));
    graph.connect(vertex["b"], detail::Part(flat_b, part));
    graph.connect(vertex["out"], detail::Part(flat_out, part));
    detail::Estimate(graph, vertex, SlotsOf(op, a.elementType(), is_in_place), part);
  });
  prog.add(Execute(set));
}

Tensor Result(Graph& graph, const std::string& call, const Tensor& a, const Tensor& b, const DebugContext& context) {
  const std::vector<std::size_t> shape = BroadcastShape(a, b, call);
  for (const Tensor* one : {&a, &b}) {
    if (one->shape() == shape && !one->containsAliases() && !one->containsConstant()) return graph.clone(*one, context);
  }
  Tensor out = graph.addVariable(a.elementType(), shape, context);
  poputil::mapTensorLinearly(graph, out);
  return out;
}

// Each worker casts the elements that its tile holds of `out`.
void AddCasts(Graph& graph, const Tensor& in, const Tensor& out, poplar::ComputeSet set) {
  const Tensor flat_in = in.flatten();
  const Tensor flat_out = out.flatten();
  if (flat_in.numElements() != flat_out.numElements()) {
    throw poputil::poplibs_error("popops::cast: the shapes " + in.shapeToString() + " and " + out.shapeToString() +
                                 " have different numbers of elements.");
  }
  const std::string type = poputil::templateVertex("popops::Cast", in.elementType(), out.elementType());
  detail::ForWorkers(graph, flat_out, [&](unsigned tile, const std::vector<Interval>& part) {
    const poplar::VertexRef vertex = graph.addVertex(set, type);
    graph.setTileMapping(vertex, tile);
    graph.connect(vertex["in"], detail::Part(flat_in, part));
    graph.connect(vertex["out"], detail::Part(flat_out, part));
    detail::Estimate(graph, vertex, SlotsOf(in.elementType(), out.elementType()), part);
  });
}

}  // namespace

#define IPU_TF_BINARY(NAME, OP)                                                                                        \
  Tensor NAME(Graph& graph, const Tensor& A, const Tensor& B, Sequence& prog, const DebugContext& debugContext,        \
              const poplar::OptionFlags&) {                                                                            \
    const Tensor out = Result(graph, #NAME, A, B, debugContext);                                                       \
    Apply(graph, OP, #NAME, A, B, out, prog, debugContext, false);                                                     \
    return out;                                                                                                        \
  }                                                                                                                    \
  void NAME##WithOutput(Graph& graph, const Tensor& A, const Tensor& B, const Tensor& out, Sequence& prog,             \
                        const DebugContext& debugContext, const poplar::OptionFlags&) {                                \
    Apply(graph, OP, #NAME "WithOutput", A, B, out, prog, debugContext, false);                                        \
  }                                                                                                                    \
  void NAME##InPlace(Graph& graph, const Tensor& A, const Tensor& B, Sequence& prog, const DebugContext& debugContext, \
                     const poplar::OptionFlags&) {                                                                     \
    Apply(graph, OP, #NAME "InPlace", A, B, A, prog, debugContext, true);                                              \
  }

IPU_TF_BINARY(add, kAdd)
IPU_TF_BINARY(sub, kSub)
IPU_TF_BINARY(mul, kMul)
IPU_TF_BINARY(div, kDiv)
#undef IPU_TF_BINARY

poplar::program::Program cast(Graph& graph, const Tensor& src, const Tensor& dst, const DebugContext& debugContext) {
  if (src.elementType() == dst.elementType()) return poplar::program::Copy(src, dst);
  const poplar::ComputeSet set = graph.addComputeSet(DebugContext(debugContext, "cast"));
  AddCasts(graph, src, dst, set);
  return Execute(set);
}

Tensor cast(Graph& graph, const Tensor& src, const poplar::Type& dstType, Sequence& prog,
            const DebugContext& debugContext) {
  const Tensor dst = graph.clone(dstType, src, debugContext);
  prog.add(cast(graph, src, dst, debugContext));
  return dst;
}

namespace detail {

void Fill(Graph& graph, const Tensor& t, Sequence& prog, const poplar::detail::Values& value,
          const DebugContext& debugContext) {
  const poplar::ComputeSet set = graph.addComputeSet(DebugContext(debugContext, "fill"));
  const std::string type = poputil::templateVertex("popops::Fill", t.elementType());
  const Tensor flat = t.flatten();
  ForWorkers(graph, flat, [&](unsigned tile, const std::vector<Interval>& part) {
    const poplar::VertexRef vertex = graph.addVertex(set, type);
    graph.setTileMapping(vertex, tile);
    graph.connect(vertex["out"], Part(flat, part));
    Estimate(graph, vertex, {6, 1}, part);
    if (value.are_floating) {
      graph.setInitialValue(vertex["value"], value.floating[0]);
    } else {
      graph.setInitialValue(vertex["value"], value.integral[0]);
    }
  });
  prog.add(Execute(set));
}

}  // namespace detail

void zero(Graph& graph, const Tensor& t, Sequence& prog, const DebugContext& debugContext) {
  fill(graph, t, prog, 0, debugContext);
}

Tensor allTrue(Graph& graph, const Tensor& A, Sequence& prog, const DebugContext& debugContext) {
  const Tensor flat = A.flatten();
  const Tensor truths = A.elementType() == poplar::BOOL ? flat : cast(graph, flat, poplar::BOOL, prog, debugContext);
  return reduce(graph, truths, {0}, ReduceParams(Operation::LOGICAL_AND), prog, debugContext);
}

}  // namespace ipu_tf
}  // namespace popops
