// The intrinsics of a tile, computed by the host.
//
// Those of the matrix unit are refused by name: what fills and reads its registers is assembly of the chip.
#ifndef IPU_TF_POPLAR_DEVICE_IPU_BUILTINS_H_
#define IPU_TF_POPLAR_DEVICE_IPU_BUILTINS_H_

#include <math.h>
#include <string.h>

#include <ipudef.h>

extern "C" unsigned ipu_tf_codelet_random(void);
extern "C" unsigned ipu_tf_codelet_tile(void);
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

namespace ipu_tf_device {

template <typename T>
struct ElementOf {
  using type = T;
};
template <typename T, unsigned n>
struct ElementOf<ShortVector<T, n>> {
  using type = T;
};

template <typename To, typename From>
inline To Bits(From value) {
  static_assert(sizeof(To) == sizeof(From), "the bits of a value fill another one");
  To bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}

// All bits, or none.
inline float Mask(float, bool is_set) { return Bits<float>(is_set ? ~0u : 0u); }
inline half Mask(half, bool is_set) { return Bits<half>(static_cast<unsigned short>(is_set ? 0xffff : 0)); }

// A function of a number, or of each element of a short vector.
template <typename T, typename Work>
inline T Each(T a, const Work& work) {
  return work(a);
}
template <typename T, unsigned n, typename Work>
inline auto Each(const ShortVector<T, n>& a, const Work& work) {
  ShortVector<decltype(work(a.v[0])), n> result;
  for (unsigned i = 0; i < n; ++i) result.v[i] = work(a.v[i]);
  return result;
}
template <typename T, typename Work>
inline T EachOfTwo(T a, T b, const Work& work) {
  return work(a, b);
}
template <typename T, unsigned n, typename Work>
inline ShortVector<T, n> EachOfTwo(const ShortVector<T, n>& a, const ShortVector<T, n>& b, const Work& work) {
  ShortVector<T, n> result;
  for (unsigned i = 0; i < n; ++i) result.v[i] = work(a.v[i], b.v[i]);
  return result;
}

// A uniform number of [-0.5, 0.5).
inline float Uniform() { return static_cast<float>(ipu_tf_codelet_random() >> 8) * 0x1p-24f - 0.5f; }

// Two normal numbers (Box and Muller).
inline Float2 Normal() {
  const float radius = sqrtf(-2.0f * logf(0.5f - Uniform()));
  const float angle = 6.28318531f * Uniform();
  return {radius * cosf(angle), radius * sinf(angle)};
}

// The result of a call that does not compile.
struct Refused {
  template <typename T>
  operator T() const;
};

}  // namespace ipu_tf_device

// Registers. The number of the worker, CSR_W_WSR__INDEX, is the only one there is.
inline unsigned __builtin_ipu_get(int) { return ipu_tf_device::worker; }
inline unsigned __builtin_ipu_get_worker_id() { return ipu_tf_device::worker; }
inline unsigned __builtin_ipu_get_tile_id() { return ipu_tf_codelet_tile(); }
inline unsigned __builtin_ipu_get_scount_l() { return static_cast<unsigned>(ipu_tf_reads_cycles()); }
inline unsigned __builtin_ipu_get_scount_u() { return static_cast<unsigned>(ipu_tf_reads_cycles() >> 32); }

// Random numbers of the tile: the same for the same program.
inline unsigned __builtin_ipu_urand32() { return ipu_tf_codelet_random(); }
inline unsigned long long __builtin_ipu_urand64() {
  return static_cast<unsigned long long>(ipu_tf_codelet_random()) << 32 | ipu_tf_codelet_random();
}
inline float __builtin_ipu_urand_f32() { return ipu_tf_device::Uniform(); }
inline half __builtin_ipu_urand_f16() { return static_cast<half>(ipu_tf_device::Uniform()); }
inline ipu_tf_device::Float2 __builtin_ipu_f32v2grand() { return ipu_tf_device::Normal(); }
inline ipu_tf_device::Half2 __builtin_ipu_f16v2grand() {
  const ipu_tf_device::Float2 both = ipu_tf_device::Normal();
  return {static_cast<half>(both.x), static_cast<half>(both.y)};
}

inline float __builtin_ipu_f16tof32(half x) { return static_cast<float>(x); }
inline half __builtin_ipu_f32tof16(float x) { return static_cast<half>(x); }

// Functions of two numbers x and y, or of the elements of two short vectors.
#define IPU_TF_OF_TWO(NAME, RESULT)                                                              \
  template <typename T>                                                                          \
  inline T NAME(T a, T b) {                                                                      \
    return ipu_tf_device::EachOfTwo(a, b, [](auto x, auto y) -> decltype(x) { return RESULT; }); \
  }
IPU_TF_OF_TWO(__builtin_ipu_min, x < y ? x : y)
IPU_TF_OF_TWO(__builtin_ipu_max, x > y ? x : y)
IPU_TF_OF_TWO(__builtin_ipu_absadd, (x < 0 ? -x : x) + (y < 0 ? -y : y))
IPU_TF_OF_TWO(__builtin_ipu_absmax, __builtin_ipu_max<decltype(x)>(x < 0 ? -x : x, y < 0 ? -y : y))
// All bits where they hold.
IPU_TF_OF_TWO(__builtin_ipu_cmpeq, ipu_tf_device::Mask(x, x == y))
IPU_TF_OF_TWO(__builtin_ipu_cmpne, ipu_tf_device::Mask(x, x != y))
IPU_TF_OF_TWO(__builtin_ipu_cmplt, ipu_tf_device::Mask(x, x < y))
IPU_TF_OF_TWO(__builtin_ipu_cmple, ipu_tf_device::Mask(x, x <= y))
IPU_TF_OF_TWO(__builtin_ipu_cmpgt, ipu_tf_device::Mask(x, x > y))
IPU_TF_OF_TWO(__builtin_ipu_cmpge, ipu_tf_device::Mask(x, x >= y))
#undef IPU_TF_OF_TWO

// g++ takes functions of these names for functions of C, which have no overloads, but not templates.
#define IPU_TF_NAMED(NAME, FUNCTION)                                                     \
  template <typename... T>                                                               \
  inline auto NAME(const T&... values) -> decltype(ipu_tf_device::FUNCTION(values...)) { \
    return ipu_tf_device::FUNCTION(values...);                                           \
  }

namespace ipu_tf_device {

// The bits of integers, and of numbers.
#define IPU_TF_BITS(NAME, RESULT)                                                                     \
  inline int NAME(int x, int y) { return RESULT; }                                                    \
  inline int NAME(unsigned x, int y) { return static_cast<int>(RESULT); }                             \
  inline float NAME(float a, float b) {                                                               \
    const auto x = ipu_tf_device::Bits<unsigned>(a);                                                  \
    const auto y = ipu_tf_device::Bits<unsigned>(b);                                                  \
    return ipu_tf_device::Bits<float>(RESULT);                                                        \
  }                                                                                                   \
  inline ipu_tf_device::Float2 NAME(const ipu_tf_device::Float2& a, const ipu_tf_device::Float2& b) { \
    return {NAME(a.x, b.x), NAME(a.y, b.y)};                                                          \
  }
IPU_TF_BITS(And, x& y)
IPU_TF_BITS(AndNot, x & ~y)
IPU_TF_BITS(Or, x | y)
#undef IPU_TF_BITS

}  // namespace ipu_tf_device

IPU_TF_NAMED(__builtin_ipu_and, And)
IPU_TF_NAMED(__builtin_ipu_andc, AndNot)
IPU_TF_NAMED(__builtin_ipu_or, Or)

// Functions of a number x, or of the elements of a short vector; of halves through float.
#define IPU_TF_OF_ONE(NAME, RESULT)                                     \
  template <typename T>                                                 \
  inline T NAME(T a) {                                                  \
    return ipu_tf_device::Each(a, [](auto number) -> decltype(number) { \
      const auto x = static_cast<float>(number);                        \
      return static_cast<decltype(number)>(RESULT);                     \
    });                                                                 \
  }
IPU_TF_OF_ONE(__builtin_ipu_exp, expf(x))
IPU_TF_OF_ONE(__builtin_ipu_exp2, exp2f(x))
IPU_TF_OF_ONE(__builtin_ipu_ln, logf(x))
IPU_TF_OF_ONE(__builtin_ipu_log2, log2f(x))
IPU_TF_OF_ONE(__builtin_ipu_tanh, tanhf(x))
IPU_TF_OF_ONE(__builtin_ipu_sigm, 1.0f / (1.0f + expf(-x)))
#undef IPU_TF_OF_ONE

namespace ipu_tf_device {

// 1 for a number x that holds, -1 for each such element of a short vector.
#define IPU_TF_TEST(NAME, RESULT)                                                                  \
  inline int NAME(float x) { return (RESULT) ? 1 : 0; }                                            \
  inline ipu_tf_device::Int2 NAME(const ipu_tf_device::Float2& a) {                                \
    return ipu_tf_device::Each(a, [](float x) -> int { return (RESULT) ? -1 : 0; });               \
  }                                                                                                \
  template <unsigned n>                                                                            \
  inline ipu_tf_device::ShortVector<short, n> NAME(const ipu_tf_device::ShortVector<half, n>& a) { \
    return ipu_tf_device::Each(a, [](half number) -> short {                                       \
      const auto x = static_cast<float>(number);                                                   \
      return (RESULT) ? -1 : 0;                                                                    \
    });                                                                                            \
  }
IPU_TF_TEST(IsNan, x != x)
IPU_TF_TEST(IsInfinite, x == x && x - x != 0)
IPU_TF_TEST(IsFinite, x - x == 0)
#undef IPU_TF_TEST

inline float Sum(const Half2& a) { return static_cast<float>(a.v[0]) + static_cast<float>(a.v[1]); }
inline Float2 Sum(const Half4& a) { return {Sum(Half2{a.v[0], a.v[1]}), Sum(Half2{a.v[2], a.v[3]})}; }

}  // namespace ipu_tf_device

IPU_TF_NAMED(__builtin_ipu_isnan, IsNan)
IPU_TF_NAMED(__builtin_ipu_isinf, IsInfinite)
IPU_TF_NAMED(__builtin_ipu_isfinite, IsFinite)
IPU_TF_NAMED(__builtin_ipu_sum, Sum)
#undef IPU_TF_NAMED

// Between the two elements of a range.
template <typename T>
inline T __builtin_ipu_clamp(T a, ipu_tf_device::ShortVector<typename ipu_tf_device::ElementOf<T>::type, 2> range) {
  return ipu_tf_device::Each(a, [&](auto x) -> decltype(x) {
    return x < range.v[0] ? range.v[0] : x > range.v[1] ? range.v[1] : x;
  });
}

#define IPU_TF_REFUSED(NAME)                                                                                 \
  template <typename... T>                                                                                   \
  __attribute__((                                                                                            \
      error("the matrix unit of the chip is not here: give the C++ of the codelet"))) ipu_tf_device::Refused \
  NAME(T...);
IPU_TF_REFUSED(__builtin_ipu_ld128putcs)
IPU_TF_REFUSED(__builtin_ipu_f32v2aop)
IPU_TF_REFUSED(__builtin_ipu_f32v2gina)
IPU_TF_REFUSED(__builtin_ipu_f16v2gina)
IPU_TF_REFUSED(__builtin_ipu_gina)
IPU_TF_REFUSED(__builtin_ipu_cmac)
IPU_TF_REFUSED(__builtin_ipu_put)
IPU_TF_REFUSED(__builtin_ipu_uput)
IPU_TF_REFUSED(__builtin_ipu_uputf)
#undef IPU_TF_REFUSED

#endif  // IPU_TF_POPLAR_DEVICE_IPU_BUILTINS_H_
