// Codelets, control flow, streams and remote buffers of one machine, with numbers worked out by hand.
#include <array>
#include <numeric>
#include <poplar/DeviceManager.hpp>
#include <poplar/Engine.hpp>
#include <poplar/IPUModel.hpp>
#include <poplar/Program.hpp>
#include <popops/AllTrue.hpp>
#include <popops/Cast.hpp>
#include <popops/ElementWise.hpp>
#include <popops/Fill.hpp>
#include <popops/Reduce.hpp>
#include <popops/Zero.hpp>
#include <popops/codelets.hpp>
#include <poputil/TileMapping.hpp>
#include <poputil/VertexTemplates.hpp>
#include <set>
#include <sstream>

#include "check.h"
#include "engines.h"

using namespace poplar;
using namespace poplar::program;

namespace {

void TestFields(const Device& device) {
  Graph graph(device);
  graph.addCodelets("codelets.cpp");
  const Tensor in = Variable(graph, FLOAT, {9}, "in");
  const Tensor out = Variable(graph, FLOAT, {8}, "out");
  const Tensor half = Variable(graph, HALF, {2}, "half");
  graph.setInitialValue(in, std::vector<float>{0, 1, 2, 3, 4, 5, 6, 7, 8});
  const ComputeSet set = graph.addComputeSet("scale");
  const auto scale = [&](const std::string& type, const Tensor& from, const Tensor& to) {
    const VertexRef vertex = graph.addVertex(set, type, {{"in", from}, {"out", to}, {"factor", 10}});
    graph.setInitialValue(vertex["offsets"], ArrayRef<int>({1, 2}));
    graph.setTileMapping(vertex, 3);
  };
  // From an odd place, so that the edge is not aligned as the codelet asks, and of every second element.
  scale("tests::Scale<float, Mode::PLAIN>", in.slice(1, 5), out.slice(0, 4));
  scale("tests::Scale<float,Mode::DOUBLED>", in.slice(0, 7).subSample(2, 0), out.slice(4, 8));
  const Tensor constant = graph.addConstant<float>(HALF, {2}, {0.5f, 1.5f});
  graph.setTileMapping(constant, 5);
  scale(poputil::templateVertex("tests::Scale", HALF, "Mode::PLAIN"), constant, half);
  const Tensor rows = Variable(graph, INT, {3, 4}, "rows");
  const Tensor sums = Variable(graph, INT, {3}, "sums");
  const Tensor sum = Variable(graph, INT, {1}, "sum");
  std::vector<int> numbers(12);
  std::iota(numbers.begin(), numbers.end(), 0);
  graph.setInitialValue(rows, numbers);
  const VertexRef adder =
      graph.addVertex(set, "tests::IntAdder", {{"rows", rows.transpose().slice(0, 3)}, {"sums", sums}});
  graph.setTileMapping(adder, 0);
  const VertexRef list = graph.addVertex(set, "tests::ListAdder");
  graph.connect(list["rows"], {rows[0], rows[2].slice(1, 3)});
  graph.connect(list["sum"], sum[0]);
  graph.setTileMapping(list, 1);
  const Tensor data = Variable(graph, INT, {8}, "data");
  const VertexRef workers = graph.addVertex(set, "tests::Workers", {{"data", data}});
  graph.setTileMapping(workers, 2);
  const Tensor pairs = Variable(graph, FLOAT, {4}, "pairs");
  graph.setInitialValue(pairs, std::vector<float>{1, 2, -3, 4});
  const VertexRef pair = graph.addVertex(set, "tests::Pairs", {{"data", pairs}});
  graph.setTileMapping(pair, 7);
  const ComputeSet after = graph.addComputeSet("after");
  const VertexRef registers = graph.addVertex(after, "tests::WorkersOfRegister", {{"data", data}});
  graph.setTileMapping(registers, 2);
  Engine engine = Stored(graph, {Sequence(Execute(set), Execute(after))});
  engine.loadAndRun(device);
  CHECK(Read<float>(engine, "out", 8) == (std::vector<float>{11, 22, 31, 42, 2, 44, 82, 124}));
  const std::vector<std::uint16_t> bits = Read<std::uint16_t>(engine, "half", 2);
  std::vector<float> wide(2);
  copyDeviceHalfToFloat(device.getTarget(), bits.data(), wide.data(), 2);
  CHECK(wide == (std::vector<float>{6, 17}));
  CHECK(Read<int>(engine, "sums", 3) == (std::vector<int>{12, 15, 18}));
  CHECK(Read<int>(engine, "sum", 1)[0] == 6 + 19);
  CHECK(Read<int>(engine, "data", 8) == (std::vector<int>{0, 11, 22, 33, 44, 55, 0, 11}));
  CHECK(Read<float>(engine, "pairs", 4) == (std::vector<float>{8, 6, 12, 12}));
}

void TestControlFlow(const Device& device) {
  Graph graph(device);
  graph.addCodelets(std::vector<std::string>{"codelets.cpp"});
  const Tensor value = Variable(graph, INT, {}, "value");
  const Tensor goes_on = Variable(graph, BOOL, {}, "goes_on");
  const Tensor log = Variable(graph, INT, {6}, "log");
  const ComputeSet set = graph.addComputeSet();
  const VertexRef vertex = graph.addVertex(set, "tests::Increment", {{"value", value}, {"goes_on", goes_on}});
  graph.setInitialValue(vertex["limit"], 7u);
  graph.setTileMapping(vertex, 0);
  const Execute increment(set);
  Sequence main;
  main.add(Repeat(3, increment));
  main.add(Copy(value, log[0]));
  main.add(RepeatWhileTrue(increment, goes_on, Sequence()));
  main.add(Copy(value, log[1]));
  const auto set_to = [&](int number, unsigned place) {
    const Tensor constant = graph.addConstant(INT, {}, number);
    graph.setTileMapping(constant, 0);
    return Copy(constant, log[place]);
  };
  main.add(If(goes_on, set_to(1, 2), set_to(2, 2)));
  main.add(Switch(value, {{6, set_to(60, 3)}, {7, set_to(70, 3)}}, set_to(0, 3)));
  const Function function = graph.addFunction(set_to(5, 4));
  main.add(Call(function));
  Sequence copied = main;
  main.add(set_to(9, 5));
  Engine engine = Stored(graph, {main, copied});
  engine.load(device);
  engine.run(1);
  CHECK(Read<int>(engine, "log", 6) == (std::vector<int>{3, 7, 2, 70, 5, 0}));
  engine.load(device);
  engine.run(0);
  CHECK(Read<int>(engine, "log", 6) == (std::vector<int>{3, 7, 2, 70, 5, 9}));
}

// The exit status of a compute set: whether all of its vertices return true, on each replica and each run.
void TestExitStatus(const Device& device, const OptionFlags& options) {
  Graph graph(device);
  graph.addCodelets("codelets.cpp");
  const Tensor values = Variable(graph, INT, {6}, "values");
  const Tensor is_below = Variable(graph, BOOL, {}, "is_below");
  const Tensor count = Variable(graph, UNSIGNED_INT, {2}, "count");
  const Tensor total = Variable(graph, INT, {}, "total");
  const Tensor goes_on = Variable(graph, BOOL, {}, "goes_on");
  graph.createHostWrite("write", values);
  const ComputeSet below = graph.addComputeSet("below");
  for (unsigned i = 0; i < 6; ++i) {
    graph.setTileMapping(graph.addVertex(below, "tests::Below", {{"value", values[i]}, {"limit", 10}}), i % 4);
  }
  const ComputeSet all = graph.addComputeSet("all");
  graph.setTileMapping(graph.addVertex(all, "tests::AllBelow", {{"values", values}, {"limit", 10}}), 5);
  const ComputeSet nothing = graph.addComputeSet("nothing");
  const VertexRef vertex = graph.addVertex(nothing, "tests::Increment", {{"value", total}, {"goes_on", goes_on}});
  graph.setInitialValue(vertex["limit"], 2);
  graph.setTileMapping(vertex, 0);
  const Sequence prog(Execute(below, is_below), Execute(all, count[1], "all"), Execute(nothing, count[0]));
  Engine engine = Stored(graph, {prog}, options);
  engine.load(device);
  for (const int largest : {9, 10, 9}) {
    const std::vector<int> given{1, 2, 3, 4, largest, 6};
    engine.writeTensor("write", given.data(), given.data() + 6);
    engine.run();
    const bool expected = largest < 10;
    CHECK(Read<char>(engine, "is_below", 1)[0] == expected);
    CHECK(Read<unsigned>(engine, "count", 2) == (std::vector<unsigned>{1, expected}));
  }
}

struct Counter : StreamCallback {
  explicit Counter(int* calls) : calls(calls) {}
  void fetch(void* __restrict p) override {
    for (int i = 0; i < 2; ++i) static_cast<int*>(p)[i] = 100 * *calls + i;
  }
  void complete() override { ++*calls; }
  int* calls;
};

void TestStreams(const Device& device) {
  Graph graph(device);
  const Tensor a = Variable(graph, INT, {2}, "a");
  const Tensor b = Variable(graph, INT, {2}, "b");
  const Tensor row = Variable(graph, UNSIGNED_INT, {1}, "row");
  graph.setInitialValue(row, 2u);
  graph.createHostWrite("a-write", a);
  const DataStream in = graph.addHostToDeviceFIFO("in", INT, 2);
  const DataStream called = graph.addHostToDeviceFIFO("called", INT, 2);
  const DataStream out = graph.addDeviceToHostFIFO("out", INT, 2);
  const RemoteBuffer remote = graph.addRemoteBuffer("remote", INT, 2, 3);
  Engine engine(graph,
                {Sequence(Copy(in, a), Copy(a.reverse(0), out)), Sequence({Copy(called, b)}),
                 Sequence(Copy(a, remote, row), Copy(remote, b, row)), Copy(concat(a.slice(1, 2), a.slice(0, 1)), a)});
  engine.load(device);
  std::vector<int> source{1, 2, 3, 4, 5, 6};
  std::vector<int> found(6, 0);
  engine.connectStream("in", source.data(), source.data() + 6);
  engine.connectStream("out", found.data(), found.data() + 6);
  for (int i = 0; i < 4; ++i) engine.run(0);
  CHECK(found == (std::vector<int>{2, 1, 4, 3, 6, 5}));
  int calls = 0;
  engine.connectStreamToCallback("called", std::make_unique<Counter>(&calls));
  engine.run(1);
  engine.run(1);
  CHECK(Read<int>(engine, "b", 2) == (std::vector<int>{100, 101}));
  engine.connectStreamToCallback("called", [](void* p) { static_cast<int*>(p)[0] = -1; });
  engine.run(1);
  CHECK(Read<int>(engine, "b", 2)[0] == -1);
  const std::vector<int> given{7, 8};
  engine.writeTensor("a-write", given.data(), given.data() + 2);
  std::vector<int> written(2);
  engine.readTensor("a", written.data());
  CHECK(written == given);
  engine.run(2);
  CHECK(Read<int>(engine, "b", 2) == given);
  std::vector<int> kept(2);
  engine.copyFromRemoteBuffer("remote", kept.data(), 2);
  CHECK(kept == given);
  engine.copyToRemoteBuffer(std::vector<int>{5, 6}, "remote", 2);
  engine.copyFromRemoteBuffer("remote", kept, 2);
  CHECK(kept == (std::vector<int>{5, 6}));
  engine.copyToRemoteBuffer(ArrayRef<int>(given), "remote", 2);
  std::array<int, 2> row_of_two{};
  engine.copyFromRemoteBuffer("remote", row_of_two, 2);
  CHECK(row_of_two[0] == given[0] && row_of_two[1] == given[1]);
  engine.run(3);
  CHECK(Read<int>(engine, "a", 2) == (std::vector<int>{8, 7}));
}

// The same random numbers and the same text, in the order of tiles, whatever the threads do.
void TestDeterminism(const Device& device) {
  std::string first_text;
  std::vector<unsigned> first;
  for (int again = 0; again < 2; ++again) {
    Graph graph(device);
    graph.addCodelets("codelets.cpp");
    const Tensor out = Variable(graph, UNSIGNED_INT, {1472, 20}, "random");
    const ComputeSet set = graph.addComputeSet("random");
    for (unsigned tile = 0; tile < 1472; ++tile) {
      const VertexRef vertex = graph.addVertex(set, "tests::Random", {{"out", out[tile].slice(tile % 7, 20)}});
      graph.setTileMapping(vertex, 1471 - tile);
    }
    Engine engine(graph, Repeat(5, Execute(set)));
    std::ostringstream text;
    engine.setPrintStream(text);
    engine.loadAndRun(device);
    const std::vector<unsigned> now = Read<unsigned>(engine, "random", 1472 * 20);
    if (again == 0) first = now, first_text = text.str();
    CHECK(now == first && text.str() == first_text);
    CHECK(text.str().rfind("random of 19\nrandom of 20\n", 0) == 0);
    // No tile has the numbers of another: of the 29,440 places 25,025 are written.
    CHECK(std::set<unsigned>(now.begin(), now.end()).size() > 25'000);
  }
}

void TestPopops(const Device& device) {
  Graph graph(device);
  popops::addCodelets(graph);
  const Tensor a = Variable(graph, FLOAT, {2, 3}, "a");
  const Tensor b = Variable(graph, FLOAT, {3}, "b");
  graph.setInitialValue(a, std::vector<float>{1, 2, 3, 4, 5, 6});
  graph.setInitialValue(b, std::vector<float>{10, 20, 30});
  Sequence prog;
  const Tensor sum = popops::add(graph, a, b, prog, "sum");
  popops::addInPlace(graph, sum, 0.5f, prog);
  const Tensor rows = popops::reduce(graph, sum, {1}, popops::Operation::ADD, prog, "rows");
  const Tensor most = popops::reduce(graph, sum, {0, 1}, popops::ReduceParams(popops::Operation::MAX), prog, "most");
  const Tensor whole = popops::cast(graph, sum, INT, prog, "whole");
  popops::zero(graph, b, prog);
  const Tensor filled = Variable(graph, HALF, {5}, "filled");
  popops::fill(graph, filled, prog, 1.5f);
  for (const auto& [name, tensor] : {std::pair("all of a", a), std::pair("all of b", b)}) {
    graph.createHostRead(name, popops::allTrue(graph, popops::cast(graph, tensor, INT, prog), prog));
  }
  graph.createHostRead("sum", sum);
  graph.createHostRead("rows", rows);
  graph.createHostRead("most", most);
  graph.createHostRead("whole", whole);
  std::vector<ComputeSet> sets;
  popops::reduceWithOutput(graph, a, b, {0}, {popops::Operation::ADD, true}, sets);
  for (const ComputeSet& one : sets) prog.add(Execute(one));
  Engine engine(graph, prog);
  engine.loadAndRun(device);
  CHECK(Read<float>(engine, "sum", 6) == (std::vector<float>{11.5, 22.5, 33.5, 14.5, 25.5, 36.5}));
  CHECK(Read<float>(engine, "rows", 2) == (std::vector<float>{67.5, 76.5}));
  CHECK(Read<float>(engine, "most", 1)[0] == 36.5);
  CHECK(Read<int>(engine, "whole", 6) == (std::vector<int>{11, 22, 33, 14, 25, 36}));
  CHECK(Read<float>(engine, "b", 3) == (std::vector<float>{5, 7, 9}));
  CHECK(Read<std::uint16_t>(engine, "filled", 5) == std::vector<std::uint16_t>(5, 0x3e00));
  CHECK(Read<char>(engine, "all of a", 1)[0] == 1 && Read<char>(engine, "all of b", 1)[0] == 0);
}

void TestTargets() {
  CHECK(IPUModel().createDevice().getTarget().getNumTiles() == 1472);
  CHECK(IPUModel("ipu1").createDevice().getTarget().getBytesPerTile() == 256 * 1024);
  const DeviceManager manager = DeviceManager::createDeviceManager();
  const std::vector<Device> devices = manager.getDevices(TargetType::IPU, 4);
  CHECK(!devices.empty() && devices[0].attach() && devices[0].getTarget().getNumTiles() == 4 * 1472);
  CHECK(manager.getDevices(TargetType::IPU, 3).empty());
  CHECK(devices[0].getTarget().getVectorWidth(HALF) == 4);
  Graph graph(devices[0]);
  Graph second = graph.createVirtualGraph(1472, 2 * 1472);
  const Tensor tensor = second.addVariable(FLOAT, {2}, VariableMappingMethod::LINEAR, "x");
  CHECK(second.getTileMapping(tensor)[0].size() == 1 && graph.getTileMapping(tensor)[1472].size() == 1);
}

// The texts of a graph with one vertex, in the order of the arguments.
void PrintGraph(const Device& device) {
  Graph graph(device);
  graph.addCodelets("codelets.cpp");
  const Tensor x = graph.addVariable(INT, {8}, "x \"quoted\"");
  graph.setTileMapping(x.slice(0, 4), 7);
  const ComputeSet set = graph.addComputeSet("set");
  graph.setTileMapping(graph.addVertex(set, "tests::Workers", {{"data", x.slice(2, 6)}}), 3);
  graph.serialize(std::cout, SerializationFormat::JSON);
  std::cout << "---\n";
  graph.outputVertexGraph(std::cout);
  std::cout << "---\n";
  graph.outputComputeGraph(std::cout);
}

}  // namespace

int main(int argc, char**) {
  const Device device = IPUModel().createDevice();
  if (argc > 1) {
    PrintGraph(device);
    return 0;
  }
  TestTargets();
  TestFields(device);
  TestControlFlow(device);
  TestExitStatus(device, {});
  TestExitStatus(device, {{"debug.instrument", "true"}, {"cycles", "instructions"}});
  TestStreams(device);
  TestDeterminism(device);
  TestPopops(device);
  std::cout << "the machine holds\n";
}
