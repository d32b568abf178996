// Codelets of the tests: fields of all kinds, templates, bases, private members, macros.
#include <ipudef.h>
#include <print.h>

#include <poplar/Vertex.hpp>

using namespace poplar;

enum class Mode { PLAIN, DOUBLED };

namespace tests {

class Scaled : public Vertex {
  // Private, as many published fields are.
  const float factor;
  Vector<int> offsets;

 protected:
  float Apply(float x, unsigned i) const { return x * factor + static_cast<float>(offsets[i % offsets.size()]); }
};

template <typename T, Mode mode>
class Scale : public Scaled {
 public:
  using In = Input<Vector<T, VectorLayout::ONE_PTR, 8>>;
  In in;
  Output<Vector<T>> out;
  static const unsigned unused = 3;

  bool compute() {
    for (unsigned i = 0; i < out.size(); ++i) {
      const float x = Apply(static_cast<float>(in[i]), i);
      out[i] = static_cast<T>(mode == Mode::DOUBLED ? 2 * x : x);
    }
    return true;
  }
};
template class Scale<float, Mode::PLAIN>;
template class Scale<float, Mode::DOUBLED>;
template class Scale<half, Mode::PLAIN>;

#define ADDER(NAME, TYPE)                          \
  struct NAME : Vertex {                           \
    Vector<Input<Vector<TYPE>>> rows;              \
    Output<Vector<TYPE>> sums;                     \
    void compute() {                               \
      for (unsigned r = 0; r < rows.size(); ++r) { \
        sums[r] = 0;                               \
        for (TYPE x : rows[r]) sums[r] += x;       \
      }                                            \
    }                                              \
  };
ADDER(IntAdder, int)

class ListAdder : public Vertex {
 public:
  Input<VectorList<int, VectorListLayout::COMPACT_DELTAN>> rows;
  Output<int> sum;
  void compute() {
    *sum = 0;
    for (unsigned r = 0; r < rows.size(); ++r) {
      for (unsigned i = 0; i < rows[r].size(); ++i) *sum += rows[r][i];
    }
  }
};

class Workers : public MultiVertex {
 public:
  InOut<Vector<int>> data;
  bool compute(unsigned worker) {
    for (unsigned i = worker; i < data.size(); i += numWorkers()) data[i] += static_cast<int>(worker);
    return true;
  }
};

class WorkersOfRegister : public MultiVertex {
 public:
  InOut<Vector<int>> data;
  bool compute() {
    const unsigned worker = __builtin_ipu_get(CSR_W_WSR__INDEX) & CSR_W_WSR__CTXTID_M1__MASK;
    for (rptsize_t i = worker; i < data.size(); i += CTXT_WORKERS) data[i] += 10 * static_cast<int>(worker);
    return true;
  }
};

class Increment : public Vertex {
 public:
  InOut<int> value;
  Output<bool> goes_on;
  int limit;
  void compute() {
    *value += 1;
    *goes_on = value < limit;
  }
};

// Says whether it is below a limit, without writing it.
class Below : public Vertex {
 public:
  Input<int> value;
  int limit;
  bool compute() { return value < limit; }
};

// The same of as many numbers as workers.
class AllBelow : public MultiVertex {
 public:
  Input<Vector<int>> values;
  int limit;
  bool compute(unsigned worker) { return values[worker] < limit; }
};

class Random : public Vertex {
 public:
  Output<Vector<unsigned>> out;
  void compute() {
    for (unsigned& one : out) one = __builtin_ipu_urand32();
    printf("random of %u\n", out.size());
  }
};

class Pairs : public Vertex {
 public:
  InOut<Vector<float, VectorLayout::SPAN, 8>> data;
  void compute() {
    float2* pairs = (float2*)&data[0];
    const float2 two = {2.0f, 3.0f};
    for (unsigned i = 0; i < data.size() / 2; ++i) {
      pairs[i] = __builtin_ipu_max(pairs[i] * two, float2{0.0f, 0.0f});
      const auto [first, second] = pairs[i];
      pairs[i].x = first + second;
    }
  }
};

// For the planted faults.
class Crash : public Vertex {
 public:
  InOut<int> value;
  void compute() { *reinterpret_cast<volatile int*>(static_cast<long>(*value)) = 1; }
};

class Outside : public Vertex {
 public:
  Input<Vector<int>> in;
  Output<Vector<int>> out;
  Vector<int> list;
  int field;
  int place;
  __attribute__((target("supervisor"))) void compute() {
    int* const fields[] = {&out[0], &in[0], &list[0]};
    for (int& one : out) one = 1;
    fields[field][place] = 7;
  }
};

class Deep : public Vertex {
 public:
  InOut<int> value;
  int Sink(volatile int* above) {
    volatile int here[1000];
    here[0] = *above + 1;
    return here[0] == 0 ? 0 : Sink(here) + here[0];
  }
  void compute() { *value = Sink(&*value); }
};

class Endless : public Vertex {
 public:
  InOut<int> value;
  void compute() {
    while (true) *reinterpret_cast<volatile int*>(&*value) += 1;
  }
};

}  // namespace tests
