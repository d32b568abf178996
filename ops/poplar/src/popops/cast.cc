#include <popops/Cast.hpp>

#include <poputil/VertexTemplates.hpp>
#include <poputil/exceptions.hpp>

#include "library.h"

namespace popops {
inline namespace ipu_tf {

using poplar::DebugContext;
using poplar::Graph;
using poplar::Tensor;

void cast(Graph& graph, Tensor src, Tensor dst, poplar::ComputeSet cs) {
  if (src.shape() != dst.shape()) {
    throw poputil::poplibs_error("popops::cast: the shapes must be equal. Received: " + src.shapeToString() + " and " +
                                 dst.shapeToString() + ".");
  }
  const std::string type = poputil::templateVertex("popops::Cast", src.elementType(), dst.elementType());
  detail::AddFile(&graph, "popops_cast.cpp", type);
  const Tensor from = src.flatten();
  const Tensor to = dst.flatten();
  detail::ForTiles(&graph, cs, type, graph.getTileMapping(to),
                   [&](const poplar::VertexRef& vertex, const std::vector<poplar::Interval>& part) {
                     graph.connect(vertex["in"], detail::PartOf(from, part));
                     graph.connect(vertex["out"], detail::PartOf(to, part));
                   });
}

poplar::program::Program cast(Graph& graph, Tensor src, Tensor dst, const DebugContext& debugContext) {
  if (src.elementType() == dst.elementType()) return poplar::program::Copy(src, dst);
  const poplar::ComputeSet set = graph.addComputeSet(DebugContext(debugContext, "cast"));
  cast(graph, src, dst, set);
  return poplar::program::Execute(set);
}

void castWithOutput(Graph& graph, const Tensor& src, const Tensor& dst, poplar::program::Sequence& prog,
                    const DebugContext& debugContext) {
  prog.add(cast(graph, src, dst, debugContext));
}

Tensor cast(Graph& graph, const Tensor& src, const poplar::Type& dstType, poplar::program::Sequence& prog,
            const DebugContext& debugContext) {
  const Tensor dst = graph.clone(dstType, src, debugContext);
  prog.add(cast(graph, src, dst, debugContext));
  return dst;
}

Tensor cast(Graph& graph, Tensor src, const poplar::Type& dstType, poplar::ComputeSet cs,
            const DebugContext& debugContext) {
  const Tensor dst = graph.clone(dstType, src, debugContext);
  cast(graph, src, dst, cs);
  return dst;
}

}  // namespace ipu_tf
}  // namespace popops
