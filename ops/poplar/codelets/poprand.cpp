// Random numbers. Each is a hash of a key and of the place of its element, so it depends on no tile and no thread.
#include "elements.h"

extern "C" void ipu_tf_codelet_seed(unsigned long long seed);

using namespace poplar;

namespace poprand {

// The numbers of one element, of 64 bits each (the finalizer of SplitMix64).
class Numbers {
 public:
  Numbers(unsigned long long key, unsigned long long place) : state_(Mixed(key + Mixed(place + 1))) {}
  unsigned long long Next() { return Mixed(state_ += 0x9e3779b97f4a7c15u); }
  // Of 53 bits, in [0, 1).
  double Unit() { return static_cast<double>(Next() >> 11) * 0x1p-53; }
  double Normal() {
    const double radius = ::sqrt(-2.0 * ::log(1.0 - Unit()));
    return radius * ::cos(6.283185307179586476925 * Unit());
  }

  static unsigned long long Mixed(unsigned long long x) {
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
  }

 private:
  unsigned long long state_;
};

// Between two numbers; integers have both ends.
struct Uniform {
  template <typename T>
  static T Draw(Numbers& numbers, float a, float b, float) {
    if constexpr (std::is_integral<T>::value) {
      const auto range = static_cast<double>(b) - static_cast<double>(a) + 1.0;
      return static_cast<T>(static_cast<long long>(static_cast<double>(a)) +
                            static_cast<long long>(numbers.Unit() * range));
    } else {
      const double value = static_cast<double>(a) + numbers.Unit() * (static_cast<double>(b) - static_cast<double>(a));
      const T rounded = static_cast<T>(value);
      return static_cast<float>(rounded) > b ? static_cast<T>(b) : rounded;
    }
  }
};

// 1 with a probability.
struct Bernoulli {
  template <typename T>
  static T Draw(Numbers& numbers, float a, float, float) {
    return static_cast<T>(numbers.Unit() < static_cast<double>(a) ? 1 : 0);
  }
};

// Of a mean and a deviation.
struct Normal {
  template <typename T>
  static T Draw(Numbers& numbers, float a, float b, float) {
    return static_cast<T>(static_cast<double>(a) + static_cast<double>(b) * numbers.Normal());
  }
};

// The same, drawn again until it lies within so many deviations.
struct TruncatedNormal {
  template <typename T>
  static T Draw(Numbers& numbers, float a, float b, float most) {
    double value = numbers.Normal();
    while (!(::fabs(value) <= static_cast<double>(most))) value = numbers.Normal();
    return static_cast<T>(static_cast<double>(a) + static_cast<double>(b) * value);
  }
};

// The key of a call: its seed, or the tile's running generator.
class Seeded {
 public:
  Input<Vector<unsigned, VectorLayout::ONE_PTR>> seed;
  unsigned modifier;
  bool runs_on;

 protected:
  unsigned long long Key() const {
    if (runs_on) return __builtin_ipu_urand64();
    const unsigned long long both = static_cast<unsigned long long>(seed[1]) << 32 | seed[0];
    return Numbers::Mixed(both + Numbers::Mixed(modifier + 1ull));
  }
};

// Elements in ranges of the whole tensor, which begin at `first` and have `size` elements.
class Ranges : public Seeded {
 public:
  Vector<unsigned> first;
  Vector<unsigned> size;

 protected:
  // Calls work(element, numbers of its place) for the ranges of a worker.
  template <typename Work>
  void ForElements(unsigned worker, const Work& work) const {
    const unsigned long long key = Key();
    unsigned element = 0;
    for (unsigned range = 0; range < first.size(); ++range) {
      const popops::Share share(size[range], worker);
      for (unsigned i = share.begin; i < share.end; ++i) work(element + i, Numbers(key, first[range] + i));
      element += size[range];
    }
  }
};

template <typename Distribution, typename T>
class Draw : public MultiVertex, public Ranges {
 public:
  Output<Vector<T>> out;
  float a;
  float b;
  float c;

  void compute(unsigned worker) {
    ForElements(worker,
                [&](unsigned i, Numbers numbers) { out[i] = Distribution::template Draw<T>(numbers, a, b, c); });
  }
};

// Elements that are kept with a probability, and scaled.
template <typename T>
class Dropout : public MultiVertex, public Ranges {
 public:
  Input<Vector<T>> in;
  Output<Vector<T>> out;
  float keep;
  float scale;

  void compute(unsigned worker) {
    ForElements(worker, [&](unsigned i, Numbers numbers) {
      const bool is_kept = numbers.Unit() < static_cast<double>(keep);
      out[i] = is_kept ? static_cast<T>(static_cast<float>(in[i]) * scale) : T(0);
    });
  }
};

// The tile's generator from here on.
template <typename T>
class SetSeed : public Vertex, public Seeded {
 public:
  T tile;

  void compute() { ipu_tf_codelet_seed(Key() + Numbers::Mixed(tile + 1ull)); }
};

template class Draw<Uniform, float>;
template class Draw<Uniform, half>;
template class Draw<Uniform, int>;
template class Draw<Bernoulli, float>;
template class Draw<Bernoulli, half>;
template class Draw<Bernoulli, int>;
template class Draw<Normal, float>;
template class Draw<Normal, half>;
template class Draw<TruncatedNormal, float>;
template class Draw<TruncatedNormal, half>;
template class Dropout<float>;
template class Dropout<half>;
template class SetSeed<unsigned>;

}  // namespace poprand
