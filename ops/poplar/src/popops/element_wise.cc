#include <popops/ElementWise.hpp>

#include <popops/AllTrue.hpp>
#include <popops/Reduce.hpp>
#include <poputil/exceptions.hpp>

namespace popops {
inline namespace ipu_tf {

using poplar::DebugContext;
using poplar::Graph;
using poplar::Tensor;
using poplar::program::Sequence;

namespace detail {

void CheckConstant(const char* call, const poplar::Type& elementType, const expr::Const& constant) {
  const poplar::Type& own = constant.getType();
  if (own == elementType || (own == poplar::FLOAT && elementType == poplar::HALF)) return;
  if (own == poplar::SIGNED_CHAR && elementType == poplar::CHAR) return;
  throw poputil::poplibs_error(std::string("popops::") + call + ": a number of " + own.toString() +
                               " does not stand beside elements of " + elementType.toString() +
                               ". Write the number as " + elementType.toString() + ".");
}

}  // namespace detail

#define IPU_TF_WITH_TYPE(NAME)                                                                                    \
  Tensor NAME(Graph& graph, const Tensor& src, const Tensor& epsilon, Sequence& prog, const poplar::Type dstType, \
              const DebugContext& debugContext) {                                                                 \
    const Tensor result = NAME(graph, src, epsilon, prog, debugContext);                                          \
    return dstType == src.elementType() ? result : cast(graph, result, dstType, prog, debugContext);              \
  }                                                                                                               \
  Tensor NAME(Graph& graph, const Tensor& src, float epsilon, Sequence& prog, const poplar::Type dstType,         \
              const DebugContext& debugContext) {                                                                 \
    const Tensor result = NAME(graph, src, epsilon, prog, debugContext);                                          \
    return dstType == src.elementType() ? result : cast(graph, result, dstType, prog, debugContext);              \
  }
IPU_TF_WITH_TYPE(varianceToInvStdDev)
IPU_TF_WITH_TYPE(invStdDevToVariance)
#undef IPU_TF_WITH_TYPE

Tensor allTrue(Graph& graph, Tensor A, Sequence& prog, const DebugContext& debugContext) {
  const Tensor flat = A.flatten();
  const Tensor truths = A.elementType() == poplar::BOOL ? flat : cast(graph, flat, poplar::BOOL, prog, debugContext);
  return reduce(graph, truths, {0}, ReduceParams(Operation::LOGICAL_AND), prog, debugContext);
}

}  // namespace ipu_tf
}  // namespace popops
