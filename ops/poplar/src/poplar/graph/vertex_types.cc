// Vertex types of a graph.
#include <limits>
#include <sstream>
#include <string>
#include <utility>

#include <poplar/Graph.hpp>
#include <poplar/exceptions.hpp>

#include "graph_state.h"

namespace poplar {
inline namespace ipu_tf {

using detail::Field;
using detail::GraphState;
using detail::VertexType;

namespace {

void Register(GraphState* state, const std::vector<std::shared_ptr<const VertexType>>& types) {
  for (const auto& type : types) {
    const auto [at, is_new] =
        state->vertex_type_ids.emplace(type->name, static_cast<std::uint32_t>(state->vertex_types.size()));
    (void)at;
    if (is_new) state->vertex_types.push_back(type);
  }
}

}  // namespace

bool Graph::addCodelets(StringRef src, CodeletFileType, StringRef compileFlags, StringRef) {
  const std::string name(src);
  Register(state_.get(), detail::CompileCodelets(name, std::string(compileFlags), "'" + name + "'"));
  return true;
}

bool Graph::addCodelets(ArrayRef<std::string> srcs, StringRef compileFlags, StringRef) {
  for (const std::string& one : srcs) addCodelets(one, CodeletFileType::Auto, compileFlags);
  return true;
}

void Graph::addCodelets(std::stringstream& stream, StringRef compileFlags, CodeletFileType, StringRef) {
  const std::string source = detail::WriteToCache(stream.str());
  Register(state_.get(), detail::CompileCodelets(source, std::string(compileFlags), "a stream"));
}

bool Graph::hasCodelet(StringRef codeletName) const {
  return state_->vertex_type_ids.count(detail::NormalName(std::string(codeletName))) != 0;
}

void Graph::registerPerfEstimator(StringRef vertexType, PerfEstimateFunc estimator) {
  state_->estimators[TypeNumber("registerPerfEstimator", vertexType)] = std::move(estimator);
}

double Graph::getMaxVertexFieldValue(StringRef vertexType, StringRef field) const {
  const VertexType& type = *state_->vertex_types[TypeNumber("getMaxVertexFieldValue", vertexType)];
  return detail::HighestValue(type.fields[type.FieldOf(std::string(field))].type);
}

std::size_t Graph::getMaxFieldDim(StringRef vertexType, StringRef field, unsigned dimension) const {
  const VertexType& type = *state_->vertex_types[TypeNumber("getMaxFieldDim", vertexType)];
  const Field& known = type.fields[type.FieldOf(std::string(field))];
  if (dimension >= known.Rank()) {
    throw index_error("Graph::getMaxFieldDim: the field " + known.name + " of " + type.name + " has " +
                      std::to_string(known.Rank()) + " dimensions. Received: " + std::to_string(dimension) + ".");
  }
  const bool is_inner = dimension + 1 == known.Rank();
  return is_inner ? known.most_elements : std::numeric_limits<std::uint32_t>::max();
}

std::uint32_t Graph::TypeNumber(const char* call, StringRef name) const {
  const auto found = state_->vertex_type_ids.find(detail::NormalName(std::string(name)));
  if (found == state_->vertex_type_ids.end()) {
    std::string known;
    for (const auto& type : state_->vertex_types) {
      if (type->name.rfind("popops::", 0) != 0) known += (known.empty() ? "" : ", ") + type->name;
    }
    throw unknown_vertex_type(
        std::string("Graph::") + call + ": there is no vertex type '" + std::string(name) +
        "'. The codelets of the graph are: " + (known.empty() ? "none" : known) +
        ". Call addCodelets first; templates need an explicit instance (template class C<float>;).");
  }
  return found->second;
}

}  // namespace ipu_tf
}  // namespace poplar
