// One planted fault of a program, by its name; its error goes to the standard output as "class: message".
#include <cxxabi.h>

#include <functional>
#include <map>
#include <poplar/Engine.hpp>
#include <poplar/IPUModel.hpp>
#include <poputil/TileMapping.hpp>
#include <poputil/exceptions.hpp>
#include <sstream>
#include <string>

#include "check.h"

using namespace poplar;
using namespace poplar::program;

namespace {

// A graph, on half of the device with two replicas.
struct Parts {
  explicit Parts(unsigned r = 1) : replicas(r) {}

  unsigned replicas;
  Device device = IPUModel().createDevice();
  Graph graph{device, replication_factor(replicas)};
  Tensor x = Mapped(INT, {4}, "x");
  Tensor y = Mapped(INT, {4}, "y");
  ComputeSet set = (graph.addCodelets("codelets.cpp"), graph.addComputeSet("set"));

  Tensor Mapped(Type type, std::vector<std::size_t> shape, const std::string& name) {
    Tensor tensor = graph.addVariable(type, shape, name);
    graph.setTileMapping(tensor, 1);
    return tensor;
  }
  // The number of the replica.
  Tensor Index() {
    Tensor index = graph.addReplicationIndexConstant("index");
    graph.setTileMapping(index, 0);
    return index;
  }
  VertexRef Add(const std::string& type, ArrayRef<ConnectionDesc> connections, unsigned tile = 0) {
    const VertexRef vertex = graph.addVertex(set, type, connections);
    graph.setTileMapping(vertex, tile);
    return vertex;
  }
  // A vertex that writes 7 to one place of a field.
  void WriteOutside(int field, int place, const OptionFlags& options = {{"debug.checkCodelets", "true"}}) {
    const VertexRef vertex = Add("tests::Outside", {{"in", x}, {"out", y}, {"field", field}, {"place", place}}, 9);
    graph.setInitialValue(vertex["list"], ArrayRef<int>({1, 2}));
    Run(options);
  }
  void Run(const OptionFlags& options = {}) { Engine(graph, Execute(set), options).loadAndRun(device); }
};

void Send(unsigned replicas, const std::map<unsigned, unsigned>& to) {
  Parts p(replicas);
  Engine(p.graph, CrossReplicaCopy(p.x, p.y, to));
}

void Ignore(ArrayRef<const void*>, ArrayRef<void*>) {}

using Arguments = std::vector<Graph::HostFunctionArgument>;

// An engine that calls a function of the host.
void CallF(Parts& p, const Arguments& inputs, const Arguments& outputs, const std::vector<Tensor>& ins,
           const std::vector<Tensor>& outs) {
  Engine(p.graph, Call(p.graph.addHostFunction("f", inputs, outputs), ins, outs));
}

const std::map<std::string, std::function<void(Parts&)>> kFaults{
    {"unmapped element",
     [](Parts& p) {
       const Tensor z = p.graph.addVariable(FLOAT, {8}, "z");
       p.graph.setTileMapping(z.slice(0, 6), 2);
       p.Run();
     }},
    {"unmapped vertex",
     [](Parts& p) {
       p.graph.addVertex(p.set, "tests::Workers", {{"data", p.x}});
       p.Run();
     }},
    {"two writers",
     [](Parts& p) {
       p.Add("tests::Workers", {{"data", p.x.slice(0, 3)}}, 4);
       p.Add("tests::Workers", {{"data", p.x.slice(2, 4)}}, 5);
       p.Run();
     }},
    {"writer and reader",
     [](Parts& p) {
       p.Add("tests::Workers", {{"data", p.x}}, 4);
       p.Add("tests::ListAdder", {{"rows", p.x.slice(1, 3).expand({0})}, {"sum", p.y[0]}}, 5);
       p.Run();
     }},
    {"unconnected edge",
     [](Parts& p) {
       p.Add("tests::ListAdder", {{"rows", p.x.expand({0})}});
       p.Run();
     }},
    {"edge twice",
     [](Parts& p) {
       const VertexRef vertex = p.Add("tests::Workers", {{"data", p.x}});
       p.graph.connect(vertex["data"], p.y);
       p.Run();
     }},
    {"row missing",
     [](Parts& p) {
       const VertexRef vertex = p.Add("tests::ListAdder", {{"sum", p.y[0]}});
       p.graph.connect(vertex["rows"][1], p.x);
       p.Run();
     }},
    {"wrong size", [](Parts& p) { p.Add("tests::ListAdder", {{"sum", p.y}}); }},
    {"wrong type", [](Parts& p) { p.Add("tests::Workers", {{"data", p.Mapped(FLOAT, {4}, "f")}}); }},
    {"value too large", [](Parts& p) { p.graph.addConstant(CHAR, {1}, 300); }},
    {"aliased destination", [](Parts& p) { Engine(p.graph, Copy(p.x, concat(p.y.slice(0, 2), p.y.slice(1, 3)))); }},
    {"constant destination",
     [](Parts& p) {
       const Tensor c = p.graph.addConstant<int>(INT, {4}, {1, 2, 3, 4}, "c");
       p.graph.setTileMapping(c, 0);
       Engine(p.graph, Copy(p.x, c));
     }},
    {"copy of another size", [](Parts& p) { Copy(p.x, p.y.slice(0, 3)); }},
    {"tile over memory",
     [](Parts& p) {
       p.Mapped(FLOAT, {200'000}, "large");
       p.Run();
     }},
    {"tile over memory, allowed",
     [](Parts& p) {
       p.Mapped(FLOAT, {200'000}, "large");
       p.Run({{"debug.allowOutOfMemory", "true"}});
     }},
    {"unknown vertex", [](Parts& p) { p.Add("tests::Worker", {{"data", p.x}}); }},
    {"misspelt field", [](Parts& p) { p.Add("tests::Workers", {{"date", p.x}}); }},
    {"stream of another size", [](Parts& p) { Copy(p.graph.addHostToDeviceFIFO("in", INT, 3), p.x); }},
    {"unconnected stream",
     [](Parts& p) {
       const DataStream in = p.graph.addHostToDeviceFIFO("in", INT, 4);
       Engine(p.graph, Copy(in, p.x)).loadAndRun(p.device);
     }},
    {"short buffer",
     [](Parts& p) {
       const DataStream in = p.graph.addHostToDeviceFIFO("in", INT, 4);
       Engine engine(p.graph, Copy(in, p.x));
       int buffer[3] = {};
       engine.connectStream("in", buffer, buffer + 3);
     }},
    {"unknown stream", [](Parts& p) { Engine(p.graph, Sequence()).connectStream("in", &p); }},
    {"tile that is not there", [](Parts& p) { p.graph.setTileMapping(p.x, 1472); }},
    {"slice outside", [](Parts& p) { p.x.slice(2, 5); }},
    {"float predicate", [](Parts& p) { RepeatWhileTrue(Sequence(), p.Mapped(FLOAT, {}, "f"), Sequence()); }},
    {"tensor of another graph", [](Parts& p) { p.Add("tests::Workers", {{"data", Parts().x}}); }},
    {"abort", [](Parts& p) { Engine(p.graph, Abort(std::string("enough"))).loadAndRun(p.device); }},
    {"missing codelets", [](Parts& p) { p.graph.addCodelets("no_such_codelets.cpp"); }},
    {"codelets of the chip", [](Parts& p) { p.graph.addCodelets("chip.gp"); }},
    {"assembly",
     [](Parts& p) {
       std::stringstream text;
       text << "#include <poplar/Vertex.hpp>\nclass A : public poplar::Vertex { public: void compute() {\n"
            << "  asm volatile(\"f32v2axpy $a0:1, $a2:3, $a4:5\"); } };\n";
       p.graph.addCodelets(text);
     }},
    {"codelet that does not compile",
     [](Parts& p) {
       std::stringstream text("#include <poplar/Vertex.hpp>\nclass A : public poplar::Vertex { nonsense };\n");
       p.graph.addCodelets(text);
     }},
    {"field of no type",
     [](Parts& p) {
       std::stringstream text(
           "#include <poplar/Vertex.hpp>\nclass A : public poplar::Vertex { public: poplar::Input<double> d; void "
           "compute() {} };\n");
       p.graph.addCodelets(text);
       p.Add("A", {});
     }},
    {"missing compiler",
     [](Parts& p) {
       setenv("CXX", "/no/such/compiler", 1);
       p.graph.addCodelets("codelets.cpp");
     }},
    {"profile of a CPU",
     [](Parts&) { Engine(Graph(Target::createCPUTarget()), Sequence()).printProfileSummary(std::cout); }},
    {"options of the environment", [](Parts& p) { p.Run(); }},
    {"file of another executable",
     [](Parts&) {
       std::stringstream file("ipu_tf executable 0\n");
       Executable::deserialize(file);
     }},
    {"file that ends early",
     [](Parts& p) {
       std::stringstream file;
       compileGraph(p.graph, {Execute(p.set)}).serialize(file);
       const std::string text = file.str();
       std::stringstream part(text.substr(0, text.size() / 2));
       Executable::deserialize(part);
     }},
    {"write inside", [](Parts& p) { p.WriteOutside(0, 3); }},
    {"write behind a field", [](Parts& p) { p.WriteOutside(0, 5); }},
    {"write before a field", [](Parts& p) { p.WriteOutside(0, -1); }},
    {"write to an input", [](Parts& p) { p.WriteOutside(1, 2); }},
    {"write behind a list", [](Parts& p) { p.WriteOutside(2, 2); }},
    {"vectors of clang",
     [](Parts& p) {
       std::stringstream text(
           "#include <poplar/Vertex.hpp>\nclass A : public poplar::Vertex { public: void compute() {\n"
           "  typedef float pair __attribute__((ext_vector_type(2)));\n  pair two; } };\n");
       p.graph.addCodelets(text);
     }},
    {"field of its own",
     [](Parts& p) {
       std::stringstream text(
           "#include <poplar/Vertex.hpp>\nclass A : public poplar::Vertex { public: float d[2]; void compute() {} "
           "};\n");
       p.graph.addCodelets(text);
       p.Add("A", {{"d", 1.0f}});
     }},
    {"unknown option", [](Parts& p) { p.Run({{"reports.all", "true"}}); }},
    {"misspelt option", [](Parts& p) { p.Run({{"debug.allowOutofMemory", "true"}}); }},
    {"value of an option", [](Parts& p) { p.Run({{"debug.allowOutOfMemory", "yes"}}); }},
    {"elements over a short span",
     [](Parts& p) {
       std::stringstream text(
           "#include <poplar/Vertex.hpp>\nclass A : public poplar::Vertex { public: poplar::Input<poplar::Vector<int, "
           "poplar::VectorLayout::SHORT_SPAN>> in; void compute() {} };\n");
       p.graph.addCodelets(text);
       p.Add("A", {{"in", p.Mapped(INT, {2048}, "in")}});
       p.Run();
     }},
    {"matrix unit",
     [](Parts& p) {
       std::stringstream text(
           "#include <poplar/Vertex.hpp>\nclass A : public poplar::Vertex { public: void compute() {\n"
           "  __builtin_ipu_ld128putcs(0); } };\n");
       p.graph.addCodelets(text);
     }},
    {"program as codelets", [](Parts& p) { p.graph.addCodelets("/proc/self/exe"); }},
    {"flat tensors needed",
     [](Parts& p) {
       Tensor matrix = p.x.reshape({2, 2});
       p.graph.reorderToSimplify(&matrix, {});
     }},
    {"estimator of no codelet",
     [](Parts& p) { p.graph.registerPerfEstimator("tests::Worker", [](const auto&, const auto&) { return 1; }); }},
    {"dimension of a field", [](Parts& p) { p.graph.getMaxFieldDim("tests::Workers", "data", 1); }},
    {"options that are no JSON",
     [](Parts&) {
       OptionFlags options;
       readJSON("[]", options);
     }},
    {"unknown system", [](Parts&) { Target::createIPUTarget(1, "GC200"); }},
    {"no clones", [](Parts& p) { p.graph.cloneN(p.x, 0); }},
    {"unmapped constant",
     [](Parts& p) {
       p.graph.addConstant(INT, {1}, 1, "k");
       p.Run();
     }},
    {"written constant",
     [](Parts& p) {
       const Tensor k = p.graph.addConstant(INT, {2}, 1, "k");
       p.graph.setTileMapping(k, 0);
       p.Add("tests::Workers", {{"data", k}});
     }},
    {"matrix for a list", [](Parts& p) { p.Add("tests::Workers", {{"data", p.x.reshape({2, 2})}}); }},
    {"value of an edge", [](Parts& p) { p.graph.setInitialValue(p.Add("tests::Workers", {})["data"], 1); }},
    {"edge of a value", [](Parts& p) { p.graph.connect(p.Add("tests::Increment", {})["limit"], p.x[0]); }},
    {"number for a list", [](Parts& p) { p.graph.setInitialValue(p.Add("tests::Outside", {})["list"], 1); }},
    {"size of a number", [](Parts& p) { p.graph.setFieldSize(p.Add("tests::Increment", {})["limit"], 2); }},
    {"handle twice",
     [](Parts& p) {
       p.graph.createHostRead("x", p.x);
       p.graph.createHostRead("x", p.y);
     }},
    {"stream over memory",
     [](Parts& p) {
       p.graph.addHostToDeviceFIFO("in", INT, (std::size_t{1} << 25) + 1);
       p.Run();
     }},
    {"row of another size",
     [](Parts& p) {
       p.graph.addRemoteBuffer("remote", INT, 4);
       Engine(p.graph, Sequence()).copyToRemoteBuffer(std::vector<int>(3), "remote", 0);
     }},
    {"unknown remote buffer",
     [](Parts& p) {
       p.graph.addRemoteBuffer("remote", INT, 4);
       Engine(p.graph, Sequence()).copyFromRemoteBuffer("x", nullptr, 0);
     }},
    {"exit status of two", [](Parts& p) { Execute(p.set, p.x); }},
    {"exit status of floats", [](Parts& p) { Execute(p.set, p.Mapped(FLOAT, {}, "f")); }},
    {"exit status of a constant",
     [](Parts& p) {
       const Tensor constant = p.graph.addConstant(INT, {}, 1, "k");
       p.graph.setTileMapping(constant, 0);
       Engine(p.graph, Execute(p.set, constant));
     }},
    {"stream backwards", [](Parts& p) { Copy(p.x, p.graph.addHostToDeviceFIFO("in", INT, 4)); }},
    {"row of no integer",
     [](Parts& p) { Copy(p.x, p.graph.addRemoteBuffer("rows", INT, 4, 2), p.Mapped(FLOAT, {1}, "row")); }},
    {"row that is missing", [](Parts& p) { Copy(p.x, p.graph.addRemoteBuffer("rows", INT, 4, 2)); }},
    {"empty tensor", [](Parts& p) { p.graph.setTileMapping(Tensor(), 0); }},
    {"shape of another size", [](Parts& p) { p.x.reshape({3}); }},
    {"function of no graph", [](Parts& p) { Engine(p.graph, Call(Function())); }},
    {"crash",
     [](Parts& p) {
       p.Add("tests::Crash", {{"value", p.x[0]}}, 9);
       p.Run();
     }},
    {"crash of the stack",
     [](Parts& p) {
       p.Add("tests::Deep", {{"value", p.x[0]}}, 9);
       p.Run();
     }},
    {"endless program",
     [](Parts& p) {
       p.Add("tests::Increment", {{"value", p.x[0]}, {"goes_on", p.Mapped(BOOL, {}, "go")}, {"limit", 1}}, 9);
       Engine engine(p.graph, Sequence(PrintTensor("running", p.x[0]), Repeat(4'000'000'000, Execute(p.set))));
       engine.load(p.device);
       std::cout << "not flushed";
       engine.run();
     }},
    {"endless codelet",
     [](Parts& p) {
       p.Add("tests::Endless", {{"value", p.x[0]}}, 9);
       p.Run({{"target.hostSyncTimeout", "1"}});
     }},
    {"replicas that do not fit", [](Parts&) { Parts(5); }},
    {"other device",
     [](Parts&) {
       Parts p(2);
       Engine(p.graph, Sequence()).load(IPUModel("ipu1").createDevice());
     }},
    {"replica that is not there", [](Parts&) { Send(2, {{0, 2}}); }},
    {"two senders", [](Parts&) { Send(2, {{0, 1}, {1, 1}}); }},
    {"cross-replica copy of another size", [](Parts& p) { CrossReplicaCopy(p.x, p.y.slice(0, 3), {}); }},
    {"branches of replicas",
     [](Parts&) {
       Parts p(2);
       const Function function = p.graph.addFunction(Copy(p.x, p.graph.addDeviceToHostFIFO("out", INT, 4)));
       Engine(p.graph, If(p.Index(), Repeat(2, Call(function)), Sequence())).loadAndRun(p.device);
     }},
    {"loops of replicas",
     [](Parts&) {
       Parts p(2);
       Engine(p.graph, RepeatWhileTrue(CrossReplicaCopy(p.x, p.y, {}), p.Index(), Sequence())).loadAndRun(p.device);
     }},
    {"branches with a sync",
     [](Parts&) {
       Parts p(2);
       Engine(p.graph, If(p.Index(), Sync(SyncType::GLOBAL), Sync(SyncType::INTERNAL))).loadAndRun(p.device);
     }},
    {"assumed equal",
     [](Parts&) {
       Parts p(2);
       const Tensor both = concat(p.x.slice(1, 2).reinterpret(UNSIGNED_INT), p.Index().expand({0}));
       Engine(p.graph, AssumeEqualAcrossReplicas(both)).loadAndRun(p.device);
     }},
    {"abort of a replica",
     [](Parts&) {
       Parts p(2);
       Engine(p.graph, AbortOnCondition(p.Index(), std::string("enough"))).loadAndRun(p.device);
     }},
    {"crash of a replica",
     [](Parts&) {
       Parts p(2);
       p.Add("tests::Crash", {{"value", p.x[0]}}, 9);
       Engine(p.graph, If(p.Index(), Execute(p.set), Sequence())).loadAndRun(p.device);
     }},
    {"write of a replica",
     [](Parts&) {
       Parts p(2);
       p.WriteOutside(0, 5);
     }},
    {"tile of a replica over memory",
     [](Parts&) {
       Parts p(2);
       p.Mapped(FLOAT, {200'000}, "large");
       p.Run();
     }},
    {"stream of one replica",
     [](Parts&) {
       Parts p(2);
       Engine engine(p.graph, Copy(p.graph.addHostToDeviceFIFO("in", INT, 4), p.x));
       engine.connectStreamToCallback("in", 0, [](void*) {});
       engine.loadAndRun(p.device);
     }},
    {"short buffer of replicas",
     [](Parts&) {
       Parts p(2);
       Engine engine(p.graph, Copy(p.graph.addHostToDeviceFIFO("in", INT, 4), p.x));
       int buffer[4] = {};
       engine.connectStream("in", buffer, buffer + 4);
     }},
    {"callback of no replica",
     [](Parts&) {
       Parts p(2);
       Engine engine(p.graph, Copy(p.graph.addHostToDeviceFIFO("in", INT, 4), p.x));
       engine.connectStreamToCallback("in", 2, [](void*) {});
     }},
    {"callback of a broadcast",
     [](Parts&) {
       Parts p(2);
       Engine engine(p.graph, Copy(p.graph.addHostToDeviceFIFO("in", INT, 4, ReplicatedStreamMode::BROADCAST), p.x));
       engine.connectStreamToCallback("in", 1, [](void*) {});
     }},
    {"tensor of one replica",
     [](Parts&) {
       Parts p(2);
       p.graph.createHostRead("x", p.x);
       Engine engine(p.graph, Sequence());
       engine.load(p.device);
       int buffer[4];
       engine.readTensor("x", buffer, buffer + 4);
     }},
    {"remote buffer of no replica",
     [](Parts&) {
       Parts p(2);
       p.graph.addRemoteBuffer("remote", INT, 4);
       int buffer[4];
       Engine(p.graph, Sequence()).copyFromRemoteBuffer("remote", buffer, 0, 2);
     }},
    {"remote row of a replica",
     [](Parts&) {
       Parts p(2);
       const RemoteBuffer remote = p.graph.addRemoteBuffer("remote", INT, 4, 1);
       Engine(p.graph, Copy(remote, p.x, p.Index())).loadAndRun(p.device);
     }},
    {"host function, unknown", [](Parts& p) { Engine(p.graph, Sequence()).connectHostFunction("f", 0, Ignore); }},
    {"host function, taken",
     [](Parts& p) {
       p.graph.addHostFunction("f", {}, {});
       p.graph.addHostFunction("f", {}, {});
     }},
    {"host function, empty", [](Parts& p) { Engine(p.graph, Call(HostFunction(), {}, {})); }},
    {"host function, not connected",
     [](Parts&) {
       Parts p(2);
       Engine engine(p.graph, Call(p.graph.addHostFunction("f", {{INT, 4}}, {}), {p.x}, {}));
       engine.connectHostFunction("f", 0, Ignore);
       engine.loadAndRun(p.device);
     }},
    {"host function, no replica",
     [](Parts& p) {
       p.graph.addHostFunction("f", {}, {});
       Engine(p.graph, Sequence()).connectHostFunction("f", 1, Ignore);
     }},
    {"host function, inputs missing", [](Parts& p) { CallF(p, {{INT, 4}, {INT, 4}}, {}, {p.x}, {}); }},
    {"host function, other size", [](Parts& p) { CallF(p, {}, {{INT, 3}}, {}, {p.y}); }},
    {"host function, other type", [](Parts& p) { CallF(p, {{FLOAT, 4}}, {}, {p.x}, {}); }},
    {"host function, elements twice",
     [](Parts& p) { CallF(p, {}, {{INT, 2}}, {}, {concat(p.y.slice(0, 1), p.y.slice(0, 1))}); }},
    {"host function, outputs in common",
     [](Parts& p) { CallF(p, {}, {{INT, 2}, {INT, 3}}, {}, {p.y.slice(0, 2), p.y.slice(1, 4)}); }},
    {"IPU that is not there", [](Parts& p) { poputil::cloneToIpu(p.graph, p.x, 1); }},
    {"virtual graph of no tile", [](Parts& p) { p.graph.createVirtualGraph(std::vector<unsigned>()); }},
    {"virtual graph of a tile twice", [](Parts& p) { p.graph.createVirtualGraph({1, 2, 1}); }},
    {"virtual graph of other tiles", [](Parts& p) { p.graph.createVirtualGraph(2, 4).createVirtualGraph({0, 1, 2}); }},
    {"virtual graph of too many tiles", [](Parts& p) { p.graph.createVirtualGraph(1, 1473); }},
    {"endless loop of an executable",
     [](Parts& p) {
       p.graph.setInitialValue(p.x, 1);
       const Executable executable = compileGraph(p.graph, {RepeatWhileTrue(Sequence(), p.x[0], Sequence())});
       Engine(executable, {{"target.hostSyncTimeout", "0.1"}}).loadAndRun(p.device);
     }},
    {"endless loop",
     [](Parts& p) {
       p.graph.setInitialValue(p.x, 1);
       Engine(p.graph, RepeatWhileTrue(Sequence(), p.x[0], Sequence()), {{"target.hostSyncTimeout", "0.1"}})
           .loadAndRun(p.device);
     }},
};

}  // namespace

int main(int, char** argv) {
  try {
    Parts parts;
    kFaults.at(argv[1])(parts);
  } catch (const poputil::poplibs_error& error) {
    std::cout << "poplibs_error: " << error.what() << "\n";
    return 3;
  } catch (const poplar_error& error) {
    std::cout << error.type << ": " << error.what() << "\n";
    return 3;
  }
  std::cout << "no error\n";
}
