// Rows of tables by lists of offsets.
#include <popops/DynamicSlice.hpp>

#include <popops/Cast.hpp>

#include <poputil/VertexTemplates.hpp>
#include <poputil/exceptions.hpp>

#include "slices.h"

namespace popops {
inline namespace ipu_tf {
namespace {

using poplar::ComputeSet;
using poplar::DebugContext;
using poplar::Graph;
using poplar::Interval;
using poplar::OptionFlags;
using poplar::Tensor;
using poplar::program::Sequence;

bool Remaps(const OptionFlags& options) {
  const auto found = options.find("remapOutOfBoundIndices");
  return found != options.end() && found->second == "true";
}

void Check(const Tensor& t, const Tensor& offsets, const Sizes& dims, const Sizes& sizes, const std::string& call) {
  detail::CheckDims(t.shape(), dims, sizes, call);
  if (dims.size() != 1 || sizes[0] != 1) {
    throw poputil::poplibs_error("popops::" + call + ": rows are slices of size 1 along one dimension. Received: " +
                                 std::to_string(dims.size()) + " dimensions.");
  }
  if (offsets.rank() == 0 || offsets.numElements() != offsets.dim(0)) {
    throw poputil::poplibs_error(
        "popops::" + call + ": the shape of the offsets is {n} or {n, 1}. Received: " + offsets.shapeToString() + ".");
  }
}

struct LookUps {
  Graph* graph;
  ComputeSet set;
  std::string type;
  bool remaps;
};

LookUps Begin(Graph* graph, const std::string& type, const char* call, const OptionFlags& options,
              const DebugContext& context) {
  detail::AddFile(graph, "popops_slice.cpp", type);
  if (!graph->hasCodelet(type)) {
    throw poputil::poplibs_error(std::string("popops::") + call + ": there is no codelet " + type + ".");
  }
  return {graph, graph->addComputeSet(DebugContext(context, call)), type, Remaps(options)};
}

// Connects what slices and updates have alike.
void Connect(const LookUps& all, const poplar::VertexRef& vertex, const Tensor& table, const Tensor& offsets,
             const std::vector<Interval>& columns) {
  all.graph->connect(vertex["table"], detail::InColumns(table, columns));
  all.graph->connect(vertex["offsets"], offsets);
  all.graph->setInitialValue(vertex["columns"], detail::Elements(columns));
  all.graph->setInitialValue(vertex["remaps"], all.remaps);
  detail::SetWork(all.graph, vertex, detail::Elements(columns), offsets.numElements());
}

// The rows of one table, as {offsets, shape of the table with 1 along the dimension}.
Tensor Slice(const LookUps& all, const Tensor& t, const Tensor& offsets, std::size_t dim, const DebugContext& context) {
  const Tensor table = detail::Table(t, dim);
  const Tensor flat = detail::Unsigned(offsets, "multiSlice").flatten();
  const auto mapping = detail::Columns(*all.graph, table);
  const Tensor out = detail::AddRows(all.graph, t.elementType(), flat.numElements(), mapping, context);
  detail::ForTiles(all.graph, all.set, all.type, mapping,
                   [&](const poplar::VertexRef& vertex, const std::vector<Interval>& columns) {
                     Connect(all, vertex, table, flat, columns);
                     all.graph->connect(vertex["out"], detail::InColumns(out, columns));
                   });
  Sizes shape = t.shape();
  shape[dim] = 1;
  shape.insert(shape.begin(), flat.numElements());
  return out.reshape(shape);
}

void Update(const LookUps& all, const Tensor& t, const Tensor& s, const Tensor& offsets, const Tensor& scale,
            std::size_t dim) {
  const Tensor table = detail::Table(t, dim);
  const Tensor flat = detail::Unsigned(offsets, "multiUpdate").flatten();
  if (s.numElements() != flat.numElements() * table.dim(1) || s.elementType() != t.elementType()) {
    throw poputil::poplibs_error("popops::multiUpdate: the updates are a row of " + t.elementType().toString() +
                                 " for each of " + std::to_string(flat.numElements()) +
                                 " offsets. Received: " + s.elementType().toString() + " " + s.shapeToString() + ".");
  }
  const Tensor rows = s.reshape({flat.numElements(), table.dim(1)});
  detail::ForTiles(all.graph, all.set, all.type, detail::Columns(*all.graph, table),
                   [&](const poplar::VertexRef& vertex, const std::vector<Interval>& columns) {
                     Connect(all, vertex, table, flat, columns);
                     all.graph->connect(vertex["in"], detail::InColumns(rows, columns));
                     all.graph->connect(vertex["scale"], scale);
                   });
}

Tensor One(Graph* graph, const DebugContext& context) {
  const Tensor one = graph->addConstant(poplar::FLOAT, {}, 1.0f, DebugContext(context, "one"));
  graph->setTileMapping(one, 0);
  return one;
}

// A scale as a scalar of FLOAT.
Tensor Scale(Graph* graph, const Tensor& scale, Sequence* prog, const DebugContext& context) {
  if (scale.numElements() != 1) {
    throw poputil::poplibs_error("popops::multiUpdateAdd: the scale has one element. Received: the shape " +
                                 scale.shapeToString() + ".");
  }
  const Tensor one = scale.reshape({});
  return one.elementType() == poplar::FLOAT ? one : cast(*graph, one, poplar::FLOAT, *prog, context);
}

// Updates of all groups; without groups, of one.
void UpdateGroups(Graph* graph, const char* op, const char* call, bool is_grouped, const Tensor& t, const Tensor& s,
                  const Tensor& offsets, const Tensor& scale, const Sizes& dims, const Sizes& sizes, Sequence* prog,
                  const OptionFlags& options, const DebugContext& context) {
  const std::string type =
      poputil::templateVertex("popops::MultiUpdate", std::string("popops::") + op, t.elementType());
  const LookUps all = Begin(graph, type, call, options, context);
  const std::size_t groups = is_grouped ? t.dim(0) : 1;
  for (std::size_t i = 0; i < groups; ++i) {
    const Tensor of_group = is_grouped ? t[i] : t;
    const Tensor at = is_grouped ? offsets[i] : offsets;
    Check(of_group, at, dims, sizes, call);
    Update(all, of_group, is_grouped ? s[i] : s, at, scale, dims[0]);
  }
  prog->add(poplar::program::Execute(all.set));
}

Tensor Constant(Graph* graph, poplar::ArrayRef<unsigned> offsets, const DebugContext& context) {
  const Tensor constant =
      graph->addConstant(poplar::UNSIGNED_INT, {offsets.size()}, offsets, DebugContext(context, "offsets"));
  graph->setTileMapping(constant, 0);
  return constant;
}

}  // namespace

Tensor multiSlice(Graph& graph, const Tensor& t, const Tensor& offsets, const Sizes& dims, const Sizes& sizes,
                  Sequence& prog, const SlicePlan&, const OptionFlags& options, const DebugContext& debugContext) {
  Check(t, offsets, dims, sizes, "multiSlice");
  const LookUps all = Begin(&graph, poputil::templateVertex("popops::MultiSlice", t.elementType()), "multiSlice",
                            options, debugContext);
  const Tensor out = Slice(all, t, offsets, dims[0], debugContext);
  prog.add(poplar::program::Execute(all.set));
  return out;
}

Tensor multiSlice(Graph& graph, const Tensor& t, poplar::ArrayRef<unsigned> offsets, std::size_t dim, Sequence& prog,
                  const DebugContext& debugContext, const OptionFlags& optionFlags) {
  return multiSlice(graph, t, Constant(&graph, offsets, debugContext), {dim}, {1}, prog, SlicePlan(), optionFlags,
                    debugContext);
}

Tensor groupedMultiSlice(Graph& graph, const Tensor& t, const Tensor& offsets, const Sizes& dims, const Sizes& sizes,
                         Sequence& prog, const SlicePlan&, const OptionFlags& options,
                         const DebugContext& debugContext) {
  const LookUps all = Begin(&graph, poputil::templateVertex("popops::MultiSlice", t.elementType()), "multiSlice",
                            options, debugContext);
  std::vector<Tensor> groups;
  for (std::size_t i = 0; i < t.dim(0); ++i) {
    Check(t[i], offsets[i], dims, sizes, "groupedMultiSlice");
    groups.push_back(Slice(all, t[i], offsets[i], dims[0], debugContext).expand({0}));
  }
  prog.add(poplar::program::Execute(all.set));
  return poplar::concat(groups);
}

#define IPU_TF_UPDATE(NAME, OP, IS_GROUPED)                                                                            \
  void NAME(Graph& graph, const Tensor& t, const Tensor& s, const Tensor& offsets, const Sizes& dims,                  \
            const Sizes& sizes, Sequence& prog, const SlicePlan&, const OptionFlags& options,                          \
            const DebugContext& debugContext) {                                                                        \
    UpdateGroups(&graph, OP, #NAME, IS_GROUPED, t, s, offsets, One(&graph, debugContext), dims, sizes, &prog, options, \
                 debugContext);                                                                                        \
  }
IPU_TF_UPDATE(multiUpdate, "Write", false)
IPU_TF_UPDATE(multiUpdateMax, "Max", false)
IPU_TF_UPDATE(multiUpdateMul, "Mul", false)
IPU_TF_UPDATE(groupedMultiUpdate, "Write", true)
IPU_TF_UPDATE(groupedMultiUpdateMax, "Max", true)
IPU_TF_UPDATE(groupedMultiUpdateMul, "Mul", true)
#undef IPU_TF_UPDATE

void multiUpdateAdd(Graph& graph, const Tensor& t, const Tensor& s, const Tensor& offsets, const Tensor& scale,
                    const Sizes& dims, const Sizes& sizes, Sequence& prog, const SlicePlan&, const OptionFlags& options,
                    const DebugContext& debugContext) {
  UpdateGroups(&graph, "Add", "multiUpdateAdd", false, t, s, offsets, Scale(&graph, scale, &prog, debugContext), dims,
               sizes, &prog, options, debugContext);
}

void multiUpdateAdd(Graph& graph, const Tensor& t, const Tensor& s, poplar::ArrayRef<unsigned> offsets,
                    const Tensor& scale, std::size_t dim, Sequence& prog, const DebugContext& debugContext,
                    const OptionFlags& optionFlags) {
  multiUpdateAdd(graph, t, s, Constant(&graph, offsets, debugContext), scale, {dim}, {1}, prog, SlicePlan(),
                 optionFlags, debugContext);
}

void groupedMultiUpdateAdd(Graph& graph, const Tensor& t, const Tensor& s, const Tensor& offsets, const Tensor& scale,
                           const Sizes& dims, const Sizes& sizes, Sequence& prog, const SlicePlan&,
                           const OptionFlags& options, const DebugContext& debugContext) {
  UpdateGroups(&graph, "Add", "groupedMultiUpdateAdd", true, t, s, offsets, Scale(&graph, scale, &prog, debugContext),
               dims, sizes, &prog, options, debugContext);
}

}  // namespace ipu_tf
}  // namespace popops
