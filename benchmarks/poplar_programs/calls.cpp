// Prints how fast vertices run, how long their graph and its Engine take, and with "profile" how long its cycles and
// memory do: calls KIND VERTICES RUNS [profile].
#include <chrono>
#include <cstdlib>
#include <ctime>
#include <iostream>
#include <sstream>
#include <string>

#include <poplar/Engine.hpp>
#include <poplar/IPUModel.hpp>

using namespace poplar;
using namespace poplar::program;

namespace {

double Seconds(std::chrono::steady_clock::time_point since) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - since).count();
}

// One tensor of the vertices' elements: `size` in a row for each, or one of each vertex after the other.
Tensor Elements(Graph& graph, unsigned vertices, unsigned size, bool is_scattered, const std::string& name) {
  const unsigned tiles = graph.getTarget().getNumTiles();
  const Tensor tensor = is_scattered ? graph.addVariable(FLOAT, {size, vertices}, name).transpose()
                                     : graph.addVariable(FLOAT, {vertices, size}, name);
  for (unsigned tile = 0; tile < tiles; ++tile) {
    const auto first = static_cast<std::size_t>(std::uint64_t{vertices} * tile / tiles);
    const auto last = static_cast<std::size_t>(std::uint64_t{vertices} * (tile + 1) / tiles);
    if (first < last) graph.setTileMapping(tensor.slice(first, last), tile);
  }
  return tensor;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4 && argc != 5) return 2;
  const bool is_scattered = std::string(argv[1]) == "scattered";
  const auto vertices = static_cast<unsigned>(std::atoi(argv[2]));
  const int runs = std::atoi(argv[3]);
  const unsigned size = is_scattered ? 4 : 10;
  const Device device = IPUModel().createDevice();
  const auto start = std::chrono::steady_clock::now();
  Graph graph(device);
  graph.addCodelets("codelets.cpp");
  const double codelets_s = Seconds(start);
  const Tensor in = Elements(graph, vertices, size, is_scattered, "in");
  const Tensor out = Elements(graph, vertices, size, is_scattered, "out");
  const ComputeSet set = graph.addComputeSet("scale");
  const unsigned tiles = graph.getTarget().getNumTiles();
  for (unsigned tile = 0; tile < tiles; ++tile) {
    const auto last = static_cast<std::size_t>(std::uint64_t{vertices} * (tile + 1) / tiles);
    for (auto i = static_cast<std::size_t>(std::uint64_t{vertices} * tile / tiles); i < last; ++i) {
      const VertexRef vertex = graph.addVertex(set, "Scale", {{"in", in[i]}, {"out", out[i]}});
      graph.setTileMapping(vertex, tile);
      graph.setPerfEstimate(vertex, 3 * size);
    }
  }
  const double graph_s = Seconds(start) - codelets_s;
  Engine engine(graph, Repeat(static_cast<unsigned>(runs), Execute(set)));
  engine.load(device);
  const double engine_s = Seconds(start) - codelets_s - graph_s;
  engine.run();
  const auto run_start = std::chrono::steady_clock::now();
  const std::clock_t run_cpu = std::clock();
  engine.run();
  const double run_s = Seconds(run_start);
  const double run_cpu_s = static_cast<double>(std::clock() - run_cpu) / CLOCKS_PER_SEC;
  const auto profile_start = std::chrono::steady_clock::now();
  std::ostringstream summary;
  if (argc == 5) engine.printProfileSummary(summary);
  const double profile_s = Seconds(profile_start);
  std::cout << "{\"graph_s\": " << graph_s << ", \"engine_s\": " << engine_s
            << ", \"engine_and_profile_s\": " << engine_s + profile_s
            << ", \"calls_per_s\": " << static_cast<double>(vertices) * runs / run_s
            << ", \"calls_per_cpu_s\": " << static_cast<double>(vertices) * runs / run_cpu_s << "}\n";
}
