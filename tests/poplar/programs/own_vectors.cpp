// A codelet with short vectors of its own, as headers for models have them, which take names of C for granted.
#include <array>

template <class T, std::size_t N>
struct Own : std::array<T, N> {};

using float2 = Own<float, 2>;
using rptsize_t = uint16_t;

#include <poplar/Vertex.hpp>

class OwnVectors : public poplar::Vertex {
 public:
  poplar::Output<poplar::Vector<float>> out;
  bool compute() {
    const float2 pair = {3, 4};
    for (rptsize_t i = 0; i < 1; ++i) std::memcpy(&out[0], &pair, sizeof pair);
    return true;
  }
};
