#include <poplar/Vertex.hpp>

class WritesToNowhere : public poplar::Vertex {
 public:
  poplar::Input<poplar::Vector<float>> in;

  bool compute() {
    volatile int* nowhere = reinterpret_cast<int*>(static_cast<long>(in.size() == 0));
    *nowhere = 1;
    return true;
  }
};

class Square : public poplar::Vertex {
 public:
  poplar::Input<poplar::Vector<float>> in;
  poplar::Output<poplar::Vector<float>> out;
  float scale;

  bool compute() {
    for (unsigned i = 0; i < in.size(); ++i) out[i] = scale * in[i] * in[i];
    return true;
  }
};
