#include <poplar/Graph.hpp>

#include <algorithm>
#include <numeric>
#include <set>
#include <sstream>

#include <poplar/Program.hpp>
#include <poplar/exceptions.hpp>

#include "graph_state.h"

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

using detail::Edge;
using detail::Field;
using detail::FieldKind;
using detail::GraphState;
using detail::kUnmapped;
using detail::Run;
using detail::TensorAccess;
using detail::Values;
using detail::Variable;
using detail::VertexType;

Target Graph::WithTiles(Target target, unsigned ipus, unsigned tiles_per_ipu) {
  target.num_ipus_ = ipus;
  target.tiles_per_ipu_ = tiles_per_ipu;
  return target;
}

Graph::Graph(const Target& target, replication_factor replicas)
    : state_(std::make_shared<GraphState>(target)), target_(target) {
  const unsigned ipus = target.getNumIPUs();
  const unsigned tiles = target.getTilesPerIPU();
  const unsigned count = replicas.count();
  if (ipus == 0) throw poplar_error("Graph: the target is empty. Take that of a device.");
  if (count != 0 && ipus % count == 0) {
    target_ = WithTiles(target, ipus / count, tiles);
  } else if (count != 0 && count % ipus == 0 && tiles % (count / ipus) == 0) {
    target_ = WithTiles(target, 1, tiles / (count / ipus));
  } else {
    throw graph_replication_error("Graph: replicas have whole IPUs, or equal parts of one, but the target has " +
                                  std::to_string(ipus) + " of " + std::to_string(tiles) +
                                  " tiles. Received: replication_factor(" + std::to_string(count) + ").");
  }
  state_->target = target_;
  state_->replicas = count;
}

Graph::Graph(const Device& device, replication_factor replicas) : Graph(device.getTarget(), replicas) {}
Graph::Graph(std::shared_ptr<GraphState> state) : state_(std::move(state)), target_(state_->target) {}
Graph::Graph(Graph&&) noexcept = default;
Graph& Graph::operator=(Graph&&) noexcept = default;
Graph::~Graph() = default;

const Target& Graph::getTarget() const { return target_; }
unsigned Graph::getReplicationFactor() const { return state_->replicas; }

Graph Graph::createVirtualGraph(unsigned lowerTile, unsigned upperTile) {
  if (lowerTile >= upperTile || upperTile > target_.getNumTiles()) {
    throw poplar_error("Graph::createVirtualGraph: this graph has tiles 0 to " +
                       std::to_string(target_.getNumTiles() - 1) + ". Received: from " + std::to_string(lowerTile) +
                       " to " + std::to_string(upperTile) + ".");
  }
  std::vector<unsigned> tiles(upperTile - lowerTile);
  std::iota(tiles.begin(), tiles.end(), lowerTile);
  return createVirtualGraph(tiles);
}

Graph Graph::createVirtualGraph(const std::vector<unsigned>& tiles) {
  if (tiles.empty()) throw poplar_error("Graph::createVirtualGraph: at least one tile is needed. Received: none.");
  if (std::set<unsigned>(tiles.begin(), tiles.end()).size() != tiles.size()) {
    throw poplar_error("Graph::createVirtualGraph: a tile is in the list more than once. Name each once.");
  }
  Graph graph(state_);
  for (const unsigned tile : tiles) graph.tiles_.push_back(GlobalTile(tile, "Graph::createVirtualGraph"));
  // As many IPUs as it has tiles of, if it has as many of each, IPU by IPU.
  const auto ipu = [&](std::size_t place) { return graph.tiles_[place] / state_->target.getTilesPerIPU(); };
  std::set<std::uint32_t> ipus;
  for (std::size_t i = 0; i < tiles.size(); ++i) ipus.insert(ipu(i));
  const std::size_t each = tiles.size() / ipus.size();
  bool are_equal = each * ipus.size() == tiles.size();
  for (std::size_t i = 0; are_equal && i < tiles.size(); ++i) are_equal = ipu(i) == ipu(i / each * each);
  graph.target_ = are_equal ? WithTiles(target_, static_cast<unsigned>(ipus.size()), static_cast<unsigned>(each))
                            : WithTiles(target_, 1, static_cast<unsigned>(tiles.size()));
  return graph;
}

Graph Graph::getTopLevelGraph() { return Graph(state_); }

std::uint32_t Graph::GlobalTile(unsigned tile, const char* what) const {
  if (tile >= target_.getNumTiles()) {
    throw invalid_tile_mapping(std::string(what) + ": there are tiles 0 to " +
                               std::to_string(target_.getNumTiles() - 1) + ". Received: " + std::to_string(tile) + ".");
  }
  return tiles_.empty() ? tile : tiles_[tile];
}

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

void Graph::setTileMapping(VertexRef vertex, unsigned tile) {
  if (vertex.isNull()) throw poplar_error("Graph::setTileMapping: the vertex is empty.");
  state_->vertices[vertex.getId()].tile = GlobalTile(tile, "Graph::setTileMapping of a vertex");
}

void Graph::setTileMapping(const Tensor& tensor, unsigned tile) {
  detail::CheckGraph(*state_, tensor, "Graph::setTileMapping");
  const std::uint32_t global = GlobalTile(tile, "Graph::setTileMapping of a tensor");
  TensorAccess::ForRuns(tensor,
                        [&](const Run& run) { state_->variables[run.variable].Map(run.begin, run.size, global); });
}

void Graph::setTileMapping(const Tensor& tensor, const TileToTensorMapping& mapping) {
  const Tensor flat = tensor.flatten();
  for (unsigned tile = 0; tile < mapping.size(); ++tile) {
    for (const Interval& one : mapping[tile]) setTileMapping(flat.slice(one), tile);
  }
}

Graph::TileToTensorMapping Graph::getTileMapping(const Tensor& tensor, bool requireComplete) const {
  detail::CheckGraph(*state_, tensor, "Graph::getTileMapping");
  TileToTensorMapping mapping(target_.getNumTiles());
  std::vector<std::uint32_t> places(tiles_.empty() ? 0 : state_->target.getNumTiles(), kUnmapped);  // Of tiles here.
  for (std::uint32_t i = 0; i < tiles_.size(); ++i) places[tiles_[i]] = i;
  std::size_t at = 0;
  TensorAccess::ForRuns(tensor, [&](const Run& run) {
    const Variable& variable = state_->variables[run.variable];
    variable.ForTiles(run.begin, run.size, [&](std::uint64_t begin, std::uint64_t count, std::uint32_t tile) {
      const std::size_t place = at;
      at += count;
      const std::uint32_t here = tile == kUnmapped || tiles_.empty() ? tile : places[tile];
      if (here == kUnmapped) {
        if (!requireComplete) return;
        throw invalid_tile_mapping("Graph::getTileMapping: " + state_->RunText({run.variable, begin, count}) +
                                   (tile == kUnmapped ? " have no tile. Call setTileMapping first."
                                                      : " are on a tile outside of this virtual graph."));
      }
      std::vector<Interval>& of_tile = mapping[here];
      if (!of_tile.empty() && of_tile.back().end() == place) {
        of_tile.back() = Interval(of_tile.back().begin(), place + count);
      } else {
        of_tile.emplace_back(place, place + count);
      }
    });
  });
  return mapping;
}

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

void Graph::createHostWrite(StringRef handle, const Tensor& tensor, bool) {
  detail::CheckGraph(*state_, tensor, "Graph::createHostWrite");
  if (!tensor.isParallelWriteable()) {
    throw poplar_error("Graph::createHostWrite: the host cannot write " + tensor.getDebugStr() +
                       ", which has constants or elements twice.");
  }
  if (!state_->host_writes.emplace(handle, detail::HostAccess{tensor, false}).second) {
    throw poplar_error("Graph::createHostWrite: the handle '" + std::string(handle) + "' is taken.");
  }
}

void Graph::createHostRead(StringRef handle, const Tensor& tensor, bool) {
  detail::CheckGraph(*state_, tensor, "Graph::createHostRead");
  if (!state_->host_reads.emplace(handle, detail::HostAccess{tensor, true}).second) {
    throw poplar_error("Graph::createHostRead: the handle '" + std::string(handle) + "' is taken.");
  }
}

namespace {

DataStream AddStream(GraphState* state, const std::string& handle, const Type& type, std::size_t elements,
                     bool to_device, ReplicatedStreamMode mode) {
  for (const DataStream& one : state->streams) {
    if (one.handle() == handle) throw poplar_error("Graph: the handle '" + handle + "' of a stream is taken.");
  }
  state->streams.emplace_back(static_cast<std::uint32_t>(state->streams.size()), handle, type, elements, to_device,
                              mode);
  return state->streams.back();
}

}  // namespace

DataStream Graph::addHostToDeviceFIFO(StringRef handle, const Type& elementType, std::size_t numElements,
                                      ReplicatedStreamMode replicatedMode, const OptionFlags&) {
  return AddStream(state_.get(), std::string(handle), elementType, numElements, true, replicatedMode);
}

DataStream Graph::addDeviceToHostFIFO(StringRef handle, const Type& elementType, std::size_t numElements,
                                      const OptionFlags&) {
  return AddStream(state_.get(), std::string(handle), elementType, numElements, false, ReplicatedStreamMode::REPLICATE);
}

RemoteBuffer Graph::addRemoteBuffer(StringRef handle, const Type& elementType, std::size_t numElements,
                                    std::size_t repeats, bool, bool) {
  for (const RemoteBuffer& one : state_->remote_buffers) {
    if (one.handle() == handle) {
      throw poplar_error("Graph: the handle '" + one.handle() + "' of a remote buffer is taken.");
    }
  }
  state_->remote_buffers.emplace_back(static_cast<std::uint32_t>(state_->remote_buffers.size()), std::string(handle),
                                      elementType, numElements, repeats);
  return state_->remote_buffers.back();
}

Function Graph::addFunction(const program::Program& program) {
  state_->functions.push_back(program);
  return Function(static_cast<std::uint32_t>(state_->functions.size() - 1));
}

HostFunction Graph::addHostFunction(StringRef handle, ArrayRef<HostFunctionArgument> inputs,
                                    ArrayRef<HostFunctionArgument> outputs) {
  for (const detail::HostSignature& one : state_->host_functions) {
    if (one.handle == std::string(handle)) {
      throw poplar_error("Graph: the handle '" + one.handle + "' of a host function is taken.");
    }
  }
  state_->host_functions.push_back({std::string(handle), inputs.cloneAsVector(), outputs.cloneAsVector()});
  return HostFunction(static_cast<std::uint32_t>(state_->host_functions.size() - 1));
}

}  // namespace ipu_tf
}  // namespace poplar
