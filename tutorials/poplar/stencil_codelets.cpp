// The codelet of stencil.cpp.
#include <poplar/Vertex.hpp>

using namespace poplar;

// The mean of the four neighbours of each cell of a block.
class Mean : public Vertex {
 public:
  Vector<Input<Vector<float>>> cells;   // Rows of the block, with a halo of one cell.
  Vector<Output<Vector<float>>> means;  // Rows of the block.

  bool compute() {
    for (unsigned y = 0; y < means.size(); ++y) {
      for (unsigned x = 0; x < means[y].size(); ++x) {
        means[y][x] = 0.25f * ((cells[y + 1][x] + cells[y + 1][x + 2]) + (cells[y][x + 1] + cells[y + 2][x + 1]));
      }
    }
    return true;
  }
};
