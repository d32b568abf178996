// Ranges of integers, and one-hot rows.
#ifndef IPU_TF_POPOPS_ENCODING_HPP_
#define IPU_TF_POPOPS_ENCODING_HPP_

#include <poplar/DebugContext.hpp>
#include <poplar/Graph.hpp>
#include <poplar/Program.hpp>
#include <popops/EncodingConstants.hpp>

namespace popops {
inline namespace ipu_tf {

// Row i of `encoded` is 1 (or `on`) in the column of index i, and 0 (or `off`) elsewhere; an index without a column,
// such as MASKED_LABEL_CODE, leaves none. Raises poplibs_error for shapes other than {n} and {n, columns}.
void encodeOneHot(poplar::Graph& graph, const poplar::Tensor& indices, const poplar::Tensor& encoded,
                  poplar::program::Sequence& prog, const poplar::DebugContext& debugContext = {});
void encodeOneHot(poplar::Graph& graph, const poplar::Tensor& indices, const poplar::Tensor& encoded,
                  poplar::program::Sequence& prog, const poplar::Tensor& on, const poplar::Tensor& off,
                  const poplar::DebugContext& debugContext = {});

// The elements, in order, become a number and those after it: UNSIGNED_INT for one of unsigned, else INT.
void iota(poplar::Graph& graph, const poplar::Tensor& t, unsigned startInteger, poplar::program::Sequence& prog,
          const poplar::DebugContext& debugContext = {});
void iota(poplar::Graph& graph, const poplar::Tensor& t, int startInteger, poplar::program::Sequence& prog,
          const poplar::DebugContext& debugContext = {});

}  // namespace ipu_tf
}  // namespace popops

#endif  // IPU_TF_POPOPS_ENCODING_HPP_
