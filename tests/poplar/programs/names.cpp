// Every name of the host's API and of the device's headers that published programs use, or that is documented with its
// signature: each is called once, and checked where a number comes back.
#include <cmath>
#include <memory>
#include <poplar/ArrayRef.hpp>
#include <poplar/CSRFunctions.hpp>
#include <poplar/CodeletFileType.hpp>
#include <poplar/CycleCount.hpp>
#include <poplar/DataStream.hpp>
#include <poplar/DebugContext.hpp>
#include <poplar/Device.hpp>
#include <poplar/DeviceManager.hpp>
#include <poplar/Engine.hpp>
#include <poplar/Executable.hpp>
#include <poplar/Graph.hpp>
#include <poplar/GraphElements.hpp>
#include <poplar/IPUModel.hpp>
#include <poplar/Interval.hpp>
#include <poplar/OptionFlags.hpp>
#include <poplar/PerfEstimateFunc.hpp>
#include <poplar/PrintTensor.hpp>
#include <poplar/ProfileValue.hpp>
#include <poplar/Program.hpp>
#include <poplar/StreamCallback.hpp>
#include <poplar/StringRef.hpp>
#include <poplar/SyncType.hpp>
#include <poplar/Target.hpp>
#include <poplar/TargetType.hpp>
#include <poplar/Tensor.hpp>
#include <poplar/TensorCloneMethod.hpp>
#include <poplar/Type.hpp>
#include <poplar/VariableMappingMethod.hpp>
#include <poplar/VariableRef.hpp>
#include <poplar/VertexIntrospector.hpp>
#include <poplar/exceptions.hpp>
#include <popops/ElementWise.hpp>
#include <popops/codelets.hpp>
#include <poputil/TileMapping.hpp>
#include <poputil/VertexTemplates.hpp>
#include <poputil/exceptions.hpp>
#include <sstream>

#include "check.h"

using namespace poplar;
using namespace poplar::program;

namespace {

using Floats = std::vector<float>;
using Ints = std::vector<int>;
using Shape = std::vector<std::size_t>;

void TestDevices() {
  IPUModel model("ipu2");
  CHECK(model.IPUVersion == "ipu2" && model.numIPUs == 1 && model.tilesPerIPU == 1472);
  CHECK(model.numWorkerContexts == 6 && model.memoryBytesPerTile == 638976);
  CHECK(model.tileClockFrequency == 1.33e9 && model.exchangeBytesPerCycle == 4 && !model.compileIPUCode);
  CHECK(model.memcpyBytesPerCycle == 8);
  model.memcpyBytesPerCycle = 16;
  model.minIPUSyncDelay = 70;
  model.globalSyncCycles = 600;
  model.relativeSyncDelay = IPUModel::RelativeSyncDelayType::NO_DELAY;
  model.relativeSyncDelay = IPUModel::RelativeSyncDelayType::AUTO;
  model.tilesPerIPU = 8;
  const Device small = model.createDevice(OptionFlags{}, false, 3);
  CHECK(small.getId() == 3 && small.getTarget().getNumTiles() == 8);
  CHECK(small.getTarget().getMemcpyBytesPerCycle() == 16 && small.getTarget().getMinIPUSyncDelay() == 70);
  CHECK(small.getTarget().getGlobalSyncCycles() == 600);
  DeviceManager manager = DeviceManager::createDeviceManager();
  CHECK(manager.getNumDevices() == manager.getDevices().size());
  CHECK(manager.getDevices(TargetType::IPU_MODEL, 1).size() == 1 && manager.getDevices(TargetType::CPU, 1).size() == 1);
  Device device = manager.getDevice(0);
  CHECK(device.attach() && device.isAttached());
  device.detach();
  CHECK(manager.acquireAvailableDevice(2).getTarget().getNumIPUs() == 2);
  CHECK(device.createVirtualDevice(4).getTarget().getTilesPerIPU() == 4);
  const Target& target = device.getTarget();
  CHECK(target.getTargetType() == TargetType::IPU && target.getNumIPUs() == 1 && target.getTilesPerIPU() == 1472);
  CHECK(target.getNumWorkerContexts() == 6 && target.getBytesPerTile() == 638976);
  CHECK(target.getMemoryBytes() == 638976ull * 1472 && target.getTileClockFrequency() == 1.33e9);
  CHECK(target.getTypeSize(HALF) == 2 && target.getVectorWidth(FLOAT) == 2 && target.getDataPathWidth() == 64);
  CHECK(target.getFloatVectorWidth() == 2 && target.getHalfVectorWidth() == 4);
  CHECK(target.getMemcpyBytesPerCycle() == 8 && target.getMinIPUSyncDelay() == 94);
  CHECK(target.getExchangeBytesPerCycle() == 4 && target.getTargetArchString() == "ipu2");
  CHECK(target.getTargetSystemString() == "ipu2");
  CHECK(target.getNumConvUnits(HALF, FLOAT) == 16 && target.getNumConvUnits(INT, INT) == 0);
  CHECK(Target::createIPUTarget(2, "ipu1").getNumTiles() == 2 * 1216);
  CHECK(Target::createIPUTarget(1, "IPU-POD16", {{"ipuLinkDomainSize", "64"}}).getNumTiles() == 1472);
  CHECK(Target::createIPUTarget(1, 4, "BOW-POD16").getTileClockFrequency() == 1.85e9);
  CHECK(Target::createCPUTarget(true, 1).getNumTiles() == 1 && target == device.getTarget());
}

void TestTypes(const Target& target) {
  for (const Type& type : {BOOL, CHAR, UNSIGNED_CHAR, SIGNED_CHAR, SHORT, UNSIGNED_SHORT, INT, UNSIGNED_INT, LONG,
                           UNSIGNED_LONG, LONGLONG, UNSIGNED_LONGLONG, HALF, FLOAT}) {
    std::ostringstream text;
    text << type;
    CHECK(text.str() == type.toString());
  }
  CHECK(equivalent_device_type<float>().value == FLOAT && equivalent_device_type<unsigned>().value == UNSIGNED_INT);
  const Floats wide{0.5f, -2.0f};
  std::vector<std::uint16_t> bits(2);
  Floats back(2);
  copyFloatToDeviceHalf(target, wide.data(), bits.data(), 2);
  copyDeviceHalfToFloat(target, bits.data(), back.data(), 2);
  CHECK(back == wide && bits[0] == 0x3800);
  OptionFlags options{{"a", "1"}};
  options.set("b", "2");
  options.set({{"c", "3"}});
  CHECK(options.at("c") == "3" && options.find("d") == options.end() && options.begin()->first == "a");
  readJSON("{\"d\": true, \"e\": \"x\"}", options);
  std::istringstream json("{\"f\": 1}");
  readJSON(json, options);
  CHECK(options.at("d") == "true" && options.at("e") == "x" && options.at("f") == "1" && versionString() == "3.3.0");
  options.clear();
  CHECK(options == OptionFlags());
  const Interval interval(2, 5);
  CHECK(interval.begin() == interval.lower() && interval.end() == interval.upper() && interval.size() == 3);
  CHECK(poputil::templateVertex("ns::T", FLOAT, true, 3u) == "ns::T<float,true,3>");
}

Tensor Mapped(Graph& graph, const Type& type, const Shape& shape, const std::string& name) {
  Tensor tensor = graph.addVariable(type, shape, VariableMappingMethod::LINEAR, name);
  graph.createHostRead(name, tensor);
  graph.createHostWrite(name, tensor);
  return tensor;
}

void TestTensors(const Device& device) {
  Graph graph(device.getTarget(), replication_factor(1));
  CHECK(graph.getReplicationFactor() == 1 && graph.getTarget() == device.getTarget());
  const Tensor t = graph.addVariable(FLOAT, {2, 3, 4}, DebugContext("t"));
  poputil::mapTensorLinearly(graph, t, 1, 1);
  CHECK(t.valid() && !Tensor().valid() && t.rank() == 3 && t.dim(1) == 3 && t.numElements() == 24);
  CHECK(t.elementType() == FLOAT && t.shapeToString() == "{2,3,4}");
  CHECK(t[1].shape() == (Shape{3, 4}) && t.index({1, 2}).shape() == (Shape{4}));
  CHECK(t.slice(1, 3, 1).shape() == (Shape{2, 2, 4}) && t.slice({0, 1}, {1, 3}).shape() == (Shape{1, 2, 4}));
  CHECK(t.slice(Interval(1, 2)).numElements() == 12 && t.slices({Interval(0, 1), Interval(1, 2)}).size() == 2);
  const std::vector<std::vector<Interval>> lists{{Interval(0, 1), Interval(2, 3)}, {}};
  CHECK(t.slices(lists, 1)[0].shape() == (Shape{2, 2, 4}) && t.slices(lists, 1)[1].numElements() == 0);
  CHECK(t.flatten().shape() == (Shape{24}) && t.flatten(1, 3).shape() == (Shape{2, 12}));
  CHECK(t.reshape({6, 4}).dim(0) == 6 && t.reshapePartial(0, 2, {3, 2}).shape() == (Shape{3, 2, 4}));
  CHECK(t.dimShuffle({2, 0, 1}).shape() == (Shape{4, 2, 3}) && t.dimShufflePartial({0}, {2}).dim(2) == 2);
  CHECK(t.dimRoll(2).shape() == (Shape{4, 2, 3}) && t.transpose().shape() == (Shape{2, 4, 3}));
  CHECK(t.reverse(0)[0] == t[1] && t.reverse(0) != t && t.expand({0, 3}).shape() == (Shape{1, 2, 3, 4, 1}));
  CHECK(t.expand({0}).squeeze({0}) == t && t.expand({0}).squeeze() == t);
  CHECK(t.broadcast(2, 0).dim(0) == 4 && t.subSample(2, 2).dim(2) == 2);
  CHECK(t.upsample(2, 1, UpsampleMethod::REPEAT).slice(0, 1, 1) == t.slice(0, 1, 1));
  CHECK(t.reinterpret(INT).elementType() == INT && t.isContiguous() && !t[0].transpose().isContiguous());
  CHECK(t.broadcast(2, 0).containsAliases() && !t.containsConstant() && t.isParallelWriteable());
  CHECK(t[0].intersectsWith(t) && !t[0].intersectsWith(t[1]));
  CHECK(t.slice(0, 2, 2).getContiguousRegions().size() == 6);
  const std::vector<VariableInterval> regions = t[1].getVarRegions();
  CHECK(regions.size() == 1 && regions[0].interval == Interval(12, 24) && regions[0].var == t.getVarRegions()[0].var);
  CHECK(concat(t, t, 1).dim(1) == 6 && concat({t, t, t}).dim(0) == 6 && append(t, t[0], 0).dim(0) == 3);
  std::ostringstream text;
  text << t;
  CHECK(text.str() == t.getDebugStr() && text.str() == "t {2,3,4} float");
  // Order and copies.
  CHECK(graph.clone(t).shape() == t.shape() && graph.clone(INT, t, "c").elementType() == INT);
  CHECK(graph.cloneN(t, 3).shape() == (Shape{6, 3, 4}) && graph.cloneN(INT, t, 2, "n").elementType() == INT);
  CHECK(graph.getTileMapping(graph.cloneN(t, 1)) == graph.getTileMapping(t));
  const Tensor columns = t[0].transpose().flatten();
  const auto groups = graph.getSortedContiguousRegions(columns, {Interval(0, columns.numElements())});
  CHECK(groups.size() == 1 && groups[0].size() == 12 && groups[0][1] == Interval(3, 4));
  const Tensor twice = concat(columns, t[0].flatten());
  const std::vector<Interval> all{Interval(0, 24)};
  CHECK(graph.getSortedContiguousRegions(twice, all).size() == 3);
  CHECK(graph.getSortedContiguousRegions(twice, all, true).size() == 1);
  Tensor simple = columns;
  Tensor other = t[1].transpose().flatten();
  graph.reorderToSimplify(&simple, {&other});
  CHECK(simple == t[0].flatten() && other == t[1].flatten());
  CHECK(graph.findUnbroadcastTensor(t.slice(0, 1).broadcast(5, 0)) == t.slice(0, 1));
  // Mappings.
  graph.setTileMapping(t, graph.getTileMapping(t));
  CHECK(poputil::calcLinearTileMapping(graph, t).size() == 1472);
  Graph part = graph.createVirtualGraph(4, 8);
  CHECK(part.getTarget().getNumTiles() == 4 && part.getTopLevelGraph().getTarget().getNumTiles() == 1472);
}

VertexPerfEstimate EstimateScale(const VertexIntrospector& vertex, const Target& target) {
  const FieldData out = vertex.getFieldInfo("out");
  CHECK(out.rank() == 1 && vertex.getFieldInfo("offsets").getInitialValues<int>(target) == (Ints{1, 2}));
  CHECK(vertex.getFieldInfo("factor").getInitialValue<float>(target) == 10);
  return {100 + out.size(), 2 * out.size()};
}

VertexPerfEstimate EstimateRows(const VertexIntrospector& vertex, const Target&) {
  const FieldData rows = vertex.getFieldInfo("rows");
  CHECK(rows.rank() == 2 && rows.size() == 2 && rows[1].size() == 2 && rows.getSizeAtIndex(0) == 4);
  return 50;
}

// Vertices of all kinds of fields, with what a graph says of them.
void TestVertices(const Device& device) {
  Graph graph(device);
  CHECK(graph.addCodelets("codelets.cpp", CodeletFileType::Auto));
  CHECK(graph.addCodelets(std::vector<std::string>{"device_codelets.cpp"}));
  std::stringstream source(
      "#include <poplar/Vertex.hpp>\nclass Nothing : public poplar::Vertex { public: void "
      "compute() {} };\n");
  graph.addCodelets(source, "-O3 -DUNUSED");
  CHECK(graph.hasCodelet("Nothing") && graph.hasCodelet("tests::Workers") && !graph.hasCodelet("Other"));
  CHECK(graph.getMaxVertexFieldValue("tests::Increment", "limit") == 2147483647.0);
  CHECK(graph.getMaxFieldDim("Layouts", "short_span", 0) == 2047 && graph.getMaxFieldDim("Layouts", "rows", 1) > 4e9);
  graph.registerPerfEstimator("tests::Scale<float, Mode::PLAIN>", EstimateScale);
  graph.registerPerfEstimator("tests::ListAdder", EstimateRows);
  const Tensor out = Mapped(graph, FLOAT, {4}, "out");
  const Tensor in = graph.addConstant<float>(FLOAT, {4}, {1, 2, 3, 4}, "in");
  graph.setTileMapping(in, 0);
  const ComputeSet scale = graph.addComputeSet("scale");
  const VertexRef scaled = graph.addVertex(scale, "tests::Scale<float,Mode::PLAIN>", {{"in", in}, {"out", out}});
  graph.setInitialValue(scaled["factor"], 10.0f);
  graph.setInitialValue(scaled["offsets"], ArrayRef<int>({1, 2}));
  graph.setTileMapping(scaled, 1);
  const ComputeSet add = graph.addComputeSet("add");
  const VertexRef adder = graph.addVertex(add, "tests::ListAdder");
  const Tensor numbers = Mapped(graph, INT, {6}, "numbers");
  const Tensor sum = Mapped(graph, INT, {}, "sum");
  graph.setInitialValue(numbers, Ints{1, 2, 3, 4, 5, 6});
  graph.setFieldSize(adder["rows"], 2);
  graph.connect(adder["rows"][0], numbers.slice(0, 4));
  graph.connect(adder["rows"][1], numbers.slice(4, 6));
  graph.connect(adder["sum"], sum);
  graph.setTileMapping(adder, 2);
  const ComputeSet last = graph.addComputeSet("last");
  const VertexRef nothing = graph.addVertex(last, "Nothing");
  graph.setTileMapping(nothing, 3);
  graph.setPerfEstimate(nothing, 7, 1);
  graph.setCycleEstimate(nothing, 8);
  Sequence prog{Execute(scale), Execute(add), Execute(last)};
  const Tensor cycles = cycleCount(graph, prog, 0, SyncType::INTERNAL, "cycles");
  const Tensor stamp = cycleStamp(graph, prog, 0, SyncType::EXTERNAL);
  graph.createHostRead("cycles", cycles);
  graph.createHostRead("stamp", stamp);
  Engine engine(graph, prog, {{"debug.instrument", "true"}});
  engine.loadAndRun(device);
  Floats found(4);
  engine.readTensor("out", found.data(), found.data() + 4);
  CHECK(found == (Floats{11, 22, 31, 42}));
  int total = 0;
  engine.readTensor("sum", &total);
  CHECK(total == 21);
  std::uint32_t counted[2] = {};
  engine.readTensor("cycles", counted, counted + 2);
  // Six workers: 104, 50 and 8 slots.
  CHECK(counted[0] > 6 * (104 + 50 + 8) && counted[1] == 0);
  engine.readTensor("stamp", counted, counted + 2);
  CHECK(counted[0] > 6 * (104 + 50 + 8));
  std::ostringstream text;
  engine.printProfileSummary(text, {{"showExecutionSteps", "true"}});
  CHECK(text.str().find("last") != std::string::npos);
  serializeToJSON(text, engine.getGraphProfile());
  serializeToJSON(text, engine.getExecutionProfile(), true);
  engine.disableExecutionProfiling();
  engine.enableExecutionProfiling();
  engine.resetExecutionProfile();
  std::ostringstream graphs;
  graph.serialize(graphs, SerializationFormat::JSON);
  graph.serialize(graphs, SerializationFormat::Binary);
  graph.outputVertexGraph(graphs, {prog});
  graph.outputComputeGraph(graphs);
  CHECK(graphs.str().find("Nothing") != std::string::npos);
}

struct Callback : StreamCallback {
  Result prefetch(void* __restrict) override { return Result::NotAvailable; }
  void fetch(void* __restrict p) override { *static_cast<int*>(p) = 7; }
  void complete() override {}
  void invalidatePrefetched() override {}
};

// Every program, and every way in and out of an engine.
void TestPrograms(const Device& device) {
  Graph graph(device);
  const Tensor x = Mapped(graph, INT, {1}, "x");
  const Tensor y = Mapped(graph, INT, {1}, "y");
  const Tensor yes = graph.addConstant<bool>(BOOL, {}, true);
  const Tensor no = graph.addConstant(BOOL, {}, false);
  const Tensor row = graph.addConstant<unsigned>(UNSIGNED_INT, {1}, 1u);
  const std::uint16_t halves[2] = {0x3c00, 0x4000};
  const Tensor half = concat(graph.addConstantHalf(HALF, {2}, halves), graph.addConstantHalf(HALF, {1}, 0x3800));
  for (const Tensor& one : {yes, no, row, half}) graph.setTileMapping(one, 0);
  const DataStream in = graph.addHostToDeviceFIFO("in", INT, 1, ReplicatedStreamMode::BROADCAST,
                                                  {{"bufferingDepth", "1"}, {"splitLimit", "0"}});
  const DataStream called = graph.addHostToDeviceFIFO("called", INT, 1);
  const DataStream out = graph.addDeviceToHostFIFO("out", INT, 1, {{"bufferingDepth", "1"}});
  const RemoteBuffer remote = graph.addRemoteBuffer("remote", INT, 1, 2, true, true);
  const RemoteBuffer single = graph.addRemoteBuffer("single", INT, 1);
  Sequence prog({Copy(in, x, true, "first")}, "sequence");
  prog.add(Copy(x, y, true, "copy"));
  prog.add(WriteUndef(x, "undefined"));
  prog.add(Copy(y, remote, row));
  prog.add(Copy(y, single));
  prog.add(Copy(remote, x, row, "remote"));
  prog.add(Copy(single, x));
  prog.add(Sync(SyncType::INTERNAL));
  prog.add(Sync(SyncType::EXTERNAL));
  prog.add(Sync(SyncType::GLOBAL));
  prog.add(AssumeEqualAcrossReplicas(x, "equal"));
  prog.add(Repeat(2, Copy(x, y)));
  prog.add(RepeatWhileTrue(Sequence(), no, Sequence()));
  prog.add(RepeatWhileFalse(Sequence(), yes, Sequence()));
  prog.add(If(yes, Copy(x, y), ErrorProgram("not here", x)));
  prog.add(Switch(x, {{5, Copy(x, y)}}, Abort(std::string("no other number"))));
  prog.add(Switch(x, {{5, Copy(x, y)}}));
  Switch bounded = Switch::switchWithBoundsChecking(x, {});
  bounded.add(5, Sequence());
  prog.add(bounded);
  prog.add(Switch::switchWithUnreachableDefault(x).add(5, Sequence()));
  prog.add(Call(graph.addFunction(Copy(x, y)), "call"));
  prog.add(AbortOnCondition(no, std::string("never")));
  prog.add(PrintTensor("half", half));
  prog.add(PrintTensor(x));
  prog.add(Copy(y, out));
  setFloatingPointBehaviour(graph, prog, FloatingPointBehaviour(true, true, true, false, true));
  setStochasticRounding(graph, prog, false);
  CHECK(Program().isEmpty() && !prog.isEmpty());
  Executable executable =
      compileGraph(graph, {prog, Copy(called, y)}, {{"opt.enableInlining", "true"}}, [](int, int) {}, "names");
  Engine engine(std::move(executable));
  engine.prepare(device);
  engine.deploy();
  std::ostringstream printed;
  engine.setPrintStream(printed);
  engine.setPrintTensorStream(printed);
  int sent = 5;
  Ints got(2, 0);
  engine.connectStream("in", &sent);
  engine.connectStream("out", got.data(), got.data() + 2);
  engine.connectStreamToCallback("called", std::make_unique<Callback>());
  const Engine::TimerTimePoint start = engine.getTimeStamp();
  engine.run(0, "named");
  Engine::reportTiming(start, engine.getTimeStamp(), printed);
  CHECK(got == (Ints{5, 0}) && printed.str().find("half: [1.0000000 2.0000000 0.5000000]") == 0);
  int number = 0;
  engine.copyFromRemoteBuffer("remote", &number, 1);
  CHECK(number == 5);
  number = 9;
  engine.copyToRemoteBuffer(&number, "remote", 0, 0);
  engine.run(1);
  engine.readTensor("y", &number);
  CHECK(number == 7);
  number = 3;
  engine.writeTensor("x", &number);
  engine.writeTensor("x", &number, &number + 1);
  engine.connectStreamToCallback("called", [](void* p) { *static_cast<int*>(p) = 8; });
  engine.loadAndRun(device, 1);
}

// Both classes of errors, and what belongs to them.
void TestErrors() {
  try {
    throw recoverable_runtime_error(RecoveryAction::IPU_RESET, "reset");
  } catch (const runtime_error& error) {
    CHECK(std::string(error.what()) == "reset" && error.type == "recoverable_runtime_error");
  }
  CHECK(recoverable_runtime_error(RecoveryAction::FULL_RESET, "").getRecoveryAction() == RecoveryAction::FULL_RESET);
  CHECK(toString(RecoveryAction::PARTITION_RESET) == "PARTITION_RESET");
  CHECK(unrecoverable_runtime_error("a").type == "unrecoverable_runtime_error");
  CHECK(unknown_runtime_error("a").type == "unknown_runtime_error" && graph_cycle_error("a").what()[0] == 'a');
  CHECK(poputil::poplibs_error("a").what()[0] == 'a');
}

void TestCodelets(const Device& device) {
  Graph graph(device);
  graph.addCodelets({"device_codelets.cpp", "own_vectors.cpp"});
  const ComputeSet set = graph.addComputeSet("device");
  const auto add = [&](const std::string& type) {
    const VertexRef vertex = graph.addVertex(set, type);
    graph.setTileMapping(vertex, 11);
    return vertex;
  };
  const Tensor in = Mapped(graph, FLOAT, {8}, "in");
  graph.setInitialValue(in, Floats{1, 2, 3, 4, 5, 6, 7, 0});
  const VertexRef layouts = add("Layouts");
  for (const char* field : {"span", "short_span", "one_ptr", "scaled32", "scaled64", "scaled128", "compact"}) {
    graph.connect(layouts[field], in.slice(0, 4));
  }
  const Tensor lists = Mapped(graph, FLOAT, {3}, "lists");
  const Tensor sums = Mapped(graph, FLOAT, {5}, "sums");
  graph.setInitialValue(lists, 1.5f);
  graph.connect(layouts["rows"], {in.slice(4, 8), in.slice(0, 4)});
  graph.connect(layouts["deltan"], {in.slice(7, 8), in.slice(0, 4)});
  graph.connect(layouts["elements"], in.slice(2, 6).expand({0}));
  graph.connect(layouts["lists"], {lists.slice(0, 1), lists.slice(1, 3)});
  graph.connect(layouts["sums"], sums);
  graph.setInitialValue(layouts["n"], 4);
  graph.setInitialValue(layouts["weights"], ArrayRef<float>({1, 0, 0, 2}));
  const Tensor either = Mapped(graph, INT, {2}, "either");
  graph.connect(add("Either<true>")["value"], either[0]);
  graph.connect(add("Either<false>")["value"], either[1]);
  const VertexRef intrinsics = add("Intrinsics");
  const Tensor results = Mapped(graph, FLOAT, {23}, "results");
  graph.connect(intrinsics["in"], in);
  graph.connect(intrinsics["out"], results);
  const Tensor own = Mapped(graph, FLOAT, {2}, "own");
  graph.connect(add("OwnVectors")["out"], own);
  Engine engine(graph, Execute(set));
  engine.loadAndRun(device);
  const auto read = [&](const std::string& name, std::size_t size) {
    Floats found(size);
    engine.readTensor(name, found.data(), found.data() + size);
    return found;
  };
  // 1 + 2 * 4; 1 + 2 + 3 + 4; five times that; 5 + 6 + 7 - 10; 1 * 3 + 2 * 4 + 3 * 5 + 4 * 6.
  CHECK(read("sums", 5) == (Floats{9, 10, 50, 8, 50}));
  CHECK(read("lists", 3) == (Floats{3, 3, 3}) && read("own", 2) == (Floats{3, 4}));
  Ints of_either(2);
  engine.readTensor("either", of_either.data());
  CHECK(of_either == (Ints{10, 1}));
  const Floats found = read("results", 23);
  const Floats expected{3, 3, 14, 3, 2, 5, 3, 6, 1, 10, 12.5, 4, 3, 11, 2, 65504, 3, 11, 0, 10, 1};
  for (std::size_t i = 0; i < expected.size(); ++i) {
    if (found[i] != expected[i]) std::cerr << "intrinsic " << i << " gives " << found[i] << "\n";
  }
  CHECK(Floats(found.begin(), found.begin() + 21) == expected);
  CHECK(std::abs(found[21]) < 0.06f && std::abs(found[22] - 1) < 0.1f);
}

}  // namespace

int main() {
  const Device device = IPUModel().createDevice();
  TestDevices();
  TestTypes(device.getTarget());
  TestTensors(device);
  TestVertices(device);
  TestPrograms(device);
  TestErrors();
  TestCodelets(device);
  std::cout << "the names are there\n";
}
