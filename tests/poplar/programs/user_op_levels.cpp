// A custom op as each level of the API declares it: LEVEL is from 1 to 5.
#include <cstdint>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include <poplar/Graph.hpp>
#include <poplar/Program.hpp>

using poplar::Graph;
using poplar::Tensor;
using poplar::program::Program;
using poplar::program::Sequence;
using Tensors = std::vector<Tensor>;
using Indices = std::vector<std::int64_t>;
using Aliases = std::map<std::int64_t, std::int64_t>;
using Text = const std::string&;

#if LEVEL == 1
#define ATTRIBUTES
#define CHECK_ATTRIBUTES
#else
#define ATTRIBUTES Text attributes,
#define CHECK_ATTRIBUTES \
  if (attributes != "attributes") throw std::logic_error("attributes")
#endif

extern "C" {

std::int32_t custom_op_api_level = LEVEL;

#if LEVEL <= 2
void Build_metadata(Indices& allocating, std::uint32_t& in_place, bool&, bool& is_stateless, std::uint32_t inputs) {
  in_place = 1;
#elif LEVEL == 3
void Build_metadata(Indices& allocating, Aliases& aliases, bool&, bool& is_stateless, std::uint32_t inputs) {
  aliases = {{0, 0}};
#elif LEVEL == 4
void Build_metadata(Indices& allocating, Aliases& aliases, bool&, bool& is_stateless, bool& is_hashable,
                    std::uint32_t inputs) {
  aliases = {{0, 0}};
  is_hashable = true;
#else
void Build_metadata(Indices& allocating, Indices& identical, Aliases& aliases, bool&, bool& is_stateless,
                    bool& is_hashable, std::uint32_t inputs) {
  aliases = {{0, 0}};
  identical = {0};
  is_hashable = true;
#endif
  if (inputs != 2) throw std::logic_error("inputs");
  allocating = {1};
  is_stateless = true;
}

Tensor Build_allocator(Graph& graph, std::uint32_t operand, const std::vector<std::size_t>& shape, poplar::Type type,
                       ATTRIBUTES Text prefix) {
  CHECK_ATTRIBUTES;
  if (operand != 1 || prefix != "label/input 1") throw std::logic_error("operand");
  const Tensor tensor = graph.addVariable(type, shape, prefix);
  graph.setTileMapping(tensor, 2);
  return tensor;
}

Program Build(Graph& graph, const Tensors& inputs, Tensors& outputs, ATTRIBUTES Text prefix) {
  CHECK_ATTRIBUTES;
  if (prefix != "label" || graph.getTileMapping(inputs[1])[2].empty()) throw std::logic_error("input 1");
  outputs.push_back(inputs[0]);
  return Sequence();
}

Program Build_grad(Graph&, int input, const Tensors& gradients, const Tensors& inputs, const Tensors& results,
                   Tensors& outputs, ATTRIBUTES Text prefix) {
  CHECK_ATTRIBUTES;
  if (input != 1 || gradients.size() != 1 || results.size() != 1 || inputs.size() != 2 || prefix != "label") {
    throw std::logic_error("gradient");
  }
  outputs = {gradients[0]};
  return Sequence();
}
}
