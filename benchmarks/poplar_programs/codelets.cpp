// What the benchmark of Poplar programs calls.
#include <poplar/Vertex.hpp>

using namespace poplar;

class Scale : public Vertex {
 public:
  Input<Vector<float>> in;
  Output<Vector<float>> out;
  void compute() {
    for (unsigned i = 0; i < out.size(); ++i) out[i] = in[i] * 0.5f;
  }
};
