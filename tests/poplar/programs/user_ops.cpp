// Custom ops of TensorFlow: a product with its gradient, a codelet with attributes, an op that works in place on a
// tensor that it allocates, gradients one by one, and ops that do what they may not.
#include <cstdint>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include <poplar/Graph.hpp>
#include <poplar/Program.hpp>
#include <popops/ElementWise.hpp>
#include <popops/codelets.hpp>
#include <poputil/TileMapping.hpp>

using poplar::Graph;
using poplar::Tensor;
using poplar::program::Program;
using poplar::program::Sequence;
using Tensors = std::vector<Tensor>;
using Indices = std::vector<std::int64_t>;
using Aliases = std::map<std::int64_t, std::int64_t>;
using Text = std::string;

extern "C" {

std::int32_t custom_op_api_level = 5;

void Build_metadata(Indices&, Indices&, Aliases&, bool&, bool& is_stateless, bool&, std::uint32_t) {
  is_stateless = true;
}

Program Build(Graph& graph, const Tensors& inputs, Tensors& outputs, const Text&, const Text& prefix) {
  popops::addCodelets(graph);
  Sequence sequence;
  outputs.push_back(popops::mul(graph, inputs[0], inputs[1], sequence, prefix + "/product"));
  return sequence;
}

Program Build_grad(Graph& graph, int, const Tensors& gradients, const Tensors& inputs, const Tensors&, Tensors& outputs,
                   const Text&, const Text& prefix) {
  popops::addCodelets(graph);
  Sequence sequence;
  outputs.push_back(popops::mul(graph, gradients[0], inputs[1], sequence, prefix + "/of x"));
  outputs.push_back(popops::mul(graph, gradients[0], inputs[0], sequence, prefix + "/of y"));
  return sequence;
}

// Indices that are unsigned where the op allocates them, as those of popops are, and come back as they are.
void Indexed_metadata(Indices& allocating, Indices&, Aliases&, bool&, bool& is_stateless, bool&, std::uint32_t) {
  allocating = {0};
  is_stateless = true;
}

Tensor Indexed_allocator(Graph& graph, std::uint32_t, const std::vector<std::size_t>& shape, poplar::Type, const Text&,
                         const Text& prefix) {
  const Tensor indices = graph.addVariable(poplar::UNSIGNED_INT, shape, prefix);
  poputil::mapTensorLinearly(graph, indices);
  return indices;
}

Program Indexed(Graph& graph, const Tensors& inputs, Tensors& outputs, const Text&, const Text& prefix) {
  outputs.push_back(graph.clone(inputs[0], prefix + "/indices"));
  return poplar::program::Copy(inputs[0], outputs[0]);
}

// x to the power 2, times the number that the attributes spell; the codelet is that of gp_path.
Program Squares(Graph& graph, Tensors& inputs, Tensors& outputs, const Text& attributes, const Text& prefix) {
  const Tensor in = inputs[0].flatten();
  outputs.push_back(graph.clone(inputs[0], prefix + "/squares"));
  const Tensor out = outputs[0].flatten();
  const auto set = graph.addComputeSet(prefix + "/square");
  const auto mapping = graph.getTileMapping(inputs[0]);
  for (unsigned tile = 0; tile < mapping.size(); ++tile) {
    for (const auto& region : mapping[tile]) {
      const auto vertex = graph.addVertex(set, "Square", {{"in", in.slice(region)}, {"out", out.slice(region)}});
      graph.setInitialValue(vertex["scale"], std::stof(attributes));
      graph.setTileMapping(vertex, tile);
      graph.setPerfEstimate(vertex, 10 + 2 * region.size());
    }
  }
  return poplar::program::Execute(set);
}

// The gradient of one input a call: with 3 inputs, that of input i is i + 1 times what comes in.
Program Sum(Graph& graph, const Tensors& inputs, Tensors& outputs, const Text&, const Text&) {
  popops::addCodelets(graph);
  Sequence sequence;
  Tensor sum = inputs[0];
  for (std::size_t i = 1; i < inputs.size(); ++i) sum = popops::add(graph, sum, inputs[i], sequence);
  outputs.push_back(sum);
  return sequence;
}

Program Sum_grad(Graph& graph, int input, const Tensors& gradients, const Tensors& inputs, const Tensors& results,
                 Tensors& outputs, const Text& attributes, const Text&) {
  if (inputs.size() != 3 || results.size() != 1 || gradients.size() != 1) throw std::logic_error("other tensors");
  popops::addCodelets(graph);
  Sequence sequence;
  const Tensor factor = graph.addConstant(poplar::FLOAT, gradients[0].shape(), std::stof(attributes) + float(input));
  poputil::mapTensorLinearly(graph, factor);
  outputs.push_back(popops::mul(graph, gradients[0], factor, sequence));
  return sequence;
}

// Adds input 1 to input 0, which it allocates on one tile, and returns that.
void AddInPlace_metadata(Indices& allocating, Indices&, Aliases& aliases, bool&, bool&, bool&, std::uint32_t inputs) {
  if (inputs != 2) throw std::logic_error("two inputs");
  allocating = {0};
  aliases = {{0, 0}};
}

Tensor AddInPlace_allocator(Graph& graph, std::uint32_t operand, const std::vector<std::size_t>& shape,
                            poplar::Type type, const Text& attributes, const Text& prefix) {
  if (operand != 0 || attributes != "on tile 1") throw std::logic_error("another operand");
  const Tensor tensor = graph.addVariable(type, shape, prefix);
  graph.setTileMapping(tensor, 1);
  return tensor;
}

Program AddInPlace(Graph& graph, const Tensors& inputs, Tensors& outputs, const Text&, const Text&) {
  popops::addCodelets(graph);
  Sequence sequence;
  if (graph.getTileMapping(inputs[0])[1].empty()) throw std::logic_error("the tensor of the allocator is not used");
  popops::addInPlace(graph, inputs[0], inputs[1], sequence);
  outputs.push_back(inputs[0]);
  return sequence;
}

Program AddInPlace_grad(Graph&, int, const Tensors& gradients, const Tensors&, const Tensors&, Tensors& outputs,
                        const Text&, const Text&) {
  outputs = {gradients[0], Tensor()};
  return Sequence();
}

// Relies on codelets that the program around it has.
Program Twice(Graph& graph, const Tensors& inputs, Tensors& outputs, const Text&, const Text&) {
  Sequence sequence;
  outputs.push_back(popops::add(graph, inputs[0], inputs[0], sequence));
  return sequence;
}

Program Nothing(Graph&, const Tensors&, Tensors&, const Text&, const Text&) { return Sequence(); }

Program NoTensor(Graph&, const Tensors&, Tensors& outputs, const Text&, const Text&) {
  outputs.emplace_back();
  return Sequence();
}

Program Refuses(Graph&, const Tensors&, Tensors&, const Text&, const Text&) {
  throw std::invalid_argument("it takes matrices");
}

Program Aborts(Graph&, const Tensors& inputs, Tensors& outputs, const Text&, const Text&) {
  outputs.push_back(inputs[0]);
  return poplar::program::Abort(Text("it had to stop"));
}

// Its codelet writes to nowhere.
Program Faults(Graph& graph, const Tensors& inputs, Tensors& outputs, const Text&, const Text&) {
  outputs.push_back(inputs[0]);
  const auto set = graph.addComputeSet("fault");
  graph.setTileMapping(graph.addVertex(set, "WritesToNowhere", {{"in", inputs[1].flatten()}}), 3);
  return poplar::program::Execute(set);
}

Program Crashes(Graph&, const Tensors& inputs, Tensors& outputs, const Text&, const Text&) {
  outputs.push_back(inputs[0]);
  volatile int* nowhere = nullptr;
  *nowhere = 1;
  return Sequence();
}
}

Program Mangled(Graph&, const Tensors&, Tensors&, const Text&, const Text&) { return Sequence(); }
