// Heat on a square, in parts that exchange their halos: a Poplar program over all 1,472 tiles of an IPU.
//
// The square has one block of cells on each tile, 46 blocks across and 32 down. In a step each cell becomes the mean
// of its four neighbours. A vertex reads the rim of the blocks around its own as edges; the machine exchanges those
// cells, the halo, before the vertices run. Steps go from one variable to the other and back, so that no vertex reads
// what another one writes.
//
// Run in this folder: ipu-tf poplar stencil.cpp -- 100
// A second argument names a file for the cells, row by row: float32, 258 x 370.
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <poplar/Engine.hpp>
#include <poplar/Graph.hpp>
#include <poplar/IPUModel.hpp>
#include <poplar/Program.hpp>
#include <vector>

using namespace poplar;
using namespace poplar::program;

namespace {

constexpr unsigned kAcross = 46;
constexpr unsigned kDown = 32;
constexpr unsigned kBlock = 8;  // Cells of a block, each way.
constexpr unsigned kRows = kDown * kBlock + 2;
constexpr unsigned kColumns = kAcross * kBlock + 2;

// The cells with their fixed rim; the rim belongs to the blocks beside it.
Tensor AddGrid(Graph& graph, const std::string& name) {
  const Tensor grid = graph.addVariable(FLOAT, {kRows, kColumns}, name);
  for (unsigned y = 0; y < kDown; ++y) {
    for (unsigned x = 0; x < kAcross; ++x) {
      const std::size_t top = y == 0 ? 0 : 1 + y * kBlock;
      const std::size_t left = x == 0 ? 0 : 1 + x * kBlock;
      const std::size_t bottom = y + 1 == kDown ? kRows : 1 + (y + 1) * kBlock;
      const std::size_t right = x + 1 == kAcross ? kColumns : 1 + (x + 1) * kBlock;
      graph.setTileMapping(grid.slice({top, left}, {bottom, right}), y * kAcross + x);
    }
  }
  return grid;
}

// One step: a vertex a block, which reads it with its halo and writes it.
Execute Step(Graph& graph, const Tensor& from, const Tensor& to) {
  const ComputeSet set = graph.addComputeSet("heat");
  for (std::size_t y = 0; y < kDown; ++y) {
    for (std::size_t x = 0; x < kAcross; ++x) {
      const std::size_t top = 1 + y * kBlock;
      const std::size_t left = 1 + x * kBlock;
      const VertexRef vertex = graph.addVertex(set, "Mean");
      graph.connect(vertex["cells"], from.slice({top - 1, left - 1}, {top + kBlock + 1, left + kBlock + 1}));
      graph.connect(vertex["means"], to.slice({top, left}, {top + kBlock, left + kBlock}));
      graph.setPerfEstimate(vertex, 3 * kBlock * kBlock);
      graph.setTileMapping(vertex, static_cast<unsigned>(y * kAcross + x));
    }
  }
  return Execute(set);
}

// The same on the host.
void StepOnHost(const std::vector<float>& from, std::vector<float>* to) {
  for (std::size_t y = 1; y + 1 < kRows; ++y) {
    for (std::size_t x = 1; x + 1 < kColumns; ++x) {
      const float* at = &from[y * kColumns + x];
      (*to)[y * kColumns + x] = 0.25f * ((at[-1] + at[1]) + (*(at - kColumns) + at[kColumns]));
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  const unsigned pairs_of_steps = argc > 1 ? static_cast<unsigned>(std::atoi(argv[1])) : 100;
  const Device device = IPUModel().createDevice();
  Graph graph(device);
  graph.addCodelets("stencil_codelets.cpp");
  const Tensor first = AddGrid(graph, "first");
  const Tensor second = AddGrid(graph, "second");
  const DataStream in = graph.addHostToDeviceFIFO("in", FLOAT, first.numElements());
  const DataStream out = graph.addDeviceToHostFIFO("out", FLOAT, first.numElements());
  const Sequence both_steps({Step(graph, first, second), Step(graph, second, first)});
  const Sequence main_program(
      {Copy(in, first), Copy(first, second), Repeat(pairs_of_steps, both_steps), Copy(first, out)});
  Engine engine(graph, main_program);
  engine.load(device);

  // The upper rim is hot.
  std::vector<float> cells(kRows * kColumns, 0.0f);
  for (unsigned x = 0; x < kColumns; ++x) cells[x] = 100.0f;
  std::vector<float> found(cells.size());
  engine.connectStream("in", cells.data());
  engine.connectStream("out", found.data());
  engine.run();

  std::vector<float> other = cells;
  for (unsigned i = 0; i < pairs_of_steps; ++i) {
    StepOnHost(cells, &other);
    StepOnHost(other, &cells);
  }
  std::cout << "Middle of the first row after " << 2 * pairs_of_steps << " steps: " << found[kColumns + kColumns / 2]
            << "\n";
  std::cout << (found == cells ? "Equal to the host's, bit for bit.\n" : "Different from the host's.\n");
  if (argc > 2) {
    std::ofstream(argv[2], std::ios::binary)
        .write(reinterpret_cast<const char*>(found.data()), static_cast<std::streamsize>(found.size() * sizeof(float)));
  }
  return found == cells ? 0 : 1;
}
