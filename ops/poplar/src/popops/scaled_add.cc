#include <popops/ScaledAdd.hpp>

#include <string>

#include <popops/Cast.hpp>
#include <poputil/VertexTemplates.hpp>
#include <poputil/exceptions.hpp>

#include "library.h"

namespace popops {
inline namespace ipu_tf {
namespace {

using poplar::DebugContext;
using poplar::Graph;
using poplar::Interval;
using poplar::OptionFlags;
using poplar::Tensor;
using poplar::program::Sequence;

struct Signs {
  bool subtracts = false;
  bool subtracts_own = false;
};

poplar::Type ScaleType(const Tensor& a) { return detail::IsFloat(a.elementType()) ? poplar::FLOAT : a.elementType(); }

Tensor Scale(Graph* graph, const Tensor& a, float value, const DebugContext& context) {
  const Tensor scale = graph->addConstant(ScaleType(a), {}, value, DebugContext(context, "scale"));
  graph->setTileMapping(scale, 0);
  return scale;
}

// A scalar of the type that the codelet computes in.
Tensor AsScale(Graph* graph, const Tensor& a, const Tensor& scale, Sequence* prog, const DebugContext& context) {
  if (scale.numElements() != 1) {
    throw poputil::poplibs_error("popops::scaledAddTo: a scale has one element. Received: the shape " +
                                 scale.shapeToString() + ".");
  }
  const Tensor one = scale.reshape({});
  return one.elementType() == ScaleType(a) ? one : cast(*graph, one, ScaleType(a), *prog, context);
}

void Add(Graph* graph, const Tensor& a, const Tensor& scale_a, const Tensor& b, const Tensor& scale_b,
         const Signs& signs, Sequence* prog, const DebugContext& context) {
  if (a.shape() != b.shape()) {
    throw poputil::poplibs_error("popops::scaledAddTo: the shapes must be equal. Received: " + a.shapeToString() +
                                 " and " + b.shapeToString() + ".");
  }
  const std::string type = poputil::templateVertex("popops::ScaledAdd", a.elementType(), b.elementType(), ScaleType(a));
  detail::AddFile(graph, "popops_encode.cpp", type);
  if (!graph->hasCodelet(type)) {
    throw poputil::poplibs_error(
        "popops::scaledAddTo: the tensors are of FLOAT or HALF, or both of INT or both of "
        "UNSIGNED_INT. Received: " +
        a.elementType().toString() + " and " + b.elementType().toString() + ".");
  }
  const Tensor of_a = AsScale(graph, a, scale_a, prog, context);
  const Tensor of_b = AsScale(graph, a, scale_b, prog, context);
  const Tensor flat_a = a.flatten();
  const Tensor flat_b = b.flatten();
  const poplar::ComputeSet set = graph->addComputeSet(DebugContext(context, "scaledAdd"));
  detail::ForTiles(graph, set, type, graph->getTileMapping(flat_a),
                   [&](const poplar::VertexRef& vertex, const std::vector<Interval>& part) {
                     graph->connect(vertex["a"], detail::PartOf(flat_a, part));
                     graph->connect(vertex["b"], detail::PartOf(flat_b, part));
                     graph->connect(vertex["scale_a"], of_a);
                     graph->connect(vertex["scale_b"], of_b);
                     graph->setInitialValue(vertex["subtracts"], signs.subtracts);
                     graph->setInitialValue(vertex["subtracts_own"], signs.subtracts_own);
                   });
  prog->add(poplar::program::Execute(set));
}

}  // namespace

void scaledAddTo(Graph& graph, Tensor A, Tensor scaleA, Tensor B, Tensor scaleB, Sequence& prog,
                 const ScaledAddSpecialisation speciality, const DebugContext& debugContext, const OptionFlags&) {
  Add(&graph, A, scaleA, B, scaleB, {false, speciality == ScaledAddSpecialisation::X_MINUS_AX_PLUS_BY}, &prog,
      debugContext);
}

void scaledAddTo(Graph& graph, Tensor A, Tensor scaleA, Tensor B, Tensor scaleB, Sequence& prog,
                 const DebugContext& debugContext, const OptionFlags&) {
  Add(&graph, A, scaleA, B, scaleB, {}, &prog, debugContext);
}

void scaledAddTo(Graph& graph, Tensor A, float scaleA, Tensor B, float scaleB, Sequence& prog,
                 const ScaledAddSpecialisation speciality, const DebugContext& debugContext,
                 const OptionFlags& options) {
  scaledAddTo(graph, A, Scale(&graph, A, scaleA, debugContext), B, Scale(&graph, A, scaleB, debugContext), prog,
              speciality, debugContext, options);
}

void scaledAddTo(Graph& graph, Tensor A, float scaleA, Tensor B, float scaleB, Sequence& prog,
                 const DebugContext& debugContext, const OptionFlags& options) {
  scaledAddTo(graph, A, scaleA, B, scaleB, prog, ScaledAddSpecialisation::DEFAULT, debugContext, options);
}

void scaledAddTo(Graph& graph, Tensor A, Tensor B, Tensor scaleB, Sequence& prog, const DebugContext& debugContext,
                 const OptionFlags&) {
  Add(&graph, A, Scale(&graph, A, 1, debugContext), B, scaleB, {}, &prog, debugContext);
}

void scaledAddTo(Graph& graph, Tensor A, Tensor B, float scaleB, Sequence& prog, const DebugContext& debugContext,
                 const OptionFlags& options) {
  scaledAddTo(graph, A, 1, B, scaleB, prog, debugContext, options);
}

void scaledSubtractFrom(Graph& graph, Tensor A, Tensor scaleA, Tensor B, Tensor scaleB, Sequence& prog,
                        const DebugContext& debugContext, const OptionFlags&) {
  Add(&graph, A, scaleA, B, scaleB, {true, false}, &prog, debugContext);
}

void scaledSubtractFrom(Graph& graph, Tensor A, float scaleA, Tensor B, float scaleB, Sequence& prog,
                        const DebugContext& debugContext, const OptionFlags&) {
  Add(&graph, A, Scale(&graph, A, scaleA, debugContext), B, Scale(&graph, A, scaleB, debugContext), {true, false},
      &prog, debugContext);
}

void scaledSubtractFrom(Graph& graph, Tensor A, Tensor B, Tensor scaleB, Sequence& prog,
                        const DebugContext& debugContext, const OptionFlags&) {
  Add(&graph, A, Scale(&graph, A, 1, debugContext), B, scaleB, {true, false}, &prog, debugContext);
}

void scaledSubtractFrom(Graph& graph, Tensor A, Tensor B, float scaleB, Sequence& prog,
                        const DebugContext& debugContext, const OptionFlags& options) {
  scaledSubtractFrom(graph, A, 1, B, scaleB, prog, debugContext, options);
}

}  // namespace ipu_tf
}  // namespace popops
