// The codelets of popops: elementwise arithmetic, casts, zeros, reductions.
// Loops read the fields once: stores could change them.
#include <poplar/Vertex.hpp>

using namespace poplar;

namespace popops {

// Numbers of the operations in src/popops/element_wise.cc.
template <int op, typename T>
inline T Apply(T a, T b) {
  if constexpr (op == 0) return a + b;
  if constexpr (op == 1) return a - b;
  if constexpr (op == 2) return a * b;
  if constexpr (op == 3) return a / b;
}

template <typename T, int op>
class Binary : public Vertex {
 public:
  Input<Vector<T, VectorLayout::ONE_PTR>> a;
  Input<Vector<T, VectorLayout::ONE_PTR>> b;
  Output<Vector<T>> out;

  void compute() {
    const T* const one = &a[0];
    const T* const other = &b[0];
    T* const result = &out[0];
    const unsigned size = out.size();
    for (unsigned i = 0; i < size; ++i) result[i] = Apply<op>(one[i], other[i]);
  }
};

template <typename T, int op>
class BinaryInPlace : public Vertex {
 public:
  Input<Vector<T, VectorLayout::ONE_PTR>> b;
  InOut<Vector<T>> out;

  void compute() {
    const T* const other = &b[0];
    T* const result = &out[0];
    const unsigned size = out.size();
    for (unsigned i = 0; i < size; ++i) result[i] = Apply<op>(result[i], other[i]);
  }
};

template <typename From, typename To>
class Cast : public Vertex {
 public:
  Input<Vector<From, VectorLayout::ONE_PTR>> in;
  Output<Vector<To>> out;

  void compute() {
    const From* const values = &in[0];
    To* const result = &out[0];
    const unsigned size = out.size();
    for (unsigned i = 0; i < size; ++i) result[i] = static_cast<To>(values[i]);
  }
};

template <typename T>
class Fill : public Vertex {
 public:
  Output<Vector<T>> out;
  T value;

  void compute() {
    T* const result = &out[0];
    const T one = value;
    const unsigned size = out.size();
    for (unsigned i = 0; i < size; ++i) result[i] = one;
  }
};

template <typename T>
struct Partial {
  using Type = T;
};
template <>
struct Partial<half> {
  using Type = float;
};

// Operations by their number in popops/Operation.hpp.
template <int op, typename T>
inline T Combine(T sum, T value) {
  if constexpr (op == 0) return sum + value;
  if constexpr (op == 1) return sum * value;
  if constexpr (op == 2) return value < sum ? value : sum;
  if constexpr (op == 3) return value > sum ? value : sum;
  if constexpr (op == 4) return sum && value;
  if constexpr (op == 5) return sum || value;
  if constexpr (op == 6) return sum + value * value;
}

template <int op, typename T, typename From>
inline T Reduced(const From* values, unsigned size) {
  T sum = T(values[0]);
  if constexpr (op == 6) sum = sum * sum;
  for (unsigned i = 1; i < size; ++i) sum = Combine<op, T>(sum, T(values[i]));
  return sum;
}

template <typename From, typename To, int op>
class Reduce : public Vertex {
 public:
  Vector<Input<Vector<From>>> in;
  Output<Vector<To>> out;

  void compute() {
    To* const result = &out[0];
    const unsigned size = out.size();
    for (unsigned i = 0; i < size; ++i) {
      result[i] = To(Reduced<op, typename Partial<From>::Type>(&in[i][0], in[i].size()));
    }
  }
};

template <typename From, typename To, int op>
class ReduceUpdate : public Vertex {
 public:
  Vector<Input<Vector<From>>> in;
  InOut<Vector<To>> out;

  void compute() {
    using T = typename Partial<From>::Type;
    To* const result = &out[0];
    const unsigned size = out.size();
    for (unsigned i = 0; i < size; ++i) {
      const T sum = Reduced<op, T>(&in[i][0], in[i].size());
      result[i] = To(Combine<op == 6 ? 0 : op, T>(T(result[i]), sum));
    }
  }
};

#define ARITHMETIC(T)                 \
  template class Binary<T, 0>;        \
  template class Binary<T, 1>;        \
  template class Binary<T, 2>;        \
  template class Binary<T, 3>;        \
  template class BinaryInPlace<T, 0>; \
  template class BinaryInPlace<T, 1>; \
  template class BinaryInPlace<T, 2>; \
  template class BinaryInPlace<T, 3>;
ARITHMETIC(float)
ARITHMETIC(half)
ARITHMETIC(int)
ARITHMETIC(unsigned)

template class Fill<float>;
template class Fill<half>;
template class Fill<int>;
template class Fill<unsigned>;
template class Fill<bool>;
template class Fill<char>;
template class Fill<unsigned char>;
template class Fill<signed char>;
template class Fill<short>;
template class Fill<unsigned short>;
template class Fill<long long>;
template class Fill<unsigned long long>;

#define CASTS(FROM, A, B, C, D, E, F) \
  template class Cast<FROM, A>;       \
  template class Cast<FROM, B>;       \
  template class Cast<FROM, C>;       \
  template class Cast<FROM, D>;       \
  template class Cast<FROM, E>;       \
  template class Cast<FROM, F>;
CASTS(float, half, int, unsigned, bool, char, unsigned char)
CASTS(half, float, int, unsigned, bool, char, unsigned char)
CASTS(int, float, half, unsigned, bool, char, unsigned char)
CASTS(unsigned, float, half, int, bool, char, unsigned char)
CASTS(bool, float, half, int, unsigned, char, unsigned char)
CASTS(char, float, half, int, unsigned, bool, unsigned char)
CASTS(unsigned char, float, half, int, unsigned, bool, char)

#define REDUCTIONS(FROM, TO)                \
  template class Reduce<FROM, TO, 0>;       \
  template class Reduce<FROM, TO, 1>;       \
  template class Reduce<FROM, TO, 2>;       \
  template class Reduce<FROM, TO, 3>;       \
  template class Reduce<FROM, TO, 6>;       \
  template class ReduceUpdate<FROM, TO, 0>; \
  template class ReduceUpdate<FROM, TO, 1>; \
  template class ReduceUpdate<FROM, TO, 2>; \
  template class ReduceUpdate<FROM, TO, 3>; \
  template class ReduceUpdate<FROM, TO, 6>;
REDUCTIONS(float, float)
REDUCTIONS(half, half)
REDUCTIONS(half, float)
REDUCTIONS(int, int)
REDUCTIONS(unsigned, unsigned)

template class Reduce<bool, bool, 4>;
template class Reduce<bool, bool, 5>;
template class ReduceUpdate<bool, bool, 4>;
template class ReduceUpdate<bool, bool, 5>;

}  // namespace popops
