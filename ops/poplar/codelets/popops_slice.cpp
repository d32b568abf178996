// Rows of tables at places known at run time. A tile has all rows of its columns: row after row, `columns` elements
// each.
#include "elements.h"

using namespace poplar;

namespace popops {

template <typename T>
class DynamicSlice : public MultiVertex {
 public:
  Input<Vector<T>> table;
  Input<unsigned> offset;
  Output<Vector<T>> out;
  unsigned columns;

  void compute(unsigned worker) {
    const unsigned rows = table.size() / columns;
    const Share share(out.size() / columns, worker);
    for (unsigned i = share.begin; i < share.end; ++i) {
      const T* const row = &table[0] + (*offset % rows + i) % rows * columns;
      for (unsigned k = 0; k < columns; ++k) out[i * columns + k] = row[k];
    }
  }
};

template <typename T>
class DynamicUpdate : public MultiVertex {
 public:
  InOut<Vector<T>> table;
  Input<unsigned> offset;
  Input<Vector<T>> in;
  unsigned columns;

  void compute(unsigned worker) {
    const unsigned rows = table.size() / columns;
    const Share share(in.size() / columns, worker);
    for (unsigned i = share.begin; i < share.end; ++i) {
      T* const row = &table[0] + (*offset % rows + i) % rows * columns;
      for (unsigned k = 0; k < columns; ++k) row[k] = in[i * columns + k];
    }
  }
};

// Rows that are not there are zeros, or row 0.
template <typename T>
class MultiSlice : public MultiVertex {
 public:
  Input<Vector<T>> table;
  Input<Vector<unsigned>> offsets;
  Output<Vector<T>> out;
  unsigned columns;
  bool remaps;

  void compute(unsigned worker) {
    const unsigned rows = table.size() / columns;
    const Share share(offsets.size(), worker);
    for (unsigned i = share.begin; i < share.end; ++i) {
      const unsigned at = remaps && offsets[i] >= rows ? 0 : offsets[i];
      for (unsigned k = 0; k < columns; ++k) out[i * columns + k] = at < rows ? table[at * columns + k] : T(0);
    }
  }
};

struct Write {
  template <typename T>
  static T Of(T, T value, float) {
    return value;
  }
};
struct Add {
  template <typename T>
  static T Of(T sum, T value, float scale) {
    using P = typename Partial<T>::Type;
    return static_cast<T>(
        op::Add::Of(static_cast<P>(sum), static_cast<P>(static_cast<P>(value) * static_cast<P>(scale))));
  }
};
struct Max {
  template <typename T>
  static T Of(T most, T value, float) {
    return op::Max::Of(most, value);
  }
};
struct Mul {
  template <typename T>
  static T Of(T product, T value, float) {
    return op::Mul::Of(product, value);
  }
};

// Worker after worker has rows of the table of its own, and visits all offsets in their order.
template <typename Op, typename T>
class MultiUpdate : public MultiVertex {
 public:
  InOut<Vector<T>> table;
  Input<Vector<unsigned>> offsets;
  Input<Vector<T>> in;
  Input<float> scale;
  unsigned columns;
  bool remaps;

  void compute(unsigned worker) {
    const unsigned rows = table.size() / columns;
    const Share share(rows, worker);
    for (unsigned i = 0; i < offsets.size(); ++i) {
      const unsigned at = remaps && offsets[i] >= rows ? 0 : offsets[i];
      if (at < share.begin || at >= share.end) continue;
      T* const row = &table[at * columns];
      for (unsigned k = 0; k < columns; ++k) row[k] = Op::Of(row[k], in[i * columns + k], *scale);
    }
  }
};

#define OF_TYPE(T)                 \
  template class DynamicSlice<T>;  \
  template class DynamicUpdate<T>; \
  template class MultiSlice<T>;    \
  template class MultiUpdate<Write, T>;
OF_TYPE(float)
OF_TYPE(half)
OF_TYPE(int)
OF_TYPE(unsigned)
OF_TYPE(bool)
OF_TYPE(char)
OF_TYPE(signed char)
OF_TYPE(unsigned char)
OF_TYPE(short)
OF_TYPE(unsigned short)
OF_TYPE(long long)
OF_TYPE(unsigned long long)

#define OF_NUMBER(T)                  \
  template class MultiUpdate<Add, T>; \
  template class MultiUpdate<Max, T>; \
  template class MultiUpdate<Mul, T>;
OF_NUMBER(float)
OF_NUMBER(half)
OF_NUMBER(int)
OF_NUMBER(unsigned)

}  // namespace popops
