// Operations of two and of three operands, each of which may be one element for all.
#include "elements.h"

using namespace poplar;

namespace popops {

template <typename Op, typename T>
class Binary : public MultiVertex {
 public:
  Input<Vector<T, VectorLayout::ONE_PTR>> a;
  Input<Vector<T, VectorLayout::ONE_PTR>> b;
  Output<Vector<decltype(Op::Of(T(), T()))>> out;
  unsigned char a_is_one;
  unsigned char b_is_one;

  void compute(unsigned worker) {
    const T* const one = &a[0];
    const T* const other = &b[0];
    auto* const result = &out[0];
    const Share share(out.size(), worker);
    if (b_is_one) {
      const T all = other[0];
      const unsigned step = a_is_one ? 0 : 1;
      for (unsigned i = share.begin; i < share.end; ++i) result[i] = Op::Of(one[i * step], all);
    } else if (a_is_one) {
      const T all = one[0];
      for (unsigned i = share.begin; i < share.end; ++i) result[i] = Op::Of(all, other[i]);
    } else {
      for (unsigned i = share.begin; i < share.end; ++i) result[i] = Op::Of(one[i], other[i]);
    }
  }
};

template <typename Op, typename T, typename C>
class Ternary : public MultiVertex {
 public:
  Input<Vector<T, VectorLayout::ONE_PTR>> a;
  Input<Vector<T, VectorLayout::ONE_PTR>> b;
  Input<Vector<C, VectorLayout::ONE_PTR>> c;
  Output<Vector<T>> out;
  unsigned char a_is_one;
  unsigned char b_is_one;
  unsigned char c_is_one;

  void compute(unsigned worker) {
    const T* const first = &a[0];
    const T* const second = &b[0];
    const C* const third = &c[0];
    T* const result = &out[0];
    const unsigned of_a = a_is_one ? 0 : 1;
    const unsigned of_b = b_is_one ? 0 : 1;
    const unsigned of_c = c_is_one ? 0 : 1;
    const Share share(out.size(), worker);
    for (unsigned i = share.begin; i < share.end; ++i) {
      result[i] = Op::Of(first[i * of_a], second[i * of_b], third[i * of_c]);
    }
  }
};

#define OF_FLOATS(OP)                   \
  template class Binary<op::OP, float>; \
  template class Binary<op::OP, half>;
#define OF_INTEGERS(OP)               \
  template class Binary<op::OP, int>; \
  template class Binary<op::OP, unsigned>;
#define OF_NUMBERS(OP) OF_FLOATS(OP) OF_INTEGERS(OP)
#define OF_ALL(OP) OF_NUMBERS(OP) template class Binary<op::OP, bool>;
OF_NUMBERS(Add)
OF_NUMBERS(Sub)
OF_NUMBERS(Mul)
OF_NUMBERS(Divide)
OF_NUMBERS(Max)
OF_NUMBERS(Min)
OF_NUMBERS(Pow)
OF_NUMBERS(Rem)
OF_FLOATS(Atan2)
OF_FLOATS(InvStdDevToVariance)
OF_FLOATS(VarianceToInvStdDev)
OF_INTEGERS(BitwiseAnd)
OF_INTEGERS(BitwiseOr)
OF_INTEGERS(BitwiseXnor)
OF_INTEGERS(BitwiseXor)
OF_INTEGERS(Shl)
OF_INTEGERS(Shr)
OF_INTEGERS(ShrSE)
OF_ALL(Equal)
OF_ALL(NotEqual)
OF_NUMBERS(Gt)
OF_NUMBERS(Gte)
OF_NUMBERS(Lt)
OF_NUMBERS(Lte)
template class Binary<op::And, bool>;
template class Binary<op::Or, bool>;

#define OF_THREE(T)                        \
  template class Ternary<op::Clamp, T, T>; \
  template class Ternary<op::Select, T, bool>;
OF_THREE(float)
OF_THREE(half)
OF_THREE(int)
OF_THREE(unsigned)
template class Ternary<op::Select, bool, bool>;

}  // namespace popops
