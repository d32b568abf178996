#include <popops/Reduce.hpp>

#include <algorithm>
#include <ostream>
#include <string>

#include <poputil/TileMapping.hpp>
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

// As the classes of codelets/popops_reduce.cpp.
constexpr const char* kNames[] = {"Add", "Mul", "Min", "Max", "And", "Or", "SquareAdd", "LogAdd"};
constexpr const char* kWords[] = {"ADD", "MUL", "MIN", "MAX", "LOGICAL_AND", "LOGICAL_OR", "SQUARE_ADD", "LOG_ADD"};

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

// One row for each result, flattened.
Tensor Rows(const Tensor& in, const std::vector<std::size_t>& dims) {
  std::vector<unsigned> order;
  for (const bool is_reduced : {false, true}) {
    for (unsigned d = 0; d < in.rank(); ++d) {
      if ((std::find(dims.begin(), dims.end(), d) != dims.end()) == is_reduced) order.push_back(d);
    }
  }
  return in.dimShuffle(order).flatten();
}

// A reduction of some rows to elements of a tensor, by vertices of one compute set.
struct Stage {
  Operation op;
  bool update = false;
  const Tensor* scale = nullptr;
  Tensor in;                                // Flat.
  std::vector<std::vector<Interval>> rows;  // Elements of `in` for each result.
  Tensor out;                               // Flat.
};

void CheckTypes(const Stage& stage, const std::string& type, const Graph& graph) {
  if (graph.hasCodelet(type)) return;
  throw poputil::poplibs_error("popops::reduce: there is no reduction " + std::string(kWords[int(stage.op)]) + " of " +
                               stage.in.elementType().toString() + " to " + stage.out.elementType().toString() +
                               (stage.scale == nullptr ? "." : " with a scale.") +
                               " Call popops::cast on the elements first.");
}

void AddStage(Graph* graph, const Stage& stage, ComputeSet set) {
  const std::string type =
      poputil::templateVertex("popops::Reduce", std::string("popops::") + kNames[int(stage.op)], stage.in.elementType(),
                              stage.out.elementType(), stage.update, stage.scale != nullptr);
  detail::AddFile(graph, "popops_reduce.cpp", type);
  CheckTypes(stage, type, *graph);
  detail::ForTiles(graph, set, type, graph->getTileMapping(stage.out),
                   [&](const poplar::VertexRef& vertex, const std::vector<Interval>& part) {
                     graph->connect(vertex["out"], detail::PartOf(stage.out, part));
                     if (stage.scale != nullptr) graph->connect(vertex["scale"], stage.scale->flatten()[0]);
                     std::uint64_t operands = 0;
                     std::size_t number = 0;
                     for (const Interval& one : part) {
                       for (std::size_t i = one.begin(); i < one.end(); ++i) {
                         graph->connect(vertex["in"][number++], detail::PartOf(stage.in, stage.rows[i]));
                         operands += detail::Elements(stage.rows[i]);
                       }
                     }
                     detail::SetWork(graph, vertex, number, (operands + number - 1) / number);
                   });
}

// The elements of each row on each tile that has some: tile, row, ranges.
struct Held {
  unsigned tile;
  std::size_t row;
  std::vector<Interval> elements;
};

std::vector<Held> HeldParts(const Graph& graph, const Tensor& flat, std::size_t depth) {
  std::vector<Held> parts;
  const auto mapping = graph.getTileMapping(flat);
  for (unsigned tile = 0; tile < mapping.size(); ++tile) {
    const std::size_t first = parts.size();
    std::vector<Interval> sorted = mapping[tile];
    std::sort(sorted.begin(), sorted.end());
    for (const Interval& one : sorted) {
      for (std::size_t begin = one.begin(); begin < one.end();) {
        const std::size_t row = begin / depth;
        const std::size_t end = std::min(one.end(), (row + 1) * depth);
        if (parts.size() == first || parts.back().row != row) parts.push_back({tile, row, {}});
        parts.back().elements.emplace_back(begin, end);
        begin = end;
      }
    }
  }
  return parts;
}

// Reduces on each tile what it holds, and makes what is left the input of the stage.
void ReduceOnTiles(Graph* graph, Stage* stage, const std::vector<Held>& parts, ComputeSet set,
                   const DebugContext& context) {
  const bool as_float = detail::IsFloat(stage->in.elementType());
  Stage first{stage->op, false, nullptr, stage->in, {}, Tensor()};
  first.out = graph->addVariable(as_float ? poplar::FLOAT : stage->in.elementType(), {parts.size()},
                                 DebugContext(context, "partials"));
  std::vector<std::vector<Interval>> mapping(graph->getTarget().getNumTiles());
  for (std::vector<Interval>& row : stage->rows) row.clear();
  for (std::size_t i = 0; i < parts.size(); ++i) {
    mapping[parts[i].tile].emplace_back(i, i + 1);
    first.rows.push_back(parts[i].elements);
    stage->rows[parts[i].row].emplace_back(i, i + 1);
  }
  graph->setTileMapping(first.out, mapping);
  AddStage(graph, first, set);
  stage->in = first.out;
  if (stage->op == Operation::SQUARE_ADD) stage->op = Operation::ADD;
}

ComputeSet SetOf(Graph* graph, std::vector<ComputeSet>* css, std::size_t number, const DebugContext& context) {
  if (number == css->size()) css->push_back(graph->addComputeSet(DebugContext(context, "reduce")));
  return (*css)[number];
}

void AddReduction(Graph* graph, const Tensor& in, const Tensor& out, const std::vector<std::size_t>& dims,
                  const ReduceParams& params, std::vector<ComputeSet>* css, const DebugContext& context) {
  const std::vector<std::size_t> shape = ResultShape(in, dims);
  std::size_t results = 1;
  for (const std::size_t one : shape) results *= one;
  if (results != out.numElements()) {
    throw poputil::poplibs_error("popops::reduceWithOutput: there are " + std::to_string(results) +
                                 " results. Received: an output of the shape " + out.shapeToString() + ".");
  }
  if (in.numElements() == 0) {
    throw poputil::poplibs_error("popops::reduce: there is nothing to reduce in the shape " + in.shapeToString() + ".");
  }
  Stage stage{params.op, params.update, params.useScale ? &params.scale : nullptr, Rows(in, dims), {}, out.flatten()};
  const std::size_t depth = in.numElements() / results;
  for (std::size_t row = 0; row < results; ++row) stage.rows.push_back({{row * depth, (row + 1) * depth}});
  const std::vector<Held> parts = HeldParts(*graph, stage.in, depth);
  std::size_t number = 0;
  if (2 * parts.size() <= in.numElements() && parts.size() > results) {
    ReduceOnTiles(graph, &stage, parts, SetOf(graph, css, number++, context), context);
  }
  AddStage(graph, stage, SetOf(graph, css, number, context));
}

Tensor Result(Graph& graph, const Tensor& in, const poplar::Type& type, const std::vector<std::size_t>& dims,
              const DebugContext& context) {
  Tensor out = graph.addVariable(type, ResultShape(in, dims), context);
  poputil::mapTensorLinearly(graph, out);
  return out;
}

void Run(const std::vector<ComputeSet>& css, Sequence* prog) {
  for (const ComputeSet& one : css) prog->add(poplar::program::Execute(one));
}

}  // namespace

std::ostream& operator<<(std::ostream& stream, const Operation& op) { return stream << kWords[int(op)]; }

void reduceWithOutput(Graph& graph, const Tensor& in, const Tensor& out, const std::vector<std::size_t>& dims,
                      ReduceParams params, std::vector<ComputeSet>& css, const DebugContext& debugContext,
                      const poplar::OptionFlags&) {
  AddReduction(&graph, in, out, dims, params, &css, debugContext);
}

void reduceWithOutput(Graph& graph, const Tensor& in, const Tensor& out, const std::vector<std::size_t>& dims,
                      ReduceParams params, Sequence& prog, const DebugContext& debugContext,
                      const poplar::OptionFlags&) {
  std::vector<ComputeSet> css;
  AddReduction(&graph, in, out, dims, params, &css, debugContext);
  Run(css, &prog);
}

Tensor reduce(Graph& graph, const Tensor& in, const poplar::Type& outType, const std::vector<std::size_t>& dims,
              ReduceParams params, std::vector<ComputeSet>& css, const DebugContext& debugContext,
              const poplar::OptionFlags& options) {
  const Tensor out = Result(graph, in, outType, dims, debugContext);
  reduceWithOutput(graph, in, out, dims, params, css, debugContext, options);
  return out;
}

Tensor reduce(Graph& graph, const Tensor& in, const std::vector<std::size_t>& dims, ReduceParams params,
              std::vector<ComputeSet>& css, const DebugContext& debugContext, const poplar::OptionFlags& options) {
  return reduce(graph, in, in.elementType(), dims, params, css, debugContext, options);
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

void reduceMany(Graph& graph, const std::vector<SingleReduceOp>& reductions, std::vector<Tensor>& outputs,
                Sequence& prog, const DebugContext& debugContext, const poplar::OptionFlags& options) {
  if (!outputs.empty() && outputs.size() != reductions.size()) {
    throw poputil::poplibs_error("popops::reduceMany: there are " + std::to_string(reductions.size()) +
                                 " reductions. Received: " + std::to_string(outputs.size()) + " outputs.");
  }
  const bool has_outputs = !outputs.empty();
  std::vector<ComputeSet> css;
  for (std::size_t i = 0; i < reductions.size(); ++i) {
    const SingleReduceOp& one = reductions[i];
    const DebugContext context(debugContext, one.debugName.empty() ? "reduce" : one.debugName);
    const poplar::Type type = one.useOutType ? one.outType : one.in.elementType();
    if (!has_outputs) outputs.push_back(Result(graph, one.in, type, one.dims, context));
    reduceWithOutput(graph, one.in, outputs[i], one.dims, one.params, css, context, options);
  }
  Run(css, &prog);
}

}  // namespace ipu_tf
}  // namespace popops
