// Mappings and regions of poputil; reductions, sums with a scale, encodings and loops of popops.
#include <algorithm>
#include <popops/AllTrue.hpp>
#include <popops/ElementWise.hpp>
#include <popops/Encoding.hpp>
#include <popops/Loop.hpp>
#include <popops/Reduce.hpp>
#include <popops/ScaledAdd.hpp>
#include <poputil/Broadcast.hpp>
#include <poputil/Util.hpp>
#include <sstream>

#include "results.h"

using namespace poplar;
using namespace poplar::program;
using popops::Operation;
using Regions = std::vector<Interval>;

namespace {

std::vector<double> Numbers(std::size_t size, double step) {
  std::vector<double> numbers;
  for (std::size_t i = 0; i < size; ++i) numbers.push_back(static_cast<double>(i * 7 % 23) * step - 3);
  return numbers;
}

void TestRegions(const Target& target) {
  Regions regions{{0, 4}, {4, 4}, {4, 10}, {12, 13}};
  poputil::mergeAdjacentRegions(regions);
  CHECK(regions == (Regions{{0, 10}, {12, 13}}));
  CHECK(poputil::intervalSequenceNumElements({regions, {{20, 25}}}) == 16);
  CHECK(poputil::flattenIntervals({regions, {{20, 25}}}).size() == 3);
  const auto parts = poputil::splitRegions(regions, 2, 3);
  CHECK(parts == (std::vector<Regions>{{{0, 4}}, {{4, 8}}, {{8, 10}, {12, 13}}}));
  CHECK(poputil::splitRegions(regions, 1, 3, 8).size() == 2);
  CHECK(poputil::splitRegions(regions, 1, 2, 0, 3).size() == 4);
  CHECK(poputil::splitRegions({{0, 8}}, 1, 1, 0, UINT_MAX, 3)[0] == (Regions{{0, 3}, {3, 6}, {6, 8}}));
  CHECK(poputil::splitRegionsBetweenWorkers(target, {{0, 60}}, 4).size() == 5);
  const auto sequences = poputil::splitRegionsBetweenWorkers(target, {{{0, 3}, {8, 11}}, {{20, 26}}}, 1);
  CHECK(sequences.size() == 6 && sequences[1] == (std::vector<Regions>{{{2, 3}, {8, 9}}}));
  CHECK(poputil::calculateUnshufflingIntervals({{4, 6}, {0, 4}}) == (Regions{{2, 6}, {0, 2}}));
  CHECK(poputil::unflattenIndex<std::size_t>({2, 3, 4}, 23) == (std::vector<std::size_t>{1, 2, 3}));
  CHECK(poputil::flattenIndex<std::size_t>({2, 3, 4}, {1, 2, 3}) == 23);
  CHECK(poputil::balancedPartition(11, 3) == (std::vector<int>{4, 4, 3}));
  CHECK(poputil::castToDeviceHalfValue(target, 2049.0) == 2048.0);
  CHECK(!poputil::checkAccuracyWhenCast(target, 70000.0, FLOAT, HALF, 0.1));
  CHECK(poputil::checkAccuracyWhenCast(target, 2049.0, FLOAT, HALF, 0.001));
  Refused([&] { poputil::checkAccuracyWhenCast(target, 1, INT, HALF, 0.1); }, "the types are FLOAT or HALF");
}

void TestMappings(const Device& device) {
  Graph graph(device);
  const Tensor x = graph.addVariable(FLOAT, {4, 6, 4}, "x");
  poputil::mapTensorLinearlyWithOffset(graph, x, 1, 24, 3);
  auto mapping = graph.getTileMapping(x);
  CHECK(mapping[3] == (Regions{{0, 24}}) && mapping[0] == (Regions{{24, 48}}) && mapping[2] == (Regions{{72, 96}}));
  CHECK(poputil::calcLinearTileMapping(graph, {10}, 4, 1, 1, false)[2] == (Regions{{0, 5}}));
  CHECK(poputil::calcLinearTileMapping(device.getTarget(), {10}, 4, 1, 1, false)[1] == (Regions{{5, 10}}));
  const Tensor small = graph.addVariable(FLOAT, {64}, "small");
  const auto [found, next] = poputil::calcLinearTileMappingAndNewOffset(graph, small, 3);
  CHECK(found[3] == (Regions{{0, 32}}) && found[0] == (Regions{{32, 64}}) && next == 1);
  CHECK(poputil::transformTileIndex(1, 4, 2, true) == 3 && poputil::transformTileIndex(1, 4, 2, false) == 0);
  for (unsigned tile = 0; tile < 4; ++tile) {
    CHECK(poputil::invTransformTileIndex(poputil::transformTileIndex(tile, 4, 3, false), 4, 3, false) == tile);
  }
  CHECK(poputil::chooseMappingOffset(4, {3, 5}) < 4 && poputil::chooseMappingOffset(4, {3, 5}, 9) < 4);
  CHECK(poputil::getTileImbalance({{{0, 10}}, {{10, 12}}}, 0, 4) == 2);
  CHECK(poputil::getTileImbalance(graph, x) == 0);
  CHECK(poputil::dimIsSplitOverTiles(graph, x, 0) && !poputil::dimIsSplitOverTiles(graph, x, 1));
  CHECK(!poputil::dimIsSplitOverIPUs(graph, x, 0));
  const Tensor operand = poputil::createBroadcastOperand(graph, x, HALF, 0);
  mapping = graph.getTileMapping(operand);
  CHECK(mapping[3] == (Regions{{0, 1}}) && mapping[0] == (Regions{{1, 2}}) && operand.elementType() == HALF);
  CHECK(graph.getTileMapping(poputil::createBroadcastOperand(graph, x, FLOAT, 1))[3].size() > 0);
  const auto [clone, offset] = poputil::cloneAndExpandAliasing(graph, small.broadcast(2, 0), 2);
  CHECK(offset == 2 && !clone.containsAliases() && clone.shape() == (std::vector<std::size_t>{128}));
  Graph virtual_graph = graph.createVirtualGraph(2, 4);
  poputil::mapTensorLinearlyWithOffset(graph, small, 64, 1, 1);
  CHECK(graph.getTileMapping(poputil::cloneToGraph(graph, virtual_graph, small))[3] == (Regions{{0, 64}}));
  poputil::TensorUseTracker tracker(4);
  const Tensor used = graph.addVariable(FLOAT, {12}, "used");
  CHECK(tracker.empty());
  tracker.add(graph, 1, used.slice(0, 8));
  tracker.add(graph, 2, used.slice(4, 12));
  poputil::TensorUseTracker copy = tracker;
  copy.mapTensorsByUse(graph, 2, 1);
  mapping = graph.getTileMapping(used);
  CHECK(mapping[1] == (Regions{{0, 6}}) && mapping[2] == (Regions{{6, 12}}));
  CHECK(poputil::factorDims(x, {1, 2}).shape() == (std::vector<std::size_t>{4, 3, 1, 2, 4}));
  CHECK(poputil::unfactorDims(poputil::factorDims(x, {1, 2}), 2) == x);
  CHECK(poputil::cloneN(graph, small, 3).shape() == (std::vector<std::size_t>{3, 64}));
  Tensor row = graph.addVariable(FLOAT, {4}, "row");
  Tensor column = graph.addVariable(FLOAT, {6, 1}, "column");
  CHECK(poputil::canBroadcastToMatch(row, column) && !poputil::canBroadcastToMatch(row, small));
  Tensor expanded = row;
  poputil::expandToMatchRanks(expanded, column);
  CHECK(expanded.rank() == 2);
  Tensor third = x;
  poputil::broadcastToMatch(row, column, third);
  CHECK(row.shape() == x.shape() && column.shape() == x.shape());
  Refused(
      [&] {
        Tensor t = small;
        poputil::broadcastToMatch(t, {3});
      },
      "the shape {64} does not broadcast to {3}");
  Refused([&] { poputil::createBroadcastOperand(graph, x, HALF, 3); }, "there is no dimension 3");
  Refused([&] { poputil::factorDims(x, {3}); }, "the factor 3 does not divide 4");
  Refused([&] { poputil::unfactorDims(x, 2); }, "has no 4 dimensions from dimension 0 on");
  Refused([&] { tracker.mapTensorsByUse(graph, 1, 1, true); }, "extendPartialUsage is not supported");
}

void TestReductions(Test& test) {
  Graph& g = test.graph;
  Sequence& p = test.prog;
  for (const Type& type : {FLOAT, HALF, INT, UNSIGNED_INT}) {
    const std::string name = " " + type.toString();
    std::vector<double> numbers = Numbers(240, type == FLOAT || type == HALF ? 0.25 : 1);
    if (type == UNSIGNED_INT) std::for_each(numbers.begin(), numbers.end(), [](double& one) { one += 3; });
    const Tensor x = test.Variable(type, {6, 10, 4}, numbers);
    test.Show("r" + name, x);
    for (const Operation op : {Operation::ADD, Operation::MIN, Operation::MAX, Operation::SQUARE_ADD}) {
      std::ostringstream word;
      word << op;
      test.Show(word.str() + "all" + name, popops::reduce(g, x, {0, 1, 2}, op, p));
      test.Show(word.str() + "last" + name, popops::reduce(g, x, {2}, op, p));
      test.Show(word.str() + "first" + name, popops::reduce(g, x, {0, 1}, op, p));
    }
    const Tensor sums = test.Copied(test.Variable(type, {10}, std::vector<double>(10, 2)));
    popops::reduceWithOutput(g, x, sums, {0, 2}, {Operation::ADD, true}, p);
    test.Show("updated" + name, sums);
  }
  const Tensor halves = test.Variable(HALF, {8}, {0.5, 1, 2, 0.25, 1, 2, 1, 4});
  test.Show("product", popops::reduce(g, halves, FLOAT, {0}, Operation::MUL, p));
  test.Show("logadd", popops::reduce(g, test.Variable(FLOAT, {3}, {1, 2, 3}), {0}, Operation::LOG_ADD, p));
  const Tensor scale = test.Variable(FLOAT, {}, {0.5});
  test.Show("scaled", popops::reduce(g, halves, {0}, {Operation::SQUARE_ADD, false, scale}, p));
  std::vector<Tensor> outputs;
  popops::reduceMany(g, {{halves, {0}, {Operation::MAX}, "most"}, {halves, {0}, {Operation::ADD}, FLOAT}}, outputs, p);
  test.Show("most", outputs[0]);
  test.Show("total", outputs[1]);
  std::vector<ComputeSet> sets;
  const Tensor a = popops::reduce(g, halves, {0}, Operation::MIN, sets);
  const Tensor b = popops::reduce(g, halves, FLOAT, {0}, Operation::ADD, sets);
  for (const ComputeSet& one : sets) p.add(Execute(one));
  test.Show("least", a);
  test.Show("again", b);
  const Tensor truths = test.Variable(BOOL, {100}, std::vector<double>(100, 1));
  test.Show("true", popops::allTrue(g, truths, p));
  test.Show("false", popops::allTrue(g, test.Variable(INT, {3}, {1, 0, 2}), p));
  Refused([&] { popops::reduce(g, halves, {1}, Operation::ADD, p); }, "there is no dimension 1 in the shape {8}");
  Refused([&] { popops::reduceWithOutput(g, halves, halves, {0}, Operation::ADD, p); }, "there are 1 results");
  Refused([&] { popops::reduce(g, truths, {0}, Operation::ADD, p); }, "there is no reduction ADD of bool to bool");
  Refused([&] { popops::reduce(g, halves.slice(0, 0), {0}, Operation::ADD, p); }, "there is nothing to reduce");
  outputs.pop_back();
  Refused(
      [&] { popops::reduceMany(g, {{halves, {0}, {Operation::ADD}}, {halves, {0}, {Operation::ADD}}}, outputs, p); },
      "there are 2 reductions. Received: 1 outputs");
}

void TestScaledAdd(Test& test) {
  Graph& g = test.graph;
  Sequence& p = test.prog;
  for (const Type& of_a : {FLOAT, HALF}) {
    for (const Type& of_b : {FLOAT, HALF}) {
      const std::string name = " " + of_a.toString() + of_b.toString();
      const auto show = [&](const std::string& title, const auto& call) {
        const Tensor a = test.Copied(test.Variable(of_a, {30}, Numbers(30, 0.1)));
        const Tensor b = test.Variable(of_b, {30}, Numbers(30, 0.3));
        call(a, b);
        test.Show(title + name, a);
      };
      const Tensor half = test.Variable(HALF, {}, {0.75});
      show("addTo", [&](const Tensor& a, const Tensor& b) { popops::scaledAddTo(g, a, b, 0.3f, p); });
      show("addToTensor", [&](const Tensor& a, const Tensor& b) { popops::scaledAddTo(g, a, b, half, p); });
      show("subtract", [&](const Tensor& a, const Tensor& b) { popops::scaledSubtractFrom(g, a, b, 0.3f, p); });
      show("both", [&](const Tensor& a, const Tensor& b) { popops::scaledAddTo(g, a, 2.0f, b, 0.3f, p); });
      show("special", [&](const Tensor& a, const Tensor& b) {
        popops::scaledAddTo(g, a, half, b, half, p, popops::ScaledAddSpecialisation::X_MINUS_AX_PLUS_BY);
      });
    }
  }
  const Tensor n = test.Copied(test.Variable(INT, {3}, {1, 2, 3}));
  popops::scaledSubtractFrom(g, n, n, 3, p);
  test.Show("integers", n);
  const Tensor x = test.Variable(FLOAT, {3}, {1, 2, 3});
  Refused([&] { popops::scaledAddTo(g, x, x.slice(0, 2), 1, p); }, "the shapes must be equal. Received: {3} and {2}");
  Refused([&] { popops::scaledAddTo(g, x, n, 1, p); }, "Received: float and int");
  Refused([&] { popops::scaledAddTo(g, x, x, x, p); }, "a scale has one element");
}

void TestEncodings(Test& test) {
  Graph& g = test.graph;
  Sequence& p = test.prog;
  const Tensor range = test.Copied(test.Variable(UNSIGNED_INT, {50}, std::vector<double>(50, 0)));
  popops::iota(g, range, 7u, p);
  test.Show("iota", range);
  const Tensor down = test.Copied(test.Variable(INT, {20}, std::vector<double>(20, 0)));
  popops::iota(g, down.reverse(0), -5, p);
  test.Show("down", down);
  const Tensor indices = test.Variable(UNSIGNED_INT, {5}, {0, 2, 6, 4294967295.0, 3});
  const Tensor encoded = test.Copied(test.Variable(HALF, {5, 7}, std::vector<double>(35, 9)));
  popops::encodeOneHot(g, indices, encoded, p);
  test.Show("hot", encoded);
  const Tensor other = test.Copied(test.Variable(FLOAT, {5, 7}, std::vector<double>(35, 9)));
  popops::encodeOneHot(g, indices, other, p, test.Variable(FLOAT, {}, {0.9}), test.Variable(FLOAT, {1}, {-0.1}));
  test.Show("warm", other);
  Refused([&] { popops::iota(g, range, 7, p); }, "the tensor is a list of int");
  Refused([&] { popops::encodeOneHot(g, indices, encoded[0], p); }, "{n} and {n, columns}. Received: {5} and {7}");
  Refused([&] { popops::encodeOneHot(g, other[0].slice(0, 5), encoded, p); }, "indices are of INT or UNSIGNED_INT");
}

void TestLoops(Test& test) {
  Graph& g = test.graph;
  Sequence& p = test.prog;
  const Tensor sum = test.Copied(test.Variable(UNSIGNED_INT, {1}, {0}));
  p.add(popops::countedLoop(g, 2, 11, 3, [&](const Tensor& i) {
    Sequence body;
    popops::addInPlace(g, sum, i, body);
    return body;
  }));
  p.add(popops::countedLoop(g, 4, [&](const Tensor& i) {
    Sequence body;
    popops::addInPlace(g, sum, popops::mul(g, i, 100u, body), body);
    return body;
  }));
  test.Show("loops", sum);
  for (const Type& type : {INT, UNSIGNED_INT}) {
    const Tensor count = test.Copied(test.Variable(type, {}, {50}));
    const Tensor total = test.Copied(test.Variable(type, {}, {0}));
    Sequence body;
    popops::addInPlace(g, total, count, body);
    p.add(popops::countedForLoop(g, count, 0, test.Variable(type, {}, {10}), 2, body));
    p.add(popops::countedForLoop(g, 3, test.Variable(type, {}, {1}), -1, body));
    test.Show("for " + type.toString(), total);
  }
  Refused([&] { popops::countedLoop(g, 0, 4, 0, [](const Tensor&) { return Sequence(); }); }, "must be positive");
  Refused([&] { popops::countedForLoop(g, 0, sum.broadcast(2, 0), 1, Sequence()); }, "counter and limit are scalars");
}

}  // namespace

int main() {
  const Device device = SmallDevice();
  TestRegions(device.getTarget());
  TestMappings(device);
  Test test(device);
  TestReductions(test);
  TestScaledAdd(test);
  TestEncodings(test);
  TestLoops(test);
  test.Run();
}
