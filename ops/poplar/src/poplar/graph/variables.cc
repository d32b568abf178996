// Variables and constants of a graph, and their first values.
#include <algorithm>
#include <string>
#include <utility>

#include <poplar/Graph.hpp>
#include <poplar/exceptions.hpp>

#include "graph_state.h"

namespace poplar {
inline namespace ipu_tf {

using detail::Run;
using detail::TensorAccess;
using detail::Values;
using detail::Variable;

Tensor Graph::addVariable(const Type& type, ArrayRef<std::size_t> shape, const DebugContext& debugContext) {
  Variable variable;
  variable.name = debugContext.getPathName();
  if (variable.name.empty()) variable.name = "variable " + std::to_string(state_->variables.size());
  variable.type = type;
  return state_->Add(std::move(variable), shape);
}

Tensor Graph::addVariable(const Type& type, ArrayRef<std::size_t> shape, VariableMappingMethod mappingMethod,
                          const DebugContext& debugContext) {
  Tensor tensor = addVariable(type, shape, debugContext);
  if (mappingMethod == VariableMappingMethod::LINEAR) {
    const std::size_t elements = tensor.numElements();
    const std::size_t tiles = target_.getNumTiles();
    const std::size_t each = (elements + tiles - 1) / tiles;
    const Tensor flat = tensor.flatten();
    for (std::size_t tile = 0; tile * each < elements; ++tile) {
      setTileMapping(flat.slice(tile * each, std::min(elements, (tile + 1) * each)), static_cast<unsigned>(tile));
    }
  }
  return tensor;
}

Tensor Graph::AddConstant(const Type& type, ArrayRef<std::size_t> shape, const Values& values,
                          const DebugContext& debugContext) {
  std::size_t elements = 1;
  for (const std::size_t one : shape) elements *= one;
  if (elements != values.size()) {
    throw tensor_creation_error("Graph::addConstant: the shape has " + std::to_string(elements) +
                                " elements. Received: " + std::to_string(values.size()) + " values.");
  }
  Variable variable;
  variable.name = debugContext.getPathName();
  if (variable.name.empty()) variable.name = "constant " + std::to_string(state_->variables.size());
  variable.type = type;
  variable.is_constant = true;
  variable.bytes = detail::ToBytes(values, type, "Graph::addConstant");
  return state_->Add(std::move(variable), shape);
}

Tensor Graph::AddFilled(const Type& type, ArrayRef<std::size_t> shape, const Values& value,
                        const DebugContext& debugContext) {
  const Tensor one = AddConstant(type, {1}, value, debugContext);
  std::size_t elements = 1;
  for (const std::size_t size : shape) elements *= size;
  Variable& variable = state_->variables.back();
  const std::vector<std::uint8_t> element = variable.bytes;
  variable.bytes.clear();
  for (std::size_t i = 0; i < elements; ++i)
    variable.bytes.insert(variable.bytes.end(), element.begin(), element.end());
  Variable filled = std::move(variable);
  state_->variables.pop_back();
  return state_->Add(std::move(filled), shape);
}

Tensor Graph::addConstantHalf(const Type& type, ArrayRef<std::size_t> shape, std::uint16_t value,
                              const DebugContext& debugContext) {
  return addConstant(type, shape, detail::FromHalf(value), debugContext);
}

Tensor Graph::addConstantHalf(const Type& type, ArrayRef<std::size_t> shape, const std::uint16_t* values,
                              const DebugContext& debugContext) {
  std::size_t elements = 1;
  for (const std::size_t size : shape) elements *= size;
  std::vector<float> wide;
  for (std::size_t i = 0; i < elements; ++i) wide.push_back(detail::FromHalf(values[i]));
  return addConstant(type, shape, wide, debugContext);
}

Tensor Graph::addReplicationIndexConstant(const DebugContext& debugContext) {
  state_->replica_indices.push_back(static_cast<std::uint32_t>(state_->variables.size()));
  return addConstant(UNSIGNED_INT, {}, 0u, debugContext);
}

Tensor Graph::clone(const Type& type, const Tensor& tensor, const DebugContext& debugContext, TensorCloneMethod) {
  detail::CheckGraph(*state_, tensor, "Graph::clone");
  Tensor copy = addVariable(type, tensor.shape(), debugContext);
  Variable& variable = state_->variables.back();
  std::uint64_t at = 0;
  TensorAccess::ForRuns(tensor, [&](const Run& run) {
    state_->variables[run.variable].ForTiles(run.begin, run.size,
                                             [&](std::uint64_t, std::uint64_t count, std::uint32_t tile) {
                                               variable.Map(at, count, tile);
                                               at += count;
                                             });
  });
  return copy;
}

Tensor Graph::clone(const Tensor& tensor, const DebugContext& debugContext, TensorCloneMethod method) {
  return clone(tensor.elementType(), tensor, debugContext, method);
}

void Graph::SetElements(const Tensor& tensor, const Values& values, bool is_scalar) {
  detail::CheckGraph(*state_, tensor, "Graph::setInitialValue");
  const std::uint64_t elements = tensor.numElements();
  if (!is_scalar && values.size() != elements) {
    throw poplar_error("Graph::setInitialValue: the tensor has " + std::to_string(elements) +
                       " elements. Received: " + std::to_string(values.size()) + " values.");
  }
  const std::vector<std::uint8_t> bytes = detail::ToBytes(values, tensor.elementType(), "Graph::setInitialValue");
  const std::size_t each = detail::TypeBytes(tensor.elementType());
  std::uint64_t at = 0;
  TensorAccess::ForRuns(tensor, [&](const Run& run) {
    Variable& variable = state_->variables[run.variable];
    if (variable.is_constant) {
      throw poplar_error("Graph::setInitialValue: " + state_->RunText(run) + " are constant.");
    }
    variable.bytes.resize(variable.size * each);
    for (std::uint64_t i = 0; i < run.size; ++i, ++at) {
      const std::uint64_t from = is_scalar ? 0 : at * each;
      std::copy_n(bytes.begin() + static_cast<std::ptrdiff_t>(from), each,
                  variable.bytes.begin() + static_cast<std::ptrdiff_t>((run.begin + i) * each));
    }
  });
}

}  // namespace ipu_tf
}  // namespace poplar
