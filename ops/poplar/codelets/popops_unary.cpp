// Operations of one operand.
#include "elements.h"

using namespace poplar;

namespace popops {

template <typename Op, typename T>
class Unary : public MultiVertex {
 public:
  Input<Vector<T, VectorLayout::ONE_PTR>> a;
  Output<Vector<decltype(Op::Of(T()))>> out;

  void compute(unsigned worker) {
    const T* const values = &a[0];
    auto* const result = &out[0];
    const Share share(out.size(), worker);
    for (unsigned i = share.begin; i < share.end; ++i) result[i] = Op::Of(values[i]);
  }
};

#define OF_FLOATS(OP)                  \
  template class Unary<op::OP, float>; \
  template class Unary<op::OP, half>;
OF_FLOATS(Abs)
OF_FLOATS(Asin)
OF_FLOATS(Cbrt)
OF_FLOATS(Ceil)
OF_FLOATS(Cos)
OF_FLOATS(Erf)
OF_FLOATS(Exp)
OF_FLOATS(Expm1)
OF_FLOATS(Exp2)
OF_FLOATS(Floor)
OF_FLOATS(GeluErf)
OF_FLOATS(Inv)
OF_FLOATS(IsFinite)
OF_FLOATS(IsInf)
OF_FLOATS(IsNaN)
OF_FLOATS(Log)
OF_FLOATS(Log1p)
OF_FLOATS(Neg)
OF_FLOATS(NearbyInt)
OF_FLOATS(Relu)
OF_FLOATS(Round)
OF_FLOATS(Rsqrt)
OF_FLOATS(Sigmoid)
OF_FLOATS(Signum)
OF_FLOATS(Sin)
OF_FLOATS(Sqrt)
OF_FLOATS(Square)
OF_FLOATS(Tan)
OF_FLOATS(Tanh)
OF_FLOATS(Trunc)

#define OF_INTEGERS(OP)              \
  template class Unary<op::OP, int>; \
  template class Unary<op::OP, unsigned>;
OF_INTEGERS(Abs)
OF_INTEGERS(BitwiseNot)
OF_INTEGERS(CountLeadingZeros)
OF_INTEGERS(Neg)
OF_INTEGERS(Popcount)
OF_INTEGERS(Relu)
OF_INTEGERS(Signum)
OF_INTEGERS(Square)

template class Unary<op::Not, bool>;

}  // namespace popops
