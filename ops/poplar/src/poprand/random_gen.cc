#include <poprand/RandomGen.hpp>

#include <string>
#include <vector>

#include <poprand/codelets.hpp>
#include <poputil/VertexTemplates.hpp>
#include <poputil/exceptions.hpp>

#include "../poplar/base/prefix.h"
#include "../popops/library.h"

namespace poprand {
inline namespace ipu_tf {
namespace {

using poplar::DebugContext;
using poplar::Graph;
using poplar::Interval;
using poplar::Tensor;
using poplar::Type;
using poplar::VertexRef;
using poplar::program::Sequence;

constexpr char kHere = 0;  // An address inside of this library.

void Check(const Graph& graph, const std::string& type, const std::string& call, const Type& of) {
  if (!graph.hasCodelet("poprand::SetSeed<unsigned>")) {
    throw poputil::poplibs_error(
        "poprand: the graph has no codelets of poprand. Call poprand::addCodelets(graph) "
        "first.");
  }
  if (!graph.hasCodelet(type)) {
    throw poputil::poplibs_error("poprand::" + call + ": there are no random numbers of this kind of " + of.toString() +
                                 ". Draw FLOAT, HALF, or where it has them INT.");
  }
}

void CheckSeed(const Tensor& seed, const std::string& call) {
  if (seed.elementType() == poplar::UNSIGNED_INT && seed.numElements() == 2) return;
  throw poputil::poplibs_error("poprand::" + call + ": a seed has two elements of UNSIGNED_INT. Received: " +
                               seed.elementType().toString() + " " + seed.shapeToString() + ".");
}

void ConnectSeed(Graph* graph, const VertexRef& vertex, const Tensor* seed, std::uint32_t modifier) {
  if (seed == nullptr) {
    graph->connect(vertex["seed"], poplar::ArrayRef<unsigned>({0u, 0u}));
  } else {
    graph->connect(vertex["seed"], seed->flatten());
  }
  graph->setInitialValue(vertex["modifier"], modifier);
  graph->setInitialValue(vertex["runs_on"], seed == nullptr);
}

// Vertices of a type for the elements of `out`; each gets its ranges, and what `connect` gives it.
template <typename Connect>
void AddVertices(Graph* graph, const std::string& type, const std::string& call, const Tensor* seed,
                 std::uint32_t modifier, const Tensor& out, Sequence* prog, const DebugContext& context,
                 const Connect& connect) {
  Check(*graph, type, call, out.elementType());
  if (seed != nullptr) CheckSeed(*seed, call);
  const poplar::ComputeSet set = graph->addComputeSet(DebugContext(context, call));
  const Tensor flat = out.flatten();
  popops::detail::ForTiles(graph, set, type, graph->getTileMapping(flat),
                           [&](const VertexRef& vertex, const std::vector<Interval>& part) {
                             std::vector<unsigned> first;
                             std::vector<unsigned> size;
                             for (const Interval& one : part) {
                               first.push_back(static_cast<unsigned>(one.begin()));
                               size.push_back(static_cast<unsigned>(one.size()));
                             }
                             ConnectSeed(graph, vertex, seed, modifier);
                             graph->setInitialValue(vertex["first"], first);
                             graph->setInitialValue(vertex["size"], size);
                             graph->connect(vertex["out"], popops::detail::PartOf(flat, part));
                             connect(vertex, part);
                           });
  prog->add(poplar::program::Execute(set));
}

struct Call {
  const char* name;
  const char* distribution;
  double a;
  double b;
  double c;
};

Tensor Draw(Graph* graph, const Call& call, const Tensor* seed, std::uint32_t modifier, const Tensor& reference,
            const Type& type, Sequence* prog, const DebugContext& context) {
  const Tensor out = graph->clone(type, reference, DebugContext(context, call.name));
  const std::string codelet =
      poputil::templateVertex("poprand::Draw", std::string("poprand::") + call.distribution, type);
  AddVertices(graph, codelet, call.name, seed, modifier, out, prog, context,
              [&](const VertexRef& vertex, const std::vector<Interval>&) {
                graph->setInitialValue(vertex["a"], call.a);
                graph->setInitialValue(vertex["b"], call.b);
                graph->setInitialValue(vertex["c"], call.c);
              });
  return out;
}

}  // namespace

void addCodelets(Graph& graph) { graph.addCodelets(poplar::detail::PrefixOf(&kHere) + "/codelets/poprand.cpp"); }

Tensor uniform(Graph& graph, const Tensor* seed, std::uint32_t seedModifier, const Tensor& reference,
               const Type& outType, double minVal, double maxVal, Sequence& prog, const DebugContext& debugContext) {
  return Draw(&graph, {"uniform", "Uniform", minVal, maxVal, 0}, seed, seedModifier, reference, outType, &prog,
              debugContext);
}

Tensor bernoulli(Graph& graph, const Tensor* seed, std::uint32_t seedModifier, const Tensor& reference,
                 const Type& outType, double prob, Sequence& prog, const DebugContext& debugContext) {
  return Draw(&graph, {"bernoulli", "Bernoulli", prob, 0, 0}, seed, seedModifier, reference, outType, &prog,
              debugContext);
}

Tensor normal(Graph& graph, const Tensor* seed, std::uint32_t seedModifier, const Tensor& reference,
              const Type& outType, double mean, double stdDev, Sequence& prog, const DebugContext& debugContext) {
  return Draw(&graph, {"normal", "Normal", mean, stdDev, 0}, seed, seedModifier, reference, outType, &prog,
              debugContext);
}

Tensor truncatedNormal(Graph& graph, const Tensor* seed, std::uint32_t seedModifier, const Tensor& reference,
                       const Type& outType, double mean, double stdDev, double alpha, Sequence& prog,
                       const DebugContext& debugContext) {
  if (!(alpha > 0)) {
    throw poputil::poplibs_error(
        "poprand::truncatedNormal: alpha must be positive. Received: " + std::to_string(alpha) + ".");
  }
  return Draw(&graph, {"truncatedNormal", "TruncatedNormal", mean, stdDev, alpha}, seed, seedModifier, reference,
              outType, &prog, debugContext);
}

Tensor dropout(Graph& graph, const Tensor* seed, std::uint32_t seedModifier, const Tensor& input,
               const Tensor& reference, double keepProbability, double scale, Sequence& prog,
               const DebugContext& debugContext) {
  if (input.shape() != reference.shape()) {
    throw poputil::poplibs_error("poprand::dropout: input and reference must have one shape. Received: " +
                                 input.shapeToString() + " and " + reference.shapeToString() + ".");
  }
  const Tensor out = graph.clone(input.elementType(), reference, DebugContext(debugContext, "dropout"));
  const Tensor flat = input.flatten();
  AddVertices(&graph, poputil::templateVertex("poprand::Dropout", input.elementType()), "dropout", seed, seedModifier,
              out, &prog, debugContext, [&](const VertexRef& vertex, const std::vector<Interval>& part) {
                graph.connect(vertex["in"], popops::detail::PartOf(flat, part));
                graph.setInitialValue(vertex["keep"], keepProbability);
                graph.setInitialValue(vertex["scale"], scale);
              });
  return out;
}

void setSeed(Graph& graph, const Tensor& masterSeed, std::uint32_t seedModifier, Sequence& prog,
             const DebugContext& debugContext) {
  const std::string type = "poprand::SetSeed<unsigned>";
  Check(graph, type, "setSeed", poplar::UNSIGNED_INT);
  CheckSeed(masterSeed, "setSeed");
  const poplar::ComputeSet set = graph.addComputeSet(DebugContext(debugContext, "setSeed"));
  for (unsigned tile = 0; tile < graph.getTarget().getNumTiles(); ++tile) {
    const VertexRef vertex = graph.addVertex(set, type);
    graph.setTileMapping(vertex, tile);
    ConnectSeed(&graph, vertex, &masterSeed, seedModifier);
    graph.setInitialValue(vertex["tile"], tile);
    popops::detail::SetWork(&graph, vertex, 2);
  }
  prog.add(poplar::program::Execute(set));
}

}  // namespace ipu_tf
}  // namespace poprand
