// The estimates of popops' vertices against the instructions of their codelets; "print" prints both.
#include <cmath>
#include <functional>
#include <map>
#include <poplar/CycleCount.hpp>
#include <poplar/Engine.hpp>
#include <poplar/IPUModel.hpp>
#include <popops/Cast.hpp>
#include <popops/ElementWise.hpp>
#include <popops/Fill.hpp>
#include <popops/Reduce.hpp>
#include <popops/codelets.hpp>
#include <string>
#include <vector>

#include "check.h"

using namespace poplar;
using namespace poplar::program;

namespace {

using Call = std::function<void(Graph&, Sequence&, std::size_t)>;

Tensor Mapped(Graph& graph, const Type& type, std::vector<std::size_t> shape) {
  const Tensor tensor = graph.addVariable(type, shape, "x");
  graph.setTileMapping(tensor, 0);
  return tensor;
}

// Cycles of a call on so many elements of one tile.
std::uint64_t Cycles(const Call& call, std::size_t elements, const std::string& cycles) {
  IPUModel model;
  model.tilesPerIPU = 4;
  const Device device = model.createDevice();
  Graph graph(device);
  popops::addCodelets(graph);
  Sequence prog;
  call(graph, prog, elements);
  const Tensor counted = cycleCount(graph, prog, 0, SyncType::INTERNAL);
  graph.createHostRead("cycles", counted);
  Engine engine(graph, prog, {{"cycles", cycles}});
  engine.loadAndRun(device);
  std::vector<unsigned> words(2);
  engine.readTensor("cycles", words.data(), words.data() + 2);
  return words[0];
}

std::map<std::string, Call> Calls() {
  std::map<std::string, Call> calls;
  for (const Type& type : {FLOAT, HALF, INT, UNSIGNED_INT}) {
    const std::string name = type.toString();
    const auto binary = [=](auto function) {
      return [=](Graph& graph, Sequence& prog, std::size_t n) {
        function(graph, Mapped(graph, type, {n}), Mapped(graph, type, {n}), prog);
      };
    };
    const DebugContext no;
    calls["add " + name] = binary([=](auto& g, auto a, auto b, auto& p) { popops::add(g, a, b, p, no); });
    calls["mul " + name] = binary([=](auto& g, auto a, auto b, auto& p) { popops::mul(g, a, b, p, no); });
    calls["subInPlace " + name] = binary([=](auto& g, auto a, auto b, auto& p) { popops::subInPlace(g, a, b, p, no); });
    if (type == FLOAT || type == HALF) {
      calls["div " + name] = binary([=](auto& g, auto a, auto b, auto& p) { popops::div(g, a, b, p, no); });
    }
    calls["fill " + name] = [=](Graph& graph, Sequence& prog, std::size_t n) {
      popops::fill(graph, Mapped(graph, type, {n}), prog, 1);
    };
    for (const auto& [op, word] : {std::pair(popops::Operation::ADD, "add"), {popops::Operation::MAX, "max"}}) {
      for (const std::size_t columns : {2, 20}) {
        calls["reduce " + std::string(word) + " " + std::to_string(columns) + " " + name] =
            [=, op = op](Graph& graph, Sequence& prog, std::size_t n) {
              const Tensor out = Mapped(graph, type, {n});
              popops::reduceWithOutput(graph, Mapped(graph, type, {n, columns}), out, {1}, popops::ReduceParams(op),
                                       prog);
            };
      }
    }
  }
  for (const Type& from : {FLOAT, HALF, INT}) {
    for (const Type& to : {FLOAT, HALF, INT}) {
      if (from == to || (from == INT && to == HALF)) continue;  // The host calls a function there.
      calls["cast " + from.toString() + " to " + to.toString()] = [=](Graph& graph, Sequence& prog, std::size_t n) {
        popops::cast(graph, Mapped(graph, from, {n}), to, prog);
      };
    }
  }
  return calls;
}

}  // namespace

int main(int argc, char**) {
  for (const auto& [name, call] : Calls()) {
    for (const std::size_t elements : {60, 1200}) {
      const double estimated = static_cast<double>(Cycles(call, elements, "estimates"));
      const double counted = static_cast<double>(Cycles(call, elements, "instructions"));
      if (argc > 1) {
        std::cout << name << " " << elements << ": " << estimated / 6 << " estimated, " << counted / 6 << " counted\n";
      } else if (std::abs(estimated - counted) > 0.1 * counted) {
        std::cerr << name << " of " << elements << ": " << estimated << " and " << counted << " cycles\n";
        return 1;
      }
    }
  }
  std::cout << "estimates hold\n";
}
