// Ranges of integers, one-hot rows, and sums with a scale.
#include "elements.h"

using namespace poplar;

namespace popops {

// Rows of ascending numbers, each from its own first.
template <typename T>
class Iota : public MultiVertex {
 public:
  Vector<Output<Vector<T>>> out;
  Vector<T> first;

  void compute(unsigned worker) {
    for (unsigned row = 0; row < out.size(); ++row) {
      const Share share(out[row].size(), worker);
      for (unsigned i = share.begin; i < share.end; ++i) out[row][i] = op::Add::Of(first[row], static_cast<T>(i));
    }
  }
};

// Rows of elements, each from a column of its own on; the element in the column of the row's index is on.
template <typename I, typename T>
class OneHot : public MultiVertex {
 public:
  Vector<Output<Vector<T>>> out;
  Input<Vector<I, VectorLayout::ONE_PTR>> indices;
  Vector<unsigned> column;
  Input<T> on;
  Input<T> off;

  void compute(unsigned worker) {
    for (unsigned row = 0; row < out.size(); ++row) {
      const Share share(out[row].size(), worker);
      const unsigned hot = static_cast<unsigned>(indices[row]) - column[row];
      for (unsigned i = share.begin; i < share.end; ++i) out[row][i] = i == hot ? *on : *off;
    }
  }
};

// a * scale_a + b * scale_b, computed in S; for halves and floats that is float.
template <typename A, typename B, typename S>
class ScaledAdd : public MultiVertex {
 public:
  InOut<Vector<A>> a;
  Input<Vector<B, VectorLayout::ONE_PTR>> b;
  Input<S> scale_a;
  Input<S> scale_b;
  bool subtracts;      // The second product.
  bool subtracts_own;  // scale_a is that of a product which is subtracted from a.

  void compute(unsigned worker) {
    const Share share(a.size(), worker);
    for (unsigned i = share.begin; i < share.end; ++i) {
      const S own = static_cast<S>(a[i]);
      const S scaled = op::Mul::Of(own, static_cast<S>(*scale_a));
      const S more = op::Mul::Of(static_cast<S>(b[i]), static_cast<S>(*scale_b));
      const S kept = subtracts_own ? op::Sub::Of(own, scaled) : scaled;
      a[i] = static_cast<A>(subtracts ? op::Sub::Of(kept, more) : op::Add::Of(kept, more));
    }
  }
};

template class Iota<int>;
template class Iota<unsigned>;

#define ONE_HOT(I)                 \
  template class OneHot<I, float>; \
  template class OneHot<I, half>;  \
  template class OneHot<I, int>;   \
  template class OneHot<I, unsigned>;
ONE_HOT(int)
ONE_HOT(unsigned)

template class ScaledAdd<float, float, float>;
template class ScaledAdd<float, half, float>;
template class ScaledAdd<half, float, float>;
template class ScaledAdd<half, half, float>;
template class ScaledAdd<int, int, int>;
template class ScaledAdd<unsigned, unsigned, unsigned>;

}  // namespace popops
