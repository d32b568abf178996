// The numbers of the device: half, and short vectors of half, float and integers.
#ifndef IPU_TF_POPLAR_DEVICE_IPUDEF_H_
#define IPU_TF_POPLAR_DEVICE_IPUDEF_H_

#include <stddef.h>
#include <stdint.h>

#include <utility>

#include <arch/gc_tile_defines.h>

typedef _Float16 half;
typedef unsigned rptsize_t;

namespace ipu_tf_device {

template <typename T, unsigned n>
struct Storage {
  T v[n];
};
template <typename T>
struct Storage<T, 2> {
  union {
    T v[2];
    struct {
      T x, y;
    };
  };
};
template <typename T>
struct Storage<T, 4> {
  union {
    T v[4];
    struct {
      T x, y, z, w;
    };
  };
};

// Elements in a row, with arithmetic element by element.
template <typename T, unsigned n>
struct alignas(sizeof(T) * n) ShortVector : Storage<T, n> {
  using value_type = T;
  ShortVector() = default;
  ShortVector(T value) {
    for (unsigned i = 0; i < n; ++i) this->v[i] = value;
  }
  template <typename... V>
  ShortVector(T first, T second, V... more) : Storage<T, n>{} {
    const T all[] = {first, second, static_cast<T>(more)...};
    static_assert(sizeof...(V) + 2 == n, "a short vector has a value for each element");
    for (unsigned i = 0; i < n; ++i) this->v[i] = all[i];
  }
  T& operator[](unsigned i) { return this->v[i]; }
  const T& operator[](unsigned i) const { return this->v[i]; }
};

#define IPU_TF_BINARY(OP)                                                                                      \
  template <typename T, unsigned n>                                                                            \
  inline ShortVector<T, n> operator OP(const ShortVector<T, n>& a, const ShortVector<T, n>& b) {               \
    ShortVector<T, n> result;                                                                                  \
    for (unsigned i = 0; i < n; ++i) result.v[i] = static_cast<T>(a.v[i] OP b.v[i]);                           \
    return result;                                                                                             \
  }                                                                                                            \
  template <typename T, unsigned n>                                                                            \
  inline ShortVector<T, n> operator OP(const ShortVector<T, n>& a, typename ShortVector<T, n>::value_type b) { \
    return a OP ShortVector<T, n>(b);                                                                          \
  }                                                                                                            \
  template <typename T, unsigned n>                                                                            \
  inline ShortVector<T, n> operator OP(typename ShortVector<T, n>::value_type a, const ShortVector<T, n>& b) { \
    return ShortVector<T, n>(a) OP b;                                                                          \
  }                                                                                                            \
  template <typename T, unsigned n, typename B>                                                                \
  inline ShortVector<T, n>& operator OP## = (ShortVector<T, n> & a, const B& b) {                              \
    return a = a OP b;                                                                                         \
  }
IPU_TF_BINARY(+)
IPU_TF_BINARY(-)
IPU_TF_BINARY(*)
IPU_TF_BINARY(/)
IPU_TF_BINARY(&)
IPU_TF_BINARY(|)
IPU_TF_BINARY(^)
#undef IPU_TF_BINARY

template <typename T, unsigned n>
inline ShortVector<T, n> operator-(const ShortVector<T, n>& a) {
  ShortVector<T, n> result;
  for (unsigned i = 0; i < n; ++i) result.v[i] = -a.v[i];
  return result;
}

// Comparisons give -1 for true, as vectors of g++ and clang do.
#define IPU_TF_COMPARE(OP)                                                                         \
  template <typename T, unsigned n>                                                                \
  inline ShortVector<int, n> operator OP(const ShortVector<T, n>& a, const ShortVector<T, n>& b) { \
    ShortVector<int, n> result;                                                                    \
    for (unsigned i = 0; i < n; ++i) result.v[i] = a.v[i] OP b.v[i] ? -1 : 0;                      \
    return result;                                                                                 \
  }
IPU_TF_COMPARE(<)
IPU_TF_COMPARE(>)
IPU_TF_COMPARE(<=)
IPU_TF_COMPARE(>=)
IPU_TF_COMPARE(==)
IPU_TF_COMPARE(!=)
#undef IPU_TF_COMPARE

// For structured bindings: auto [x, y] = pair.
template <std::size_t i, typename T, unsigned n>
inline T get(const ShortVector<T, n>& a) {
  return a.v[i];
}

// The worker that runs, of vertices that run on all.
inline thread_local unsigned worker = 0;

}  // namespace ipu_tf_device

template <typename T, unsigned n>
struct std::tuple_size<ipu_tf_device::ShortVector<T, n>> : std::integral_constant<std::size_t, n> {};
template <std::size_t i, typename T, unsigned n>
struct std::tuple_element<i, ipu_tf_device::ShortVector<T, n>> {
  using type = T;
};

using float2 = ipu_tf_device::ShortVector<float, 2>;
using float4 = ipu_tf_device::ShortVector<float, 4>;
using half2 = ipu_tf_device::ShortVector<half, 2>;
using half4 = ipu_tf_device::ShortVector<half, 4>;
using half8 = ipu_tf_device::ShortVector<half, 8>;
using int2 = ipu_tf_device::ShortVector<int, 2>;
using int4 = ipu_tf_device::ShortVector<int, 4>;
using uint2 = ipu_tf_device::ShortVector<unsigned, 2>;
using uint4 = ipu_tf_device::ShortVector<unsigned, 4>;
using short2 = ipu_tf_device::ShortVector<short, 2>;
using short4 = ipu_tf_device::ShortVector<short, 4>;
using ushort2 = ipu_tf_device::ShortVector<unsigned short, 2>;
using ushort4 = ipu_tf_device::ShortVector<unsigned short, 4>;
using char2 = ipu_tf_device::ShortVector<signed char, 2>;
using char4 = ipu_tf_device::ShortVector<signed char, 4>;
using uchar2 = ipu_tf_device::ShortVector<unsigned char, 2>;
using uchar4 = ipu_tf_device::ShortVector<unsigned char, 4>;

extern "C" unsigned ipu_tf_codelet_random(void);

// Random bits of the tile: the same for the same program.
inline unsigned __builtin_ipu_urand32() { return ipu_tf_codelet_random(); }
inline unsigned long long __builtin_ipu_urand64() {
  return static_cast<unsigned long long>(ipu_tf_codelet_random()) << 32 | ipu_tf_codelet_random();
}

// A register of the worker: its number, CSR_W_WSR__INDEX, is the only one there is.
inline unsigned __builtin_ipu_get(int) { return ipu_tf_device::worker; }

// Cycles of the tile until now, given the issue slots of this call.
extern "C" unsigned long ipu_tf_codelet_cycles(unsigned long slots);

// There only if a codelet calls it, so that its library says whether one does.
extern "C" __attribute__((noinline)) inline unsigned long ipu_tf_reads_cycles() {
  unsigned long slots = 0;
#ifdef IPU_TF_COUNTED
  asm volatile("movq %%r15, %0" : "=r"(slots) : : "memory");
#endif
  return ipu_tf_codelet_cycles(slots);
}

inline unsigned __builtin_ipu_get_scount_l() { return static_cast<unsigned>(ipu_tf_reads_cycles()); }
inline unsigned __builtin_ipu_get_scount_u() { return static_cast<unsigned>(ipu_tf_reads_cycles() >> 32); }

namespace ipu_tf_device {

#define IPU_TF_PICK(NAME, OP)                                                             \
  template <typename T>                                                                   \
  inline T NAME(T a, T b) {                                                               \
    return a OP b ? a : b;                                                                \
  }                                                                                       \
  template <typename T, unsigned n>                                                       \
  inline ShortVector<T, n> NAME(const ShortVector<T, n>& a, const ShortVector<T, n>& b) { \
    ShortVector<T, n> result;                                                             \
    for (unsigned i = 0; i < n; ++i) result.v[i] = a.v[i] OP b.v[i] ? a.v[i] : b.v[i];    \
    return result;                                                                        \
  }
IPU_TF_PICK(Min, <)
IPU_TF_PICK(Max, >)
#undef IPU_TF_PICK

}  // namespace ipu_tf_device

#define __builtin_ipu_min ipu_tf_device::Min
#define __builtin_ipu_max ipu_tf_device::Max

#endif  // IPU_TF_POPLAR_DEVICE_IPUDEF_H_
