// The numbers of the device: half, and short vectors of half, float and integers.
#ifndef IPU_TF_POPLAR_DEVICE_IPUDEF_H_
#define IPU_TF_POPLAR_DEVICE_IPUDEF_H_

#include <stddef.h>
#include <stdint.h>

#include <limits>
#include <utility>

#include <arch/gc_tile_defines.h>

typedef _Float16 half;

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

using Float2 = ShortVector<float, 2>;
using Half2 = ShortVector<half, 2>;
using Half4 = ShortVector<half, 4>;
using Int2 = ShortVector<int, 2>;

}  // namespace ipu_tf_device

template <typename T, unsigned n>
struct std::tuple_size<ipu_tf_device::ShortVector<T, n>> : std::integral_constant<std::size_t, n> {};
template <std::size_t i, typename T, unsigned n>
struct std::tuple_element<i, ipu_tf_device::ShortVector<T, n>> {
  using type = T;
};

// A codelet with short vectors of its own under these names has them (codelets.cc).
#ifndef IPU_TF_OWN_VECTORS
using float2 = ipu_tf_device::ShortVector<float, 2>;
using float4 = ipu_tf_device::ShortVector<float, 4>;
using half2 = ipu_tf_device::ShortVector<half, 2>;
using half4 = ipu_tf_device::ShortVector<half, 4>;
using half8 = ipu_tf_device::ShortVector<half, 8>;
using char2 = ipu_tf_device::ShortVector<signed char, 2>;
using char4 = ipu_tf_device::ShortVector<signed char, 4>;
using uchar2 = ipu_tf_device::ShortVector<unsigned char, 2>;
using uchar4 = ipu_tf_device::ShortVector<unsigned char, 4>;
using short2 = ipu_tf_device::ShortVector<short, 2>;
using short4 = ipu_tf_device::ShortVector<short, 4>;
using ushort2 = ipu_tf_device::ShortVector<unsigned short, 2>;
using ushort4 = ipu_tf_device::ShortVector<unsigned short, 4>;
using int2 = ipu_tf_device::ShortVector<int, 2>;
using int4 = ipu_tf_device::ShortVector<int, 4>;
using uint2 = ipu_tf_device::ShortVector<unsigned, 2>;
using uint4 = ipu_tf_device::ShortVector<unsigned, 4>;
using longlong2 = ipu_tf_device::ShortVector<long long, 2>;
using longlong4 = ipu_tf_device::ShortVector<long long, 4>;
using rptsize_t = unsigned;
#endif

constexpr half operator""_h(long double number) { return static_cast<half>(number); }

#ifndef __STDCPP_FLOAT16_T__
// What is known of half, which the standard library of C++17 leaves out.
template <>
struct std::numeric_limits<half> : std::numeric_limits<float> {
  static constexpr half min() noexcept { return 0x1p-14f; }
  static constexpr half max() noexcept { return 65504.0f; }
  static constexpr half lowest() noexcept { return -65504.0f; }
  static constexpr half epsilon() noexcept { return 0x1p-10f; }
  static constexpr half denorm_min() noexcept { return 0x1p-24f; }
  static constexpr half round_error() noexcept { return 0.5f; }
  static constexpr half infinity() noexcept { return std::numeric_limits<float>::infinity(); }
  static constexpr half quiet_NaN() noexcept { return std::numeric_limits<float>::quiet_NaN(); }
  static constexpr half signaling_NaN() noexcept { return std::numeric_limits<float>::signaling_NaN(); }
  static constexpr int digits = 11;
  static constexpr int digits10 = 3;
  static constexpr int max_digits10 = 5;
  static constexpr int min_exponent = -13;
  static constexpr int min_exponent10 = -4;
  static constexpr int max_exponent = 16;
  static constexpr int max_exponent10 = 4;
};
#endif

#endif  // IPU_TF_POPLAR_DEVICE_IPUDEF_H_
