// The operations of expressions, for one element. Functions that round give the number of T nearest to the result:
// they compute in double.
#ifndef IPU_TF_POPOPS_CODELETS_ELEMENTS_H_
#define IPU_TF_POPOPS_CODELETS_ELEMENTS_H_

#include <poplar/Vertex.hpp>

namespace popops {

template <typename T>
constexpr bool kIsFloat = false;
template <>
inline constexpr bool kIsFloat<float> = true;
template <>
inline constexpr bool kIsFloat<half> = true;

// Half as float; every other type as it is.
template <typename T>
struct Partial {
  using Type = T;
};
template <>
struct Partial<half> {
  using Type = float;
};

template <typename T>
struct Unsigned {
  using Type = std::make_unsigned_t<T>;
};
template <>
struct Unsigned<bool> {
  using Type = unsigned char;
};

// The elements of a worker: equal shares, the first workers have one more.
struct Share {
  Share(unsigned size, unsigned worker) {
    constexpr unsigned kWorkers = 6;
    const unsigned each = size / kWorkers;
    const unsigned rest = size % kWorkers;
    begin = worker * each + (worker < rest ? worker : rest);
    end = begin + each + (worker < rest ? 1 : 0);
  }
  unsigned begin;
  unsigned end;
};

// Fractions are cut off; of numbers that an integer does not hold, the nearest that it holds.
template <typename To, typename From>
inline To Converted(From from) {
  if constexpr (kIsFloat<From> && std::is_integral<To>::value && !std::is_same<To, bool>::value) {
    const double number = static_cast<double>(from);
    constexpr To kLeast = std::numeric_limits<To>::min();
    constexpr To kMost = std::numeric_limits<To>::max();
    if (!(number > static_cast<double>(kLeast))) return number != number ? To(0) : kLeast;
    return number >= static_cast<double>(kMost) ? kMost : static_cast<To>(number);
  } else {
    return static_cast<To>(from);
  }
}

namespace op {

#define ROUNDED(NAME, RESULT)                  \
  struct NAME {                                \
    template <typename T>                      \
    static T Of(T a) {                         \
      const double x = static_cast<double>(a); \
      return static_cast<T>(RESULT);           \
    }                                          \
  };
ROUNDED(Asin, ::asin(x))
ROUNDED(Cbrt, ::cbrt(x))
ROUNDED(Cos, ::cos(x))
ROUNDED(Erf, ::erf(x))
ROUNDED(Exp, ::exp(x))
ROUNDED(Expm1, ::expm1(x))
ROUNDED(Exp2, ::exp2(x))
ROUNDED(GeluErf, 0.5 * x * (1.0 + ::erf(x * 0.70710678118654752440)))
ROUNDED(Inv, 1.0 / x)
ROUNDED(Log, ::log(x))
ROUNDED(Log1p, ::log1p(x))
ROUNDED(Rsqrt, 1.0 / ::sqrt(x))
ROUNDED(Sigmoid, 1.0 / (1.0 + ::exp(-x)))
ROUNDED(Sin, ::sin(x))
ROUNDED(Sqrt, ::sqrt(x))
ROUNDED(Tan, ::tan(x))
ROUNDED(Tanh, ::tanh(x))
#undef ROUNDED

#define EXACT(NAME, RESULT)                    \
  struct NAME {                                \
    template <typename T>                      \
    static T Of(T a) {                         \
      if constexpr (kIsFloat<T>) {             \
        const float x = static_cast<float>(a); \
        return static_cast<T>(RESULT);         \
      } else {                                 \
        return a;                              \
      }                                        \
    }                                          \
  };
EXACT(Ceil, ceilf(x))
EXACT(Floor, floorf(x))
EXACT(NearbyInt, rintf(x))
EXACT(Round, roundf(x))
EXACT(Trunc, truncf(x))
#undef EXACT

#define SIMPLE(NAME, RESULT) \
  struct NAME {              \
    template <typename T>    \
    static auto Of(T x) {    \
      return RESULT;         \
    }                        \
  };
SIMPLE(Abs, static_cast<T>(x < T(0) || (kIsFloat<T> && x == T(0)) ? T(0) - x : x))
SIMPLE(BitwiseNot, static_cast<T>(~x))
SIMPLE(CountLeadingZeros, static_cast<T>(x == 0 ? 32 : __builtin_clz(static_cast<unsigned>(x))))
SIMPLE(IsFinite, static_cast<float>(x) - static_cast<float>(x) == 0.0f)
SIMPLE(IsInf, x == x && !(static_cast<float>(x) - static_cast<float>(x) == 0.0f))
SIMPLE(IsNaN, x != x)
SIMPLE(Neg, static_cast<T>(-x))
SIMPLE(Not, !x)
SIMPLE(Popcount, static_cast<T>(__builtin_popcount(static_cast<unsigned>(x))))
SIMPLE(Relu, x > T(0) ? x : T(0))
SIMPLE(Signum, static_cast<T>(x > T(0) ? T(1) : x < T(0) ? T(-1) : x))
SIMPLE(Square, static_cast<T>(x* x))
#undef SIMPLE

// Integers wrap around.
#define WRAPPED(NAME, SIGN)                                                              \
  struct NAME {                                                                          \
    template <typename T>                                                                \
    static T Of(T a, T b) {                                                              \
      if constexpr (kIsFloat<T>) {                                                       \
        return static_cast<T>(a SIGN b);                                                 \
      } else {                                                                           \
        using U = typename Unsigned<T>::Type;                                            \
        return static_cast<T>(static_cast<U>(static_cast<U>(a) SIGN static_cast<U>(b))); \
      }                                                                                  \
    }                                                                                    \
  };
WRAPPED(Add, +)
WRAPPED(Sub, -)
WRAPPED(Mul, *)
#undef WRAPPED

#define BINARY(NAME, RESULT)   \
  struct NAME {                \
    template <typename T>      \
    static auto Of(T a, T b) { \
      return RESULT;           \
    }                          \
  };
BINARY(And, a&& b)
BINARY(Atan2, static_cast<T>(::atan2(static_cast<double>(a), static_cast<double>(b))))
BINARY(BitwiseAnd, static_cast<T>(a& b))
BINARY(BitwiseOr, static_cast<T>(a | b))
BINARY(BitwiseXnor, static_cast<T>(~(a ^ b)))
BINARY(BitwiseXor, static_cast<T>(a ^ b))
BINARY(Equal, a == b)
BINARY(Gt, a > b)
BINARY(Gte, a >= b)
BINARY(InvStdDevToVariance,
       static_cast<T>(1.0 / (static_cast<double>(a) * static_cast<double>(a)) - static_cast<double>(b)))
BINARY(Lt, a < b)
BINARY(Lte, a <= b)
BINARY(Max, b > a || b != b ? b : a)
BINARY(Min, b < a || b != b ? b : a)
BINARY(NotEqual, a != b)
BINARY(Or, a || b)
BINARY(Shl, static_cast<T>(static_cast<typename Unsigned<T>::Type>(a) << (b & 31)))
BINARY(Shr, static_cast<T>(static_cast<typename Unsigned<T>::Type>(a) >> (b & 31)))
BINARY(ShrSE, static_cast<T>(static_cast<std::make_signed_t<T>>(a) >> (b & 31)))
BINARY(VarianceToInvStdDev, static_cast<T>(1.0 / ::sqrt(static_cast<double>(a) + static_cast<double>(b))))
#undef BINARY

// An integer divided by zero is zero, and the least integer by -1 wraps around: no instruction of the host traps.
struct Divide {
  template <typename T>
  static T Of(T a, T b) {
    if constexpr (kIsFloat<T>) return static_cast<T>(a / b);
    if (b == T(0)) return T(0);
    if constexpr (std::is_signed<T>::value && !kIsFloat<T>) {
      if (b == T(-1)) return Sub::Of(T(0), a);
    }
    return static_cast<T>(a / b);
  }
};

struct Rem {
  template <typename T>
  static T Of(T a, T b) {
    if constexpr (kIsFloat<T>) {
      return static_cast<T>(fmodf(static_cast<float>(a), static_cast<float>(b)));
    } else {
      return Sub::Of(a, Mul::Of(Divide::Of(a, b), b));
    }
  }
};

struct Pow {
  template <typename T>
  static T Of(T a, T b) {
    if constexpr (kIsFloat<T>) {
      return static_cast<T>(::pow(static_cast<double>(a), static_cast<double>(b)));
    } else {
      if (b < T(0)) return static_cast<T>(a == T(1) ? 1 : a == T(-1) ? (b % 2 == 0 ? 1 : -1) : 0);
      T result(1);
      for (; b != T(0); b = static_cast<T>(b / 2), a = Mul::Of(a, a)) {
        if (b % 2 != 0) result = Mul::Of(result, a);
      }
      return result;
    }
  }
};

struct Clamp {
  template <typename T>
  static T Of(T x, T least, T most) {
    return Min::Of(Max::Of(x, least), most);
  }
};

struct Select {
  template <typename T>
  static T Of(T a, T b, bool condition) {
    return condition ? a : b;
  }
};

}  // namespace op
}  // namespace popops

#endif  // IPU_TF_POPOPS_CODELETS_ELEMENTS_H_
