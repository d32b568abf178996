// Rows of elements, each reduced to one. Halves are reduced as float.
#include "elements.h"

using namespace poplar;

namespace popops {

struct SquareAdd {
  template <typename T>
  static T First(T a) {
    return op::Mul::Of(a, a);
  }
  template <typename T>
  static T Of(T sum, T a) {
    return op::Add::Of(sum, op::Mul::Of(a, a));
  }
  using Again = op::Add;
};

// The logarithm of the sum of exponentials.
struct LogAdd {
  template <typename T>
  static T First(T a) {
    return a;
  }
  template <typename T>
  static T Of(T sum, T a) {
    const T most = op::Max::Of(sum, a);
    const T least = op::Min::Of(sum, a);
    return most == least ? most + T(0.69314718055994530942)
                         : most + T(::log1p(::exp(static_cast<double>(least) - static_cast<double>(most))));
  }
  using Again = LogAdd;
};

template <typename Op>
struct Plain {
  template <typename T>
  static T First(T a) {
    return a;
  }
  template <typename T>
  static T Of(T sum, T a) {
    return Op::Of(sum, a);
  }
  using Again = Op;
};
struct Add : Plain<op::Add> {};
struct Mul : Plain<op::Mul> {};
struct Min : Plain<op::Min> {};
struct Max : Plain<op::Max> {};
struct And : Plain<op::And> {};
struct Or : Plain<op::Or> {};

template <bool is_scaled>
class Scale {};
template <>
class Scale<true> {
 public:
  Input<float> scale;
};

template <typename Op, typename From, typename To, bool is_update, bool is_scaled>
class Reduce : public MultiVertex, public Scale<is_scaled> {
 public:
  Vector<Input<Vector<From>>> in;
  std::conditional_t<is_update, InOut<Vector<To>>, Output<Vector<To>>> out;

  void compute(unsigned worker) {
    using T = typename Partial<From>::Type;
    To* const result = &out[0];
    const Share share(out.size(), worker);
    for (unsigned i = share.begin; i < share.end; ++i) {
      const From* const values = &in[i][0];
      const unsigned size = in[i].size();
      T sum = Op::First(static_cast<T>(values[0]));
      for (unsigned k = 1; k < size; ++k) sum = Op::Of(sum, static_cast<T>(values[k]));
      if constexpr (is_scaled) sum = static_cast<T>(sum * *this->scale);
      if constexpr (is_update) sum = Op::Again::Of(static_cast<T>(result[i]), sum);
      result[i] = static_cast<To>(sum);
    }
  }
};

#define REDUCTION(OP, FROM, TO)                      \
  template class Reduce<OP, FROM, TO, false, false>; \
  template class Reduce<OP, FROM, TO, true, false>;
#define SCALED(OP, FROM, TO)                        \
  template class Reduce<OP, FROM, TO, false, true>; \
  template class Reduce<OP, FROM, TO, true, true>;
#define OF_NUMBERS(FROM, TO) \
  REDUCTION(Add, FROM, TO)   \
  REDUCTION(Mul, FROM, TO)   \
  REDUCTION(Min, FROM, TO)   \
  REDUCTION(Max, FROM, TO)   \
  REDUCTION(SquareAdd, FROM, TO)
#define OF_FLOATS(FROM, TO)   \
  OF_NUMBERS(FROM, TO)        \
  REDUCTION(LogAdd, FROM, TO) \
  SCALED(Add, FROM, TO)       \
  SCALED(SquareAdd, FROM, TO)
OF_FLOATS(float, float)
OF_FLOATS(half, half)
OF_FLOATS(half, float)
OF_FLOATS(float, half)
OF_NUMBERS(int, int)
OF_NUMBERS(unsigned, unsigned)
REDUCTION(And, bool, bool)
REDUCTION(Or, bool, bool)

}  // namespace popops
