// Arithmetic element by element; shapes broadcast as in NumPy.
#ifndef IPU_TF_POPOPS_ELEMENT_WISE_HPP_
#define IPU_TF_POPOPS_ELEMENT_WISE_HPP_

#include <poplar/DebugContext.hpp>
#include <poplar/Graph.hpp>
#include <poplar/OptionFlags.hpp>
#include <poplar/Program.hpp>

namespace popops {
inline namespace ipu_tf {

#define IPU_TF_BINARY(NAME)                                                                                      \
  /* A new tensor, mapped as the first operand that has its shape. */                                            \
  poplar::Tensor NAME(poplar::Graph& graph, const poplar::Tensor& A, const poplar::Tensor& B,                    \
                      poplar::program::Sequence& prog, const poplar::DebugContext& debugContext = {},            \
                      const poplar::OptionFlags& options = {});                                                  \
  void NAME##WithOutput(poplar::Graph& graph, const poplar::Tensor& A, const poplar::Tensor& B,                  \
                        const poplar::Tensor& out, poplar::program::Sequence& prog,                              \
                        const poplar::DebugContext& debugContext = {}, const poplar::OptionFlags& options = {}); \
  void NAME##InPlace(poplar::Graph& graph, const poplar::Tensor& A, const poplar::Tensor& B,                     \
                     poplar::program::Sequence& prog, const poplar::DebugContext& debugContext = {},             \
                     const poplar::OptionFlags& options = {});                                                   \
  template <typename T, poplar::detail::IfNumber<T> = 0>                                                         \
  poplar::Tensor NAME(poplar::Graph& graph, const poplar::Tensor& A, T b, poplar::program::Sequence& prog,       \
                      const poplar::DebugContext& debugContext = {}, const poplar::OptionFlags& options = {}) {  \
    const poplar::Tensor B = graph.addConstant(A.elementType(), {1}, b, debugContext);                           \
    graph.setTileMapping(B, 0);                                                                                  \
    return NAME(graph, A, B, prog, debugContext, options);                                                       \
  }                                                                                                              \
  template <typename T, poplar::detail::IfNumber<T> = 0>                                                         \
  void NAME##InPlace(poplar::Graph& graph, const poplar::Tensor& A, T b, poplar::program::Sequence& prog,        \
                     const poplar::DebugContext& debugContext = {}, const poplar::OptionFlags& options = {}) {   \
    const poplar::Tensor B = graph.addConstant(A.elementType(), {1}, b, debugContext);                           \
    graph.setTileMapping(B, 0);                                                                                  \
    NAME##InPlace(graph, A, B, prog, debugContext, options);                                                     \
  }

IPU_TF_BINARY(add)
IPU_TF_BINARY(sub)
IPU_TF_BINARY(mul)
IPU_TF_BINARY(div)
#undef IPU_TF_BINARY

}  // namespace ipu_tf
}  // namespace popops

// Where the vendor's header has it, too.
#include <popops/Cast.hpp>

#endif  // IPU_TF_POPOPS_ELEMENT_WISE_HPP_
