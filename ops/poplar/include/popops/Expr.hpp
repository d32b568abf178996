// Expressions of elements, which popops::map computes: (_1 + 1.0f) * _2.
#ifndef IPU_TF_POPOPS_EXPR_HPP_
#define IPU_TF_POPOPS_EXPR_HPP_

#include <cstdint>
#include <iosfwd>
#include <memory>
#include <string>
#include <type_traits>
#include <vector>

#include <poplar/Tensor.hpp>
#include <poplar/Type.hpp>
#include <popops/ExprOp.hpp>

namespace popops {
inline namespace ipu_tf {
namespace expr {

class Expr {
 public:
  virtual ~Expr() = default;
  virtual std::unique_ptr<Expr> clone() const = 0;
  // A word for reports: "Add_1_2".
  virtual std::string name(const std::vector<poplar::Tensor>& inputs) const = 0;
  virtual bool deepEquals(const Expr& other) const = 0;
  // "Add(_1, Const(2))".
  virtual void print(std::ostream& stream, unsigned indent = 0, bool prettyPrint = true) const = 0;

  template <class T>
  bool isA() const {
    return dynamic_cast<const T*>(this) != nullptr;
  }
  template <class T>
  T* getAs() {
    return dynamic_cast<T*>(this);
  }
  template <class T>
  const T* getAs() const {
    return dynamic_cast<const T*>(this);
  }
};

std::ostream& operator<<(std::ostream& stream, const Expr& expr);
bool deepEquals(const Expr& a, const Expr& b);

// An expression of any kind, by value.
class Any {
 public:
  Any(const Expr& expr) : expr_(expr.clone()) {}
  Any(const Any& other) : expr_(other.expr_->clone()) {}
  Any(Any&&) = default;
  Any& operator=(const Any& other) {
    expr_ = other.expr_->clone();
    return *this;
  }
  Any& operator=(Any&&) = default;
  operator Expr&() { return *expr_; }
  operator const Expr&() const { return *expr_; }
  std::string name(const std::vector<poplar::Tensor>& inputs) const { return expr_->name(inputs); }

 private:
  std::unique_ptr<Expr> expr_;
};

namespace detail {
// What every operation has: its operands.
class Operation : public Expr {
 public:
  Operation(const Operation& other) : operands(other.operands) {}
  virtual std::string Title() const = 0;
  std::vector<Any> operands;

  std::string name(const std::vector<poplar::Tensor>& inputs) const override;
  bool deepEquals(const Expr& other) const override;
  void print(std::ostream& stream, unsigned indent = 0, bool prettyPrint = true) const override;

 protected:
  explicit Operation(std::vector<Any> operands) : operands(std::move(operands)) {}
};

template <typename T>
using IfConstant = std::enable_if_t<std::is_arithmetic<T>::value, int>;

template <typename T>
poplar::Type ConstantType() {
  if constexpr (std::is_floating_point<T>::value) return poplar::FLOAT;
  if constexpr (std::is_same<T, bool>::value) return poplar::BOOL;
  if constexpr (sizeof(T) == 8) return std::is_signed<T>::value ? poplar::LONGLONG : poplar::UNSIGNED_LONGLONG;
  if constexpr (sizeof(T) == 4) return std::is_signed<T>::value ? poplar::INT : poplar::UNSIGNED_INT;
  if constexpr (sizeof(T) == 2) return std::is_signed<T>::value ? poplar::SHORT : poplar::UNSIGNED_SHORT;
  return std::is_signed<T>::value ? poplar::SIGNED_CHAR : poplar::UNSIGNED_CHAR;
}
}  // namespace detail

// A number. It takes the type of what it is computed with, or else its own.
class Const : public Expr {
 public:
  template <typename T, detail::IfConstant<T> = 0>
  Const(T value) : Const(value, detail::ConstantType<T>()) {}

  const poplar::Type& getType() const { return type_; }
  std::string printValue() const;
  double getDataAsDouble() const { return number_; }
  // The bits of an integer, which has 64 of them.
  std::uint64_t getDataForUnsignedIntegral() const { return bits_; }
  bool IsFloating() const { return type_ == poplar::FLOAT || type_ == poplar::HALF; }

  std::unique_ptr<Expr> clone() const override { return std::make_unique<Const>(*this); }
  std::string name(const std::vector<poplar::Tensor>&) const override;
  bool deepEquals(const Expr& other) const override;
  void print(std::ostream& stream, unsigned indent = 0, bool prettyPrint = true) const override;

 protected:
  template <typename T>
  Const(T value, poplar::Type type) : type_(type), number_(static_cast<double>(value)) {
    if constexpr (std::is_integral<T>::value) bits_ = static_cast<std::uint64_t>(value);
  }

 private:
  poplar::Type type_;
  double number_;
  std::uint64_t bits_ = 0;
};

class ConstHalf : public Const {
 public:
  ConstHalf(float value) : Const(value, poplar::HALF) {}
};
inline ConstHalf operator""_half(long double value) { return {static_cast<float>(value)}; }

// The input of a number, from 1 on.
class PlaceHolder : public Expr {
 public:
  PlaceHolder(unsigned index) : index_(index) {}
  unsigned getIndex() const { return index_; }
  std::unique_ptr<Expr> clone() const override { return std::make_unique<PlaceHolder>(*this); }
  std::string name(const std::vector<poplar::Tensor>&) const override;
  bool deepEquals(const Expr& other) const override;
  void print(std::ostream& stream, unsigned indent = 0, bool prettyPrint = true) const override;

 private:
  unsigned index_;
};

inline const PlaceHolder _1(1);
inline const PlaceHolder _2(2);
inline const PlaceHolder _3(3);
inline const PlaceHolder _4(4);
inline const PlaceHolder _5(5);
inline const PlaceHolder _6(6);
inline const PlaceHolder _7(7);
inline const PlaceHolder _8(8);
inline const PlaceHolder _9(9);
inline const PlaceHolder _10(10);
inline const PlaceHolder _11(11);
inline const PlaceHolder _12(12);
inline const PlaceHolder _13(13);
inline const PlaceHolder _14(14);
inline const PlaceHolder _15(15);
inline const PlaceHolder _16(16);
inline const PlaceHolder _17(17);
inline const PlaceHolder _18(18);
inline const PlaceHolder _19(19);
inline const PlaceHolder _20(20);

class Cast : public detail::Operation {
 public:
  Cast(const Expr& a, poplar::Type type) : Operation(std::vector<Any>{a}), type_(type) {}
  const Expr& getLHS() const { return operands[0]; }
  const poplar::Type& getRHSType() const { return type_; }
  std::unique_ptr<Expr> clone() const override { return std::make_unique<Cast>(*this); }
  std::string Title() const override;

 private:
  poplar::Type type_;
};

class UnaryOp : public detail::Operation {
 public:
  UnaryOp(UnaryOpType type, const Expr& a) : Operation(std::vector<Any>{a}), type_(type) {}
  UnaryOpType getOpType() const { return type_; }
  const Expr& getArg() const { return operands[0]; }
  std::unique_ptr<Expr> clone() const override { return std::make_unique<UnaryOp>(*this); }
  std::string Title() const override;

 private:
  UnaryOpType type_;
};

class BinaryOp : public detail::Operation {
 public:
  BinaryOp(BinaryOpType type, const Expr& a, const Expr& b) : Operation(std::vector<Any>{a, b}), type_(type) {}
  BinaryOpType getOpType() const { return type_; }
  const Expr& getLHS() const { return operands[0]; }
  const Expr& getRHS() const { return operands[1]; }
  std::unique_ptr<Expr> clone() const override { return std::make_unique<BinaryOp>(*this); }
  std::string Title() const override;

 private:
  BinaryOpType type_;
};

class TernaryOp : public detail::Operation {
 public:
  TernaryOp(TernaryOpType type, const Expr& a, const Expr& b, const Expr& c)
      : Operation(std::vector<Any>{a, b, c}), type_(type) {}
  TernaryOpType getOpType() const { return type_; }
  const Expr& getArg0() const { return operands[0]; }
  const Expr& getArg1() const { return operands[1]; }
  const Expr& getArg2() const { return operands[2]; }
  std::unique_ptr<Expr> clone() const override { return std::make_unique<TernaryOp>(*this); }
  std::string Title() const override;

 private:
  TernaryOpType type_;
};

#define IPU_TF_UNARY(NAME, OP)                           \
  class NAME : public UnaryOp {                          \
   public:                                               \
    NAME(const Expr& a) : UnaryOp(UnaryOpType::OP, a) {} \
  };
IPU_TF_UNARY(Abs, ABSOLUTE)
IPU_TF_UNARY(Asin, ASIN)
IPU_TF_UNARY(BitwiseNot, BITWISE_NOT)
IPU_TF_UNARY(Cbrt, CBRT)
IPU_TF_UNARY(Ceil, CEIL)
IPU_TF_UNARY(Cos, COS)
IPU_TF_UNARY(Erf, ERF)
IPU_TF_UNARY(Exp, EXPONENT)
IPU_TF_UNARY(Expm1, EXPONENT_MINUS_ONE)
IPU_TF_UNARY(Exp2, EXPONENT2)
IPU_TF_UNARY(Floor, FLOOR)
IPU_TF_UNARY(GeluErf, GELU_ERF)
IPU_TF_UNARY(Inv, INVERSE)
IPU_TF_UNARY(IsFinite, IS_FINITE)
IPU_TF_UNARY(IsInf, IS_INF)
IPU_TF_UNARY(IsNaN, IS_NAN)
IPU_TF_UNARY(Log, LOGARITHM)
IPU_TF_UNARY(Log1p, LOGARITHM_ONE_PLUS)
IPU_TF_UNARY(Not, LOGICAL_NOT)
IPU_TF_UNARY(Neg, NEGATE)
IPU_TF_UNARY(NearbyInt, NEARBY_INT)
IPU_TF_UNARY(Signum, SIGNUM)
IPU_TF_UNARY(Sin, SIN)
IPU_TF_UNARY(Tan, TAN)
IPU_TF_UNARY(Tanh, TANH)
IPU_TF_UNARY(Round, ROUND)
IPU_TF_UNARY(Trunc, TRUNC)
IPU_TF_UNARY(Sqrt, SQRT)
IPU_TF_UNARY(Square, SQUARE)
IPU_TF_UNARY(Sigmoid, SIGMOID)
IPU_TF_UNARY(Rsqrt, RSQRT)
#undef IPU_TF_UNARY
inline BitwiseNot operator~(const Expr& a) { return {a}; }
inline Not operator!(const Expr& a) { return {a}; }
inline Neg operator-(const Expr& a) { return {a}; }

#define IPU_TF_BINARY(NAME, OP)                                              \
  class NAME : public BinaryOp {                                             \
   public:                                                                   \
    NAME(const Expr& a, const Expr& b) : BinaryOp(BinaryOpType::OP, a, b) {} \
  };
#define IPU_TF_BINARY_OF(NAME, OP, SIGN)                                     \
  IPU_TF_BINARY(NAME, OP)                                                    \
  inline NAME operator SIGN(const Expr& a, const Expr& b) { return {a, b}; } \
  template <typename T, detail::IfConstant<T> = 0>                           \
  inline NAME operator SIGN(T a, const Expr& b) {                            \
    return {Const(a), b};                                                    \
  }                                                                          \
  template <typename T, detail::IfConstant<T> = 0>                           \
  inline NAME operator SIGN(const Expr& a, T b) {                            \
    return {a, Const(b)};                                                    \
  }
IPU_TF_BINARY_OF(Add, ADD, +)
IPU_TF_BINARY(Atan2, ATAN2)
IPU_TF_BINARY_OF(BitwiseAnd, BITWISE_AND, &)
IPU_TF_BINARY_OF(BitwiseOr, BITWISE_OR, |)
IPU_TF_BINARY_OF(BitwiseXor, BITWISE_XOR, ^)
IPU_TF_BINARY(BitwiseXnor, BITWISE_XNOR)
IPU_TF_BINARY_OF(Divide, DIVIDE, /)
IPU_TF_BINARY_OF(Equal, EQUAL, ==)
IPU_TF_BINARY_OF(Gte, GREATER_THAN_EQUAL, >=)
IPU_TF_BINARY_OF(Gt, GREATER_THAN, >)
IPU_TF_BINARY(InvStdDevToVariance, INV_STD_DEV_TO_VARIANCE)
IPU_TF_BINARY_OF(Lte, LESS_THAN_EQUAL, <=)
IPU_TF_BINARY_OF(And, LOGICAL_AND, &&)
IPU_TF_BINARY_OF(Or, LOGICAL_OR, ||)
IPU_TF_BINARY_OF(Lt, LESS_THAN, <)
IPU_TF_BINARY(Max, MAXIMUM)
IPU_TF_BINARY(Min, MINIMUM)
IPU_TF_BINARY_OF(Mul, MULTIPLY, *)
IPU_TF_BINARY_OF(NotEqual, NOT_EQUAL, !=)
IPU_TF_BINARY(Pow, POWER)
IPU_TF_BINARY_OF(Rem, REMAINDER, %)
IPU_TF_BINARY_OF(Shl, SHIFT_LEFT, <<)
IPU_TF_BINARY_OF(Shr, SHIFT_RIGHT, >>)
IPU_TF_BINARY(ShrSE, SHIFT_RIGHT_SIGN_EXTEND)
IPU_TF_BINARY_OF(Sub, SUBTRACT, -)
IPU_TF_BINARY(VarianceToInvStdDev, VARIANCE_TO_INV_STD_DEV)
#undef IPU_TF_BINARY_OF
#undef IPU_TF_BINARY

class Select : public TernaryOp {
 public:
  Select(const Expr& a, const Expr& b, const Expr& c) : TernaryOp(TernaryOpType::SELECT, a, b, c) {}
};
class Clamp : public TernaryOp {
 public:
  Clamp(const Expr& a, const Expr& b, const Expr& c) : TernaryOp(TernaryOpType::CLAMP, a, b, c) {}
};

}  // namespace expr
}  // namespace ipu_tf
}  // namespace popops

#endif  // IPU_TF_POPOPS_EXPR_HPP_
