// Cycles of the machine's model: estimates, instructions, counts inside of a program, reports.
#include <fstream>
#include <numeric>
#include <poplar/CycleCount.hpp>
#include <poplar/DeviceManager.hpp>
#include <poplar/Engine.hpp>
#include <poplar/IPUModel.hpp>
#include <sstream>
#include <vector>

#include "check.h"

using namespace poplar;
using namespace poplar::program;

namespace {

constexpr unsigned kWorkers = 6;

struct Parts {
  explicit Parts(Device d) : device(std::move(d)), graph(device) { graph.addCodelets("profile_codelets.cpp"); }

  Tensor Mapped(Type type, std::size_t size, const std::string& name, unsigned tile = 0) {
    const Tensor tensor = graph.addVariable(type, {size}, name);
    graph.setTileMapping(tensor, tile);
    return tensor;
  }
  // A product of so many elements on a tile.
  ComputeSet Dot(std::size_t size, unsigned tile, std::uint64_t estimate) {
    const ComputeSet set = graph.addComputeSet("dot of " + std::to_string(size));
    const std::string name = std::to_string(size);
    const VertexRef v = graph.addVertex(set, "tests::Dot",
                                        {{"a", Mapped(FLOAT, size, "a" + name, tile)},
                                         {"b", Mapped(FLOAT, size, "b" + name, tile)},
                                         {"out", Mapped(FLOAT, 1, "out" + name, tile)[0]}});
    graph.setTileMapping(v, tile);
    if (estimate != 0) graph.setPerfEstimate(v, estimate);
    return set;
  }

  Device device;
  Graph graph;
};

std::uint64_t Whole(const std::vector<unsigned>& words) { return words[0] | std::uint64_t{words[1]} << 32; }

std::uint64_t Counted(Parts* parts, Sequence prog, const OptionFlags& options = {}) {
  const Tensor cycles = cycleCount(parts->graph, prog, 0, SyncType::INTERNAL);
  parts->graph.createHostRead("cycles", cycles);
  Engine engine(parts->graph, prog, options);
  engine.loadAndRun(parts->device);
  std::vector<unsigned> words(2);
  engine.readTensor("cycles", words.data(), words.data() + 2);
  return Whole(words);
}

Device Ipu() { return DeviceManager().getDevices(TargetType::IPU, 1).front(); }

void EstimatesHoldOnAModel() {
  Parts parts(IPUModel().createDevice());
  const ComputeSet set = parts.Dot(100, 3, 10);
  CHECK(Counted(&parts, Sequence({Execute(set), Repeat(2, Execute(set))})) == 3 * kWorkers * 10);
}

void InstructionsCountOnADevice() {
  std::vector<std::uint64_t> cycles;
  for (const std::size_t size : {100, 200}) {
    Parts parts(Ipu());
    cycles.push_back(Counted(&parts, Sequence({Execute(parts.Dot(size, 3, 10))})));
  }
  // Two loads, a product and a sum for each element; the loop repeats itself.
  CHECK(cycles[1] - cycles[0] == 100 * 4 * kWorkers);
  Parts parts(IPUModel().createDevice());
  CHECK(Counted(&parts, Sequence({Execute(parts.Dot(100, 3, 10))}), {{"cycles", "instructions"}}) == cycles[0]);
  Parts without(IPUModel().createDevice());
  CHECK(Counted(&without, Sequence({Execute(without.Dot(100, 3, 0))})) == cycles[0]);
}

void TurnsOfALoopCount() {
  std::vector<std::uint64_t> cycles;
  for (const unsigned turns : {50u, 150u}) {
    Parts parts(Ipu());
    const Tensor left = parts.Mapped(UNSIGNED_INT, 1, "left");
    parts.graph.setInitialValue(left, ArrayRef<unsigned>({turns}));
    const ComputeSet set = parts.graph.addComputeSet("turns");
    parts.graph.setTileMapping(parts.graph.addVertex(set, "tests::Turns", {{"left", left[0]}}), 0);
    cycles.push_back(Counted(&parts, Sequence({Execute(set)})));
  }
  CHECK(cycles[1] > cycles[0]);
}

void AllWorkersTakeAsLongAsTheBusiest() {
  std::vector<std::uint64_t> cycles;
  for (const std::size_t size : {6, 12, 13}) {
    Parts parts(Ipu());
    const ComputeSet set = parts.graph.addComputeSet("all");
    parts.graph.setTileMapping(parts.graph.addVertex(set, "tests::All", {{"x", parts.Mapped(FLOAT, size, "x")}}), 0);
    cycles.push_back(Counted(&parts, Sequence({Execute(set)})));
  }
  CHECK(cycles[1] > cycles[0]);
  CHECK(cycles[2] - cycles[1] == cycles[1] - cycles[0]);
}

void CodeletsReadTheClock() {
  Parts parts(Ipu());
  const Tensor out = parts.Mapped(UNSIGNED_INT, 50, "out");
  const ComputeSet set = parts.graph.addComputeSet("clock");
  parts.graph.setTileMapping(parts.graph.addVertex(set, "tests::Clock", {{"out", out}}), 0);
  parts.graph.createHostRead("out", out);
  Engine engine(parts.graph, Sequence({Execute(set), Execute(parts.Dot(100, 3, 0)), Execute(set)}));
  engine.load(parts.device);
  engine.run();
  std::vector<unsigned> words(50);
  engine.readTensor("out", words.data(), words.data() + words.size());
  CHECK(words[0] >= 100 * 4 * kWorkers);
  CHECK(words[1] >= words[0] + 48 * kWorkers);
}

void StampsGoOn() {
  Parts parts(IPUModel().createDevice());
  const ComputeSet set = parts.Dot(100, 3, 10);
  Sequence prog({Execute(set)});
  const Tensor first = cycleStamp(parts.graph, prog, 0);
  prog.add(Execute(set));
  const Tensor second = cycleStamp(parts.graph, prog, 0);
  const std::vector<Tensor> third = cycleStamp(parts.graph, prog, {2, 5}, SyncType::INTERNAL);
  CHECK(third.size() == 2 && parts.graph.getTileMapping(third[1])[5].size() == 1);
  parts.graph.createHostRead("stamps", concat({first, second, third[0], third[1]}));
  Engine engine(parts.graph, prog);
  engine.loadAndRun(parts.device);
  std::vector<unsigned> words(8);
  engine.readTensor("stamps", words.data(), words.data() + 8);
  CHECK(words == (std::vector<unsigned>{60, 0, 120, 0, 120, 0, 120, 0}));
}

void SyncsTakeTheCyclesOfTheModel() {
  const auto cycles = [](unsigned ipus, unsigned within, unsigned between) {
    IPUModel model;
    model.numIPUs = ipus;
    model.tilesPerIPU = 4;
    model.minIPUSyncDelay = within;
    model.globalSyncCycles = between;
    Parts parts(model.createDevice());
    const Tensor last = parts.Mapped(FLOAT, 1, "last", 4 * ipus - 1);
    return Counted(&parts, Sequence({Copy(parts.Mapped(FLOAT, 1, "first"), last)}));
  };
  CHECK(cycles(1, 100, 0) - cycles(1, 0, 0) == 100);
  CHECK(cycles(2, 100, 0) > cycles(1, 100, 0));
  CHECK(cycles(2, 10, 600) - cycles(2, 10, 500) == 100);
}

void ModelsHaveNumbers() {
  IPUModel model;
  model.numWorkerContexts = 0;
  std::string words;
  try {
    model.createDevice();
  } catch (const poplar_error& error) {
    words = error.what();
  }
  CHECK(words.find("numWorkerContexts must be at least 1. Received: 0.") != std::string::npos);
  const Target part = Ipu().createVirtualDevice(8).getTarget();
  CHECK(part.getTargetType() == TargetType::IPU && part.getNumTiles() == 8 && part.getMinIPUSyncDelay() == 94);
}

void ProfilesFollowTheEngine() {
  Parts parts(IPUModel().createDevice());
  Engine engine(parts.graph, Execute(parts.Dot(100, 3, 10)), {{"autoReport.all", "false"}});
  engine.load(parts.device);
  engine.run();
  engine.disableExecutionProfiling();
  engine.run();
  engine.enableExecutionProfiling();
  engine.run();
  std::stringstream text;
  engine.printProfileSummary(text, {{"showExecutionSteps", "true"}});
  CHECK(text.str().find("dot of 100 (execute, 2 times):") != std::string::npos);
  engine.resetExecutionProfile();
  engine.run();
  std::ofstream file("profile.json");
  serializeToJSON(file, engine.getExecutionProfile());
}

}  // namespace

int main() {
  EstimatesHoldOnAModel();
  InstructionsCountOnADevice();
  TurnsOfALoopCount();
  AllWorkersTakeAsLongAsTheBusiest();
  CodeletsReadTheClock();
  StampsGoOn();
  SyncsTakeTheCyclesOfTheModel();
  ModelsHaveNumbers();
  ProfilesFollowTheEngine();
  std::cout << "cycles hold\n";
}
