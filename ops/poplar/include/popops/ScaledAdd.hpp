// Sums of products with scalars, in place.
#ifndef IPU_TF_POPOPS_SCALED_ADD_HPP_
#define IPU_TF_POPOPS_SCALED_ADD_HPP_

#include <poplar/DebugContext.hpp>
#include <poplar/Graph.hpp>
#include <poplar/OptionFlags.hpp>
#include <poplar/Program.hpp>

namespace popops {
inline namespace ipu_tf {

enum class ScaledAddSpecialisation { DEFAULT, X_MINUS_AX_PLUS_BY };

// A += B * scaleB. FLOAT and HALF are computed in float and rounded once; the two may be of different types.
void scaledAddTo(poplar::Graph& graph, poplar::Tensor A, poplar::Tensor B, float scaleB,
                 poplar::program::Sequence& prog, const poplar::DebugContext& debugContext = {},
                 const poplar::OptionFlags& options = {});
void scaledAddTo(poplar::Graph& graph, poplar::Tensor A, poplar::Tensor B, poplar::Tensor scaleB,
                 poplar::program::Sequence& prog, const poplar::DebugContext& debugContext = {},
                 const poplar::OptionFlags& options = {});
// A -= B * scaleB.
void scaledSubtractFrom(poplar::Graph& graph, poplar::Tensor A, poplar::Tensor B, float scaleB,
                        poplar::program::Sequence& prog, const poplar::DebugContext& debugContext = {},
                        const poplar::OptionFlags& options = {});
void scaledSubtractFrom(poplar::Graph& graph, poplar::Tensor A, poplar::Tensor B, poplar::Tensor scaleB,
                        poplar::program::Sequence& prog, const poplar::DebugContext& debugContext = {},
                        const poplar::OptionFlags& options = {});
// A = A * scaleA + B * scaleB; specialised, A = A - A * scaleA + B * scaleB.
void scaledAddTo(poplar::Graph& graph, poplar::Tensor A, poplar::Tensor scaleA, poplar::Tensor B, poplar::Tensor scaleB,
                 poplar::program::Sequence& prog, const poplar::DebugContext& debugContext = {},
                 const poplar::OptionFlags& options = {});
void scaledAddTo(poplar::Graph& graph, poplar::Tensor A, poplar::Tensor scaleA, poplar::Tensor B, poplar::Tensor scaleB,
                 poplar::program::Sequence& prog, const ScaledAddSpecialisation speciality,
                 const poplar::DebugContext& debugContext = {}, const poplar::OptionFlags& options = {});
void scaledAddTo(poplar::Graph& graph, poplar::Tensor A, float scaleA, poplar::Tensor B, float scaleB,
                 poplar::program::Sequence& prog, const poplar::DebugContext& debugContext = {},
                 const poplar::OptionFlags& options = {});
void scaledAddTo(poplar::Graph& graph, poplar::Tensor A, float scaleA, poplar::Tensor B, float scaleB,
                 poplar::program::Sequence& prog, const ScaledAddSpecialisation speciality,
                 const poplar::DebugContext& debugContext = {}, const poplar::OptionFlags& options = {});
// A = A * scaleA - B * scaleB.
void scaledSubtractFrom(poplar::Graph& graph, poplar::Tensor A, poplar::Tensor scaleA, poplar::Tensor B,
                        poplar::Tensor scaleB, poplar::program::Sequence& prog,
                        const poplar::DebugContext& debugContext = {}, const poplar::OptionFlags& options = {});
void scaledSubtractFrom(poplar::Graph& graph, poplar::Tensor A, float scaleA, poplar::Tensor B, float scaleB,
                        poplar::program::Sequence& prog, const poplar::DebugContext& debugContext = {},
                        const poplar::OptionFlags& options = {});

}  // namespace ipu_tf
}  // namespace popops

#endif  // IPU_TF_POPOPS_SCALED_ADD_HPP_
