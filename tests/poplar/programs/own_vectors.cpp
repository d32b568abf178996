// A codelet with short vectors of its own, as headers for models have them.
#include <array>
#include <poplar/Vertex.hpp>

template <class T, size_t N>
struct Own : std::array<T, N> {};

using float2 = Own<float, 2>;
using rptsize_t = unsigned short;

class OwnVectors : public poplar::Vertex {
 public:
  poplar::Output<poplar::Vector<float>> out;
  bool compute() {
    const float2 pair = {3, 4};
    for (rptsize_t i = 0; i < out.size(); ++i) out[i] = pair[i];
    return true;
  }
};
