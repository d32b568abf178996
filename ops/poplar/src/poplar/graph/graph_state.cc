#include "graph_state.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include <poplar/exceptions.hpp>

namespace poplar {
inline namespace ipu_tf {
namespace detail {

void Variable::Map(std::uint64_t begin, std::uint64_t count, std::uint32_t tile) {
  const std::uint64_t end = begin + count;
  if (count == 0) return;
  const std::uint32_t after = std::prev(tiles.upper_bound(end == size ? begin : end))->second;
  tiles.erase(tiles.lower_bound(begin), tiles.lower_bound(end));
  if (end < size) tiles.emplace(end, after);
  tiles[begin] = tile;
}

Tensor GraphState::Add(Variable variable, ArrayRef<std::size_t> shape) {
  variable.size = 1;
  for (const std::size_t one : shape) variable.size *= one;
  auto elements = std::make_shared<Elements>();
  elements->graph = this;
  elements->Append({static_cast<std::uint32_t>(variables.size()), 0, variable.size});
  const Type type = variable.type;
  variables.push_back(std::move(variable));
  return TensorAccess::Make(std::move(elements), type, shape.cloneAsVector());
}

std::string GraphState::VertexText(std::uint32_t vertex) const {
  const Vertex& one = vertices[vertex];
  std::string text = "vertex " + std::to_string(vertex) + " (" + vertex_types[one.type]->name + ") of compute set '" +
                     compute_sets[one.compute_set] + "'";
  return one.tile == kUnmapped ? text : text + " on tile " + std::to_string(one.tile);
}

std::string GraphState::ReplicaText(unsigned replica) const {
  return replicas == 1 ? "" : " (replica " + std::to_string(replica) + ")";
}

std::string GraphState::RunText(const Run& run) const {
  const std::string name = "'" + variables[run.variable].name + "'";
  if (run.size == 1) return "element " + std::to_string(run.begin) + " of " + name;
  return "elements " + std::to_string(run.begin) + " to " + std::to_string(run.begin + run.size - 1) + " of " + name;
}

void CheckGraph(const GraphState& state, const Tensor& tensor, const std::string& call) {
  if (!tensor.valid()) throw poplar_error(call + " needs a tensor, but this one is empty.");
  if (TensorAccess::GraphOf(tensor) != &state) throw poplar_error(call + ": the tensor belongs to another graph.");
}

namespace {

void Sort(std::vector<Run>* runs) {
  std::sort(runs->begin(), runs->end(), [](const Run& a, const Run& b) {
    return a.variable != b.variable ? a.variable < b.variable : a.begin < b.begin;
  });
}

}  // namespace

bool HasOverlap(std::vector<Run> runs) {
  Sort(&runs);
  for (std::size_t i = 1; i < runs.size(); ++i) {
    if (runs[i].variable == runs[i - 1].variable && runs[i].begin < runs[i - 1].begin + runs[i - 1].size) return true;
  }
  return false;
}

bool Intersect(std::vector<Run> a, std::vector<Run> b) {
  Sort(&a);
  Sort(&b);
  std::size_t i = 0;
  std::size_t j = 0;
  while (i < a.size() && j < b.size()) {
    if (a[i].variable != b[j].variable) {
      ++(a[i].variable < b[j].variable ? i : j);
    } else if (a[i].begin + a[i].size <= b[j].begin) {
      ++i;
    } else if (b[j].begin + b[j].size <= a[i].begin) {
      ++j;
    } else {
      return true;
    }
  }
  return false;
}

}  // namespace detail
}  // namespace ipu_tf
}  // namespace poplar
