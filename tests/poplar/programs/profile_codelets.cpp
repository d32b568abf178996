// Codelets whose instructions are counted.
#include <poplar/Vertex.hpp>

using namespace poplar;

namespace tests {

struct Dot : Vertex {
  Input<Vector<float>> a;
  Input<Vector<float>> b;
  Output<float> out;
  bool compute() {
    float sum = 0;
    for (unsigned i = 0; i < a.size(); ++i) sum += a[i] * b[i];
    *out = sum;
    return true;
  }
};

// The number of its turns is in the data.
struct Turns : Vertex {
  InOut<unsigned> left;
  void compute() {
    while (*left > 0) *left = *left - 1;
  }
};

struct All : MultiVertex {
  InOut<Vector<float>> x;
  bool compute(unsigned worker) {
    for (unsigned i = worker; i < x.size(); i += numWorkers()) x[i] = x[i] / 3;
    return true;
  }
};

struct Clock : Vertex {
  Output<Vector<unsigned>> out;
  void compute() {
    out[0] = __builtin_ipu_get_scount_l();
    for (unsigned i = 2; i < out.size(); ++i) out[i] = i;
    out[1] = __builtin_ipu_get_scount_l();
  }
};

}  // namespace tests
