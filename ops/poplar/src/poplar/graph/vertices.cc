// Compute sets, vertices, and what their fields are connected to.
#include <string>
#include <utility>
#include <vector>

#include <poplar/Graph.hpp>
#include <poplar/exceptions.hpp>

#include "graph_state.h"

namespace poplar {
inline namespace ipu_tf {

using detail::Edge;
using detail::Field;
using detail::FieldKind;
using detail::GraphState;
using detail::Run;
using detail::TensorAccess;
using detail::Values;
using detail::VertexType;

ComputeSet Graph::addComputeSet(const DebugContext& debugContext) {
  std::string name = debugContext.getPathName();
  if (name.empty()) name = "compute set " + std::to_string(state_->compute_sets.size());
  state_->compute_sets.push_back(std::move(name));
  return ComputeSet(static_cast<std::uint32_t>(state_->compute_sets.size() - 1));
}

VertexRef Graph::addVertex(ComputeSet computeSet, StringRef vertexType) {
  const std::uint32_t number = TypeNumber("addVertex", vertexType);
  if (computeSet.getId() >= state_->compute_sets.size())
    throw poplar_error("Graph::addVertex: the compute set is empty.");
  const VertexType& type = *state_->vertex_types[number];
  if (!type.refusal.empty()) {
    throw graph_object_creation_error("Graph::addVertex: the vertex type " + type.name +
                                      " cannot be used: " + type.refusal + ".");
  }
  detail::Vertex vertex;
  vertex.type = number;
  vertex.compute_set = computeSet.getId();
  state_->vertices.push_back(vertex);
  return VertexRef(static_cast<std::uint32_t>(state_->vertices.size() - 1));
}

VertexRef Graph::addVertex(ComputeSet computeSet, StringRef vertexType, ArrayRef<ConnectionDesc> connections) {
  const VertexRef vertex = addVertex(computeSet, vertexType);
  for (const ConnectionDesc& one : connections) {
    const FieldRef field = vertex[one.field];
    switch (one.kind) {
      case ConnectionDesc::Kind::kTensor:
        connect(field, one.tensors[0]);
        break;
      case ConnectionDesc::Kind::kList:
        connect(field, one.tensors);
        break;
      case ConnectionDesc::Kind::kNumber:
      case ConnectionDesc::Kind::kNumbers:
        ConnectValues(field, one.values, one.kind == ConnectionDesc::Kind::kNumber);
        break;
    }
  }
  return vertex;
}

namespace {

[[noreturn]] void RefuseConnection(const GraphState& state, const FieldRef& field, const std::string& why) {
  throw graph_connection_error("Field '" + field.getName() + "' of " + state.VertexText(field.getVertexId()) + " " +
                               why);
}

const VertexType& TypeOf(const GraphState& state, const FieldRef& field) {
  return *state.vertex_types[state.vertices[field.getVertexId()].type];
}

}  // namespace

void Graph::connect(FieldRef field, const Tensor& tensor) {
  detail::CheckGraph(*state_, tensor, "Graph::connect");
  const VertexType& type = TypeOf(*state_, field);
  const std::uint32_t number = type.FieldOf(field.getName());
  const Field& known = type.fields[number];
  if (!known.IsEdge()) RefuseConnection(*state_, field, "is no edge. Give its value with setInitialValue.");
  if (known.type != tensor.elementType()) {
    RefuseConnection(*state_, field,
                     "has elements of " + known.type.toString() + ". Received: a tensor of " +
                         tensor.elementType().toString() + ".");
  }
  if (known.kind == FieldKind::kEdgeList && field.getIndex() < 0) {
    // The first dimension are the rows.
    if (tensor.rank() != 2) {
      RefuseConnection(*state_, field,
                       "is a list of rows: it takes a matrix or a list of tensors. Received: the shape " +
                           tensor.shapeToString() + ".");
    }
    for (std::size_t row = 0; row < tensor.dim(0); ++row) connect(field[row], tensor[row]);
    if (tensor.dim(0) == 0) setFieldSize(field, 0);
    return;
  }
  if (known.kind != FieldKind::kEdgeList && field.getIndex() >= 0) {
    RefuseConnection(*state_, field, "is one edge, without elements to connect. Connect the field as a whole.");
  }
  if (known.kind == FieldKind::kEdge && tensor.numElements() != 1) {
    RefuseConnection(*state_, field, "takes one element. Received: the shape " + tensor.shapeToString() + ".");
  }
  if (tensor.rank() > 1) {
    RefuseConnection(
        *state_, field,
        "takes a tensor of one dimension. Received: the shape " + tensor.shapeToString() + ". Call flatten() on it.");
  }
  Edge edge;
  edge.vertex = field.getVertexId();
  edge.field = number;
  edge.index = field.getIndex();
  edge.first_run = state_->edge_runs.size();
  edge.size = tensor.numElements();
  TensorAccess::ForRuns(tensor, [&](const Run& run) {
    if (known.IsWritten() && state_->variables[run.variable].is_constant) {
      RefuseConnection(*state_, field, "is written, but " + state_->RunText(run) + " are constant.");
    }
    if (state_->edge_runs.size() > edge.first_run) {
      Run& last = state_->edge_runs.back();
      if (last.variable == run.variable && last.begin + last.size == run.begin) {
        last.size += run.size;
        return;
      }
    }
    state_->edge_runs.push_back(run);
  });
  edge.run_count = state_->edge_runs.size() - edge.first_run;
  state_->edges.push_back(edge);
}

void Graph::connect(FieldRef field, ArrayRef<Tensor> tensors) {
  const VertexType& type = TypeOf(*state_, field);
  const Field& known = type.fields[type.FieldOf(field.getName())];
  if (known.kind != FieldKind::kEdgeList) {
    if (tensors.empty()) RefuseConnection(*state_, field, "takes elements. Received: an empty list of tensors.");
    std::vector<Tensor> flat;
    for (const Tensor& one : tensors) flat.push_back(one.flatten());
    return connect(field, concat(flat));
  }
  for (std::size_t row = 0; row < tensors.size(); ++row) connect(field[row], tensors[row]);
  if (tensors.empty()) setFieldSize(field, 0);
}

void Graph::ConnectValues(const FieldRef& field, const Values& values, bool is_scalar) {
  const VertexType& type = TypeOf(*state_, field);
  const Field& known = type.fields[type.FieldOf(field.getName())];
  if (!known.IsEdge()) return SetField(field, values, is_scalar);
  Tensor constant = AddConstant(known.type, {values.size()}, values, "constant of " + field.getName());
  state_->variables.back().vertex = field.getVertexId();
  connect(field, constant);
}

void Graph::SetField(const FieldRef& field, const Values& values, bool is_scalar) {
  const VertexType& type = TypeOf(*state_, field);
  const std::uint32_t number = type.FieldOf(field.getName());
  const Field& known = type.fields[number];
  const std::string what = "Field '" + field.getName() + "' of " + state_->VertexText(field.getVertexId());
  if (known.IsEdge()) {
    RefuseConnection(*state_, field, "is an edge. Connect it to a tensor, whose initial value may be set.");
  }
  if (known.kind == FieldKind::kOwn) {
    RefuseConnection(*state_, field,
                     "is of the codelet's own type. Only fields that are numbers, or a Vector, have values.");
  }
  if (known.kind == FieldKind::kValue && !is_scalar) {
    RefuseConnection(*state_, field, "is one number. Received: a list of " + std::to_string(values.size()) + ".");
  }
  if (known.kind == FieldKind::kValues && is_scalar) {
    RefuseConnection(*state_, field, "is a list of numbers. Received: one number; give an ArrayRef.");
  }
  const std::vector<std::uint8_t> bytes = detail::ToBytes(values, known.type, what);
  state_->field_values.push_back({field.getVertexId(), number, state_->field_bytes.size(), values.size()});
  state_->field_bytes.insert(state_->field_bytes.end(), bytes.begin(), bytes.end());
}

void Graph::setFieldSize(FieldRef field, std::size_t size) {
  const VertexType& type = TypeOf(*state_, field);
  const std::uint32_t number = type.FieldOf(field.getName());
  if (type.fields[number].kind == FieldKind::kValues) {
    state_->field_values.push_back({field.getVertexId(), number, state_->field_bytes.size(), size});
    state_->field_bytes.resize(state_->field_bytes.size() + size * detail::TypeBytes(type.fields[number].type));
  } else if (type.fields[number].kind != FieldKind::kEdgeList) {
    RefuseConnection(*state_, field, "has no size of its own; only lists of edges and of numbers have one.");
  }
}

void Graph::setPerfEstimate(const VertexRef& vertex, std::uint64_t cycles, std::uint64_t) {
  if (vertex.isNull()) throw poplar_error("Graph::setPerfEstimate: the vertex is empty.");
  state_->vertices[vertex.getId()].cycles = cycles;
}

}  // namespace ipu_tf
}  // namespace poplar
