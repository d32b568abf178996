// The elements of a tile: y = x + sin(a x)^2 / a, and its derivatives times what comes in.
#include <cmath>

#include <poplar/Vertex.hpp>

using poplar::Input;
using poplar::Output;
using poplar::Vector;

class Snake : public poplar::Vertex {
 public:
  Input<Vector<float>> x;
  Input<Vector<float>> a;
  Output<Vector<float>> y;

  bool compute() {
    for (unsigned i = 0; i < x.size(); ++i) {
      const float sine = std::sin(a[i] * x[i]);
      y[i] = x[i] + sine * sine / a[i];
    }
    return true;
  }
};

class SnakeGradient : public poplar::Vertex {
 public:
  Input<Vector<float>> gradient;
  Input<Vector<float>> x;
  Input<Vector<float>> a;
  Output<Vector<float>> of_x;
  Output<Vector<float>> of_a;

  bool compute() {
    for (unsigned i = 0; i < x.size(); ++i) {
      const float sine = std::sin(a[i] * x[i]);
      const float both = 2 * sine * std::cos(a[i] * x[i]);
      of_x[i] = gradient[i] * (1 + both);
      of_a[i] = gradient[i] * (x[i] * both - sine * sine / a[i]) / a[i];
    }
    return true;
  }
};
