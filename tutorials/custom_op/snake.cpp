// A custom op of TensorFlow: inputs are x, float[batch, features], and a frequency for each feature, float[features].
// Vertices work where the elements of x are; the frequencies come to them.
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <poplar/Graph.hpp>
#include <poplar/Program.hpp>
#include <popops/Reduce.hpp>
#include <popops/codelets.hpp>
#include <poputil/exceptions.hpp>

namespace {

using poplar::Graph;
using poplar::Tensor;
using poplar::program::Execute;
using poplar::program::Program;
using poplar::program::Sequence;

constexpr unsigned kSlotsOfElement = 40;  // Of sine, cosine, quotient, loads and stores: modelled.

// Adds a vertex for the elements of x on each tile; each field gets these elements of its tensor.
Execute OnTiles(Graph& graph, const Tensor& x, const std::string& codelet, const std::map<std::string, Tensor>& fields,
                const std::string& name) {
  const auto set = graph.addComputeSet(name);
  const auto mapping = graph.getTileMapping(x);
  for (unsigned tile = 0; tile < mapping.size(); ++tile) {
    for (const auto& region : mapping[tile]) {
      const auto vertex = graph.addVertex(set, codelet);
      for (const auto& [field, tensor] : fields) graph.connect(vertex[field], tensor.flatten().slice(region));
      graph.setTileMapping(vertex, tile);
      graph.setPerfEstimate(vertex, kSlotsOfElement * region.size());
    }
  }
  return Execute(set);
}

// The frequencies, one for each element of x.
Tensor ForElements(const Tensor& frequencies, const Tensor& x) {
  if (x.rank() != 2 || frequencies.shape() != std::vector<std::size_t>{x.dim(1)}) {
    throw poputil::poplibs_error("snake takes x[batch, features] and frequencies[features]. Received: " +
                                 x.shapeToString() + " and " + frequencies.shapeToString() + ".");
  }
  return frequencies.expand({0}).broadcast(static_cast<unsigned>(x.dim(0)), 0);
}

}  // namespace

extern "C" {

std::int32_t custom_op_api_level = 5;

void Build_metadata(std::vector<std::int64_t>&, std::vector<std::int64_t>&, std::map<std::int64_t, std::int64_t>&,
                    bool& is_elementwise, bool& is_stateless, bool& is_hashable, std::uint32_t) {
  is_elementwise = is_stateless = is_hashable = true;
}

void Build_grad_metadata(std::vector<std::int64_t>&, std::vector<std::int64_t>&, std::map<std::int64_t, std::int64_t>&,
                         bool&, bool& is_stateless, bool& is_hashable, std::uint32_t) {
  is_stateless = is_hashable = true;
}

Program Build(Graph& graph, const std::vector<Tensor>& inputs, std::vector<Tensor>& outputs, const std::string&,
              const std::string& prefix) {
  const Tensor& x = inputs[0];
  outputs.push_back(graph.clone(x, prefix + "/y"));
  return OnTiles(graph, x, "Snake", {{"x", x}, {"a", ForElements(inputs[1], x)}, {"y", outputs[0]}},
                 prefix + "/snake");
}

Program Build_grad(Graph& graph, int, const std::vector<Tensor>& gradients, const std::vector<Tensor>& inputs,
                   const std::vector<Tensor>&, std::vector<Tensor>& outputs, const std::string&,
                   const std::string& prefix) {
  popops::addCodelets(graph);
  const Tensor& x = inputs[0];
  const Tensor of_x = graph.clone(x, prefix + "/of_x");
  const Tensor of_a = graph.clone(x, prefix + "/of_a");
  Sequence sequence;
  sequence.add(OnTiles(graph, x, "SnakeGradient",
                       {{"gradient", gradients[0]},
                        {"x", x},
                        {"a", ForElements(inputs[1], x)},
                        {"of_x", of_x},
                        {"of_a", of_a}},
                       prefix + "/gradient"));
  outputs = {of_x, popops::reduce(graph, of_a, {0}, popops::Operation::ADD, sequence, prefix + "/sum")};
  return sequence;
}
}
