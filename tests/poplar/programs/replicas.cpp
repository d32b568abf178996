// Replicas, functions of the host, and several IPUs, with numbers worked out by hand.
#include <poplar/IPUModel.hpp>
#include <poplar/Program.hpp>
#include <popops/ElementWise.hpp>
#include <popops/codelets.hpp>
#include <poputil/Util.hpp>

#include "check.h"
#include "engines.h"

using namespace poplar;
using namespace poplar::program;

namespace {

using Ints = std::vector<int>;

constexpr unsigned kTiles = 16;  // Of an IPU.

Device Ipus(unsigned count, unsigned tiles = kTiles) {
  IPUModel model;
  model.numIPUs = count;
  model.tilesPerIPU = tiles;
  return model.createDevice();
}

// A graph of two replicas whose tensors the host may write, too.
struct Two {
  Device device = Ipus(2);
  Graph graph{device, replication_factor(2)};

  Tensor Add(const std::string& name, std::vector<std::size_t> shape, Type type = INT) {
    Tensor tensor = Variable(graph, type, shape, name);
    graph.createHostWrite(name + " written", tensor);
    return tensor;
  }
  Tensor Index() {
    const Tensor index = graph.addReplicationIndexConstant("index");
    graph.setTileMapping(index, 3);
    return index;
  }
};

void Write(Engine& engine, const std::string& name, const Ints& values) {
  engine.writeTensor(name + " written", values.data(), values.data() + values.size());
}

void TestShares() {
  Two two;
  CHECK(two.graph.getReplicationFactor() == 2 && two.graph.getTopLevelGraph().getReplicationFactor() == 2);
  CHECK(two.graph.getTarget().getNumIPUs() == 1 && two.graph.getTarget().getNumTiles() == kTiles);
  CHECK(two.graph.createVirtualGraph(2, 6).getReplicationFactor() == 2);
  const Graph half(Ipus(1), replication_factor(2));
  CHECK(half.getTarget().getNumIPUs() == 1 && half.getTarget().getNumTiles() == kTiles / 2);
  const Graph pair(Ipus(4).getTarget(), replication_factor(2));
  CHECK(pair.getTarget().getNumIPUs() == 2 && pair.getTarget().getTilesPerIPU() == kTiles);
}

// Each replica has variables, vertices and a number of its own.
void TestVariables() {
  Two two;
  two.graph.addCodelets("codelets.cpp");
  popops::addCodelets(two.graph);
  const Tensor x = two.Add("x", {3});
  const Tensor sum = two.Add("sum", {1});
  const Tensor place = two.Add("place", {2}, UNSIGNED_INT);
  two.graph.setInitialValue(sum, 5);
  const ComputeSet set = two.graph.addComputeSet("set");
  two.graph.setTileMapping(two.graph.addVertex(set, "tests::IntAdder", {{"rows", x.expand({0})}, {"sums", sum}}), 1);
  Sequence prog;
  prog.add(Execute(set));
  const Tensor index = two.Index();
  prog.add(Copy(popops::add(two.graph, index, index, prog).expand({0}), place.slice(0, 1)));
  prog.add(Copy(index.expand({0}), place.slice(1, 2)));
  Engine engine = Stored(two.graph, {prog});
  engine.load(two.device);
  CHECK(Read<int>(engine, "sum", 2) == (Ints{5, 5}));
  Write(engine, "x", {1, 2, 3, 4, 5, 6});
  engine.run();
  CHECK(Read<int>(engine, "sum", 2) == (Ints{6, 15}));
  CHECK(Read<unsigned>(engine, "place", 4) == (std::vector<unsigned>{0, 0, 2, 1}));
}

void TestStreams() {
  Two two;
  const Tensor x = two.Add("x", {2});
  const Tensor y = two.Add("y", {1});
  const DataStream in = two.graph.addHostToDeviceFIFO("in", INT, 2);
  const DataStream all = two.graph.addHostToDeviceFIFO("all", INT, 1, ReplicatedStreamMode::BROADCAST);
  const DataStream out = two.graph.addDeviceToHostFIFO("out", INT, 2);
  CHECK(all.replicatedMode() == ReplicatedStreamMode::BROADCAST);
  Engine engine = Stored(two.graph, {Sequence(Copy(in, x), Copy(all, y), Copy(x.reverse(0), out))});
  engine.load(two.device);
  Ints source{1, 2, 3, 4, 5, 6, 7, 8};
  Ints same{10, 20};
  Ints found(8);
  engine.connectStream("in", source.data(), source.data() + 8);
  engine.connectStream("all", same.data(), same.data() + 2);
  engine.connectStream("out", found.data(), found.data() + 8);
  engine.run();
  CHECK(Read<int>(engine, "x", 4) == (Ints{1, 2, 3, 4}) && Read<int>(engine, "y", 2) == (Ints{10, 10}));
  engine.run();
  CHECK(found == (Ints{2, 1, 4, 3, 6, 5, 8, 7}) && Read<int>(engine, "y", 2) == (Ints{20, 20}));
  engine.connectStream("in", source.data());
  engine.run();
  engine.run();
  CHECK(Read<int>(engine, "x", 4) == (Ints{1, 2, 3, 4}));
  // Callbacks: one for both replicas, one for each, and one of a broadcast.
  int calls = 0;
  const auto count = [&](void* p) { static_cast<int*>(p)[0] = ++calls; };
  engine.connectStreamToCallback("in", count);
  engine.connectStreamToCallback("all", [](void* p) { static_cast<int*>(p)[0] = -1; });
  Ints sent;
  for (unsigned replica = 0; replica < 2; ++replica) {
    engine.connectStreamToCallback("out", replica, [&sent, replica](void* p) {
      sent.push_back(static_cast<int>(replica));
      sent.push_back(static_cast<int*>(p)[1]);
    });
  }
  engine.run();
  CHECK(sent == (Ints{0, 1, 1, 2}) && Read<int>(engine, "y", 2) == (Ints{-1, -1}));
  engine.connectStreamToCallback("in", 1, [](void* p) { static_cast<int*>(p)[0] = 100; });
  engine.run();
  CHECK(Read<int>(engine, "x", 4)[0] == 3 && Read<int>(engine, "x", 4)[2] == 100);
}

void TestCrossReplicaCopy() {
  Two two;
  const Tensor x = two.Add("x", {2});
  const Tensor y = two.Add("y", {2});
  Engine engine = Stored(
      two.graph, {CrossReplicaCopy(x, x.reverse(0), {{0, 1}, {1, 0}}), CrossReplicaCopy(x, y, {{1, 0}}, "one way")});
  engine.load(two.device);
  Write(engine, "x", {1, 2, 3, 4});
  engine.run(0);
  CHECK(Read<int>(engine, "x", 4) == (Ints{4, 3, 2, 1}));
  engine.run(1);
  CHECK(Read<int>(engine, "y", 4) == (Ints{2, 1, 0, 0}));
  // Without replicas: a copy, or nothing.
  Graph graph(Ipus(1));
  const Tensor from = Variable(graph, INT, {2}, "from");
  const Tensor to = Variable(graph, INT, {2}, "to");
  graph.setInitialValue(from, Ints{1, 2});
  Engine alone(graph, {CrossReplicaCopy(from, to, {}), CrossReplicaCopy(from, to, {{0, 0}})});
  alone.load(Ipus(1));
  alone.run(0);
  CHECK(Read<int>(alone, "to", 2) == (Ints{0, 0}));
  alone.run(1);
  CHECK(Read<int>(alone, "to", 2) == (Ints{1, 2}));
}

// Replicas take branches of their own where nothing in them concerns the others.
void TestControlFlow() {
  Two two;
  two.graph.addCodelets("codelets.cpp");
  const Tensor value = two.Add("value", {});
  const Tensor log = two.Add("log", {3});
  const Tensor goes_on = two.graph.addVariable(BOOL, {}, VariableMappingMethod::LINEAR, "goes_on");
  const Tensor index = two.Index();
  const ComputeSet set = two.graph.addComputeSet("set");
  const VertexRef vertex = two.graph.addVertex(set, "tests::Increment", {{"value", value}, {"goes_on", goes_on}});
  two.graph.setInitialValue(vertex["limit"], 7);
  two.graph.setTileMapping(vertex, 0);
  const auto set_to = [&](int number, unsigned place) {
    const Tensor constant = two.graph.addConstant(INT, {}, number);
    two.graph.setTileMapping(constant, 0);
    return Copy(constant, log[place]);
  };
  Switch cases = Switch::switchWithUnreachableDefault(index);
  cases.add(0, set_to(10, 1)).add(1, set_to(11, 1));
  Engine engine = Stored(
      two.graph,
      {Sequence(RepeatWhileTrue(Execute(set), goes_on, Copy(value, log[0])), cases,
                If(index, Sequence(Execute(set), set_to(5, 2)), set_to(4, 2)), AssumeEqualAcrossReplicas(goes_on),
                If(goes_on, CrossReplicaCopy(value, value, {{0, 1}}), CrossReplicaCopy(value, value, {{1, 0}})))});
  engine.load(two.device);
  Write(engine, "value", {2, 5});
  engine.run();
  CHECK(Read<int>(engine, "log", 6) == (Ints{6, 10, 4, 6, 11, 5}));
  CHECK(Read<int>(engine, "value", 2) == (Ints{8, 8}));
}

void TestRemoteBuffers() {
  Two two;
  const Tensor x = two.Add("x", {2});
  const Tensor row = two.Add("row", {1}, UNSIGNED_INT);
  const RemoteBuffer remote = two.graph.addRemoteBuffer("remote", INT, 2, 3);
  Engine engine = Stored(two.graph, {Copy(x, remote, row), Copy(remote, x, row)});
  engine.load(two.device);
  Write(engine, "row", {1, 2});
  Write(engine, "x", {1, 2, 3, 4});
  engine.run(0);
  Ints found(2);
  engine.copyFromRemoteBuffer("remote", found.data(), 1);
  CHECK(found == (Ints{1, 2}));
  engine.copyFromRemoteBuffer("remote", found.data(), 2, 1);
  CHECK(found == (Ints{3, 4}));
  engine.copyFromRemoteBuffer("remote", found.data(), 1, 1);
  CHECK(found == (Ints{0, 0}));
  engine.copyToRemoteBuffer(Ints{8, 9}.data(), "remote", 2, 1);
  engine.run(1);
  CHECK(Read<int>(engine, "x", 4) == (Ints{1, 2, 8, 9}));
}

// What replicas print and draw: replica after replica, as tiles of one machine do, whatever the threads do.
void TestTextAndRandomNumbers() {
  const Device device = Ipus(2, 736);
  std::vector<unsigned> of_one;
  for (const unsigned replicas : {1u, 2u}) {
    Graph graph(device, replication_factor(replicas));
    graph.addCodelets("codelets.cpp");
    const unsigned tiles = graph.getTarget().getNumTiles();
    const Tensor out = Variable(graph, UNSIGNED_INT, {tiles, 20}, "out");
    const ComputeSet set = graph.addComputeSet("set");
    for (unsigned tile = 0; tile < tiles; ++tile) {
      graph.setTileMapping(graph.addVertex(set, "tests::Random", {{"out", out[tile]}}), tile);
    }
    const Tensor index = graph.addReplicationIndexConstant();
    graph.setTileMapping(index, 0);
    Engine engine(graph, Sequence(Repeat(5, Execute(set)), PrintTensor("index", index), PrintTensor(index)));
    std::ostringstream printed;
    std::ostringstream tensors;
    engine.setPrintStream(printed);
    engine.setPrintTensorStream(tensors);
    engine.loadAndRun(device);
    const std::string line = "random of 20\n";
    CHECK(printed.str().size() == 5 * 2 * 736 * line.size());
    CHECK(
        tensors.str() ==
        (replicas == 1 ? "index: 0\n0\n" : "index (replica 0): 0\nindex (replica 1): 1\nreplica 0: 0\nreplica 1: 1\n"));
    const std::vector<unsigned> now = Read<unsigned>(engine, "out", 2 * 736 * 20);
    CHECK(replicas == 1 || now == of_one);
    of_one = now;
  }
}

struct Negated : HostCallback {
  void operator()(ArrayRef<const void*> inputs, ArrayRef<void*> outputs) override {
    static_cast<int*>(outputs[0])[0] = -static_cast<const int*>(inputs[0])[0];
  }
};

void TestHostFunctions() {
  Two two;
  const Tensor x = two.Add("x", {3});
  const Tensor flag = two.Add("flag", {1}, BOOL);
  const Tensor y = two.Add("y", {3});
  const HostFunction sum = two.graph.addHostFunction("sum", {{BOOL, 1}, {INT, 2}}, {{INT, 1}, {INT, 2}});
  const HostFunction negate = two.graph.addHostFunction("negate", {{INT, 1}}, {{INT, 1}});
  const HostFunction tell = two.graph.addHostFunction("tell", {{INT, 1}}, {});
  const HostFunction give = two.graph.addHostFunction("give", {}, {Graph::HostFunctionArgument{INT, 1}});
  Engine engine = Stored(
      two.graph, {Call(sum, {flag, x.slice(0, 3).subSample(2, 0)}, {y[1], concat(y[0].expand({0}), y[2].expand({0}))}),
                  Sequence(Call(negate, {x[0]}, {y[0]}), Call(tell, {y[1]}, {}), Call(give, {}, {y[2]}))});
  engine.load(two.device);
  const auto add = [](ArrayRef<const void*> inputs, ArrayRef<void*> outputs) {
    CHECK(inputs.size() == 2 && outputs.size() == 2);
    const auto* const given = static_cast<const int*>(inputs[1]);
    static_cast<int*>(outputs[0])[0] = given[0] + given[1];
    static_cast<int*>(outputs[1])[1] = *static_cast<const bool*>(inputs[0]) ? 1 : 2;
  };
  engine.connectHostFunction("sum", 0, add);
  engine.connectHostFunction("sum", 1, add);
  Write(engine, "x", {1, 2, 3, 4, 5, 6});
  const bool flags[] = {true, false};
  engine.writeTensor("flag written", flags, flags + 2);
  engine.run(0);
  // What a function leaves as it is becomes zero.
  CHECK(Read<int>(engine, "y", 6) == (Ints{0, 4, 1, 0, 10, 2}));
  engine.connectHostFunction("negate", 0, std::make_unique<Negated>());
  Ints told;
  for (unsigned replica = 0; replica < 2; ++replica) {
    engine.connectHostFunction("tell", replica, [&told](ArrayRef<const void*> inputs, ArrayRef<void*>) {
      told.push_back(*static_cast<const int*>(inputs[0]));
    });
    engine.connectHostFunction("give", replica, [replica](ArrayRef<const void*>, ArrayRef<void*> outputs) {
      *static_cast<unsigned*>(outputs[0]) = 70 + replica;
    });
  }
  engine.connectHostFunction("negate", 1, HostCallbackHandle(std::make_unique<Negated>()));
  engine.run(1);
  CHECK(told == (Ints{4, 10}));
  CHECK(Read<int>(engine, "y", 6) == (Ints{-1, 4, 70, -4, 10, 71}));
}

// Cycles are those of replica 0; they have its copies to other replicas, and those for functions of the host.
void TestProfile() {
  Two two;
  const Tensor x = two.Add("x", {8});
  const Tensor y = two.Add("y", {8});
  const HostFunction function = two.graph.addHostFunction("tell", {{INT, 8}}, {});
  Engine engine(two.graph, Sequence(CrossReplicaCopy(x, y, {{0, 1}}), Call(function, {x}, {}),
                                    If(two.Index(), Copy(x, y), Sequence(Repeat(3, Copy(y, x))))));
  engine.load(two.device);
  for (unsigned replica = 0; replica < 2; ++replica) {
    engine.connectHostFunction("tell", replica, [](ArrayRef<const void*>, ArrayRef<void*>) {});
  }
  engine.run();
  std::ostringstream summary;
  engine.printProfileSummary(summary, {{"showExecutionSteps", "true"}});
  for (const char* words : {"copy x to y (cross-replica-copy)", "tell (outfeed)", "copy y to x (copy, 3 times)"}) {
    CHECK(summary.str().find(words) != std::string::npos);
  }
  CHECK(summary.str().find("copy x to y (copy)") == std::string::npos);
}

// Tensors on several IPUs, and graphs of some of their tiles.
void TestIpus() {
  const Device device = Ipus(4);
  Graph graph(device);
  std::vector<Graph> shards;
  for (unsigned ipu = 0; ipu < 4; ++ipu) shards.push_back(graph.createVirtualGraph(ipu * kTiles, (ipu + 1) * kTiles));
  const Tensor x = graph.addVariable(INT, {2, 2}, "x");
  graph.setInitialValue(x, Ints{1, 2, 3, 4});
  shards[1].setTileMapping(x.slice(0, 1), 5);
  shards[2].setTileMapping(x.slice(1, 2), 6);
  Sequence prog;
  const Tensor moved = poputil::copyToIpu(graph, x.transpose(), prog, 3, "moved");
  const auto mapping = graph.getTileMapping(moved);
  CHECK(mapping[3 * kTiles + 5] == (std::vector<Interval>{{0, 1}, {2, 3}}));
  CHECK(mapping[3 * kTiles + 6] == (std::vector<Interval>{{1, 2}, {3, 4}}));
  CHECK(graph.getTileMapping(poputil::cloneToIpu(graph, x, 0))[5].size() == 1);
  Tensor from;
  Tensor to;
  const Tensor prepared = poputil::createIpuCopy(graph, x, 0, from, to);
  prog.add(Copy(from, to));
  const Tensor twice = poputil::duplicate(graph, x, prog, "twice");
  CHECK(graph.getTileMapping(twice) == graph.getTileMapping(x));
  // The last two tiles of each IPU, then one tile of each but the first.
  std::vector<unsigned> tiles;
  for (unsigned ipu = 0; ipu < 4; ++ipu) tiles.insert(tiles.end(), {ipu * kTiles + 14, ipu * kTiles + 15});
  Graph last = graph.createVirtualGraph(tiles);
  CHECK(last.getTarget().getNumIPUs() == 4 && last.getTarget().getTilesPerIPU() == 2);
  Graph few = last.createVirtualGraph({3, 4, 7});
  CHECK(few.getTarget().getNumIPUs() == 3 && few.getTarget().getTilesPerIPU() == 1);
  CHECK(last.createVirtualGraph({0, 1, 2}).getTarget().getNumIPUs() == 1);
  const Tensor y = few.addVariable(INT, {3}, VariableMappingMethod::LINEAR, "y");
  CHECK(few.getTileMapping(y)[2] == (std::vector<Interval>{{2, 3}}));
  CHECK(last.getTileMapping(y)[4].size() == 1 && graph.getTileMapping(y)[3 * kTiles + 15].size() == 1);
  CHECK(shards[0].getTileMapping(y, false) == Graph::TileToTensorMapping(kTiles));
  prog.add(Copy(x.flatten().slice(1, 4), y));
  for (const auto& [name, tensor] :
       {std::pair("moved", moved), std::pair("prepared", prepared), std::pair("twice", twice), std::pair("y", y)}) {
    graph.createHostRead(name, tensor);
  }
  Engine engine(graph, prog);
  engine.loadAndRun(device);
  CHECK(Read<int>(engine, "moved", 4) == (Ints{1, 3, 2, 4}));
  CHECK(Read<int>(engine, "prepared", 4) == (Ints{1, 2, 3, 4}) && Read<int>(engine, "twice", 4) == (Ints{1, 2, 3, 4}));
  CHECK(Read<int>(engine, "y", 3) == (Ints{2, 3, 4}));
}

}  // namespace

int main() {
  TestShares();
  TestVariables();
  TestStreams();
  TestCrossReplicaCopy();
  TestControlFlow();
  TestRemoteBuffers();
  TestTextAndRandomNumbers();
  TestHostFunctions();
  TestProfile();
  TestIpus();
  std::cout << "replicas hold\n";
}
