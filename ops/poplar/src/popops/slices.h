// Tables: a tensor seen as rows along one dimension.
#ifndef IPU_TF_POPOPS_SLICES_H_
#define IPU_TF_POPOPS_SLICES_H_

#include <string>
#include <vector>

#include <popops/DynamicSlice.hpp>

#include "library.h"

namespace popops {
inline namespace ipu_tf {
namespace detail {

// {rows, columns}: the dimension first, the others flattened.
inline poplar::Tensor Table(const poplar::Tensor& t, std::size_t dim) {
  const poplar::Tensor first = t.dimRoll(static_cast<unsigned>(dim), 0);
  return first.reshape({t.dim(static_cast<unsigned>(dim)), t.numElements() / t.dim(static_cast<unsigned>(dim))});
}

// The tensor of a shape whose Table it is.
inline poplar::Tensor FromTable(const poplar::Tensor& table, Sizes shape, std::size_t dim) {
  shape[dim] = table.dim(0);
  Sizes rolled{shape[dim]};
  for (std::size_t d = 0; d < shape.size(); ++d) {
    if (d != dim) rolled.push_back(shape[d]);
  }
  return table.reshape(rolled).dimRoll(0, static_cast<unsigned>(dim));
}

// The columns of each tile: those of the table's first row that it holds.
inline std::vector<std::vector<poplar::Interval>> Columns(const poplar::Graph& graph, const poplar::Tensor& table) {
  return graph.getTileMapping(table[0]);
}

// Some columns of all rows, row after row.
inline poplar::Tensor InColumns(const poplar::Tensor& rows, const std::vector<poplar::Interval>& columns) {
  return poplar::concat(rows.slices(columns, 1), 1).flatten();
}

// A new {rows, columns} that lies on the tiles of such columns.
poplar::Tensor AddRows(poplar::Graph* graph, const poplar::Type& type, std::size_t rows,
                       const std::vector<std::vector<poplar::Interval>>& columns, const poplar::DebugContext& context);

// UNSIGNED_INT of integers of 32 bits; raises poplibs_error for others.
poplar::Tensor Unsigned(const poplar::Tensor& offsets, const std::string& call);
void CheckDims(const Sizes& shape, const Sizes& dims, const Sizes& sizes, const std::string& call);

}  // namespace detail
}  // namespace ipu_tf
}  // namespace popops

#endif  // IPU_TF_POPOPS_SLICES_H_
