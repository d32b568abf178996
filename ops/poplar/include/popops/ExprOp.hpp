// The operations of expressions.
#ifndef IPU_TF_POPOPS_EXPR_OP_HPP_
#define IPU_TF_POPOPS_EXPR_OP_HPP_

namespace popops {
inline namespace ipu_tf {
namespace expr {

enum class UnaryOpType {
  ABSOLUTE,
  ASIN,
  BITWISE_NOT,
  CBRT,
  CEIL,
  COS,
  COUNT_LEADING_ZEROS,
  ERF,
  EXPONENT,
  EXPONENT_MINUS_ONE,
  EXPONENT2,
  FLOOR,
  GELU_ERF,
  INVERSE,
  IS_FINITE,
  IS_INF,
  IS_NAN,
  LOGARITHM,
  LOGARITHM_ONE_PLUS,
  LOGICAL_NOT,
  NEGATE,
  NEARBY_INT,
  POPCOUNT,
  RELU,
  SIGNUM,
  SIN,
  TAN,
  TANH,
  ROUND,
  SQRT,
  SQUARE,
  SIGMOID,
  RSQRT,
  TRUNC
};

enum class BinaryOpType {
  ADD,
  ATAN2,
  BITWISE_AND,
  BITWISE_OR,
  BITWISE_XOR,
  BITWISE_XNOR,
  DIVIDE,
  EQUAL,
  GREATER_THAN_EQUAL,
  GREATER_THAN,
  INV_STD_DEV_TO_VARIANCE,  // 1 / (a * a) - b
  LESS_THAN_EQUAL,
  LOGICAL_AND,
  LOGICAL_OR,
  LESS_THAN,
  MAXIMUM,
  MINIMUM,
  MULTIPLY,
  NOT_EQUAL,
  POWER,
  REMAINDER,  // With the sign of the first.
  SHIFT_LEFT,
  SHIFT_RIGHT,  // Zeros come in.
  SHIFT_RIGHT_SIGN_EXTEND,
  SUBTRACT,
  VARIANCE_TO_INV_STD_DEV  // 1 / sqrt(a + b)
};

// Clamp is (value, minimum, maximum); select is (if true, if false, condition).
enum class TernaryOpType { CLAMP, SELECT };

}  // namespace expr
}  // namespace ipu_tf
}  // namespace popops

#endif  // IPU_TF_POPOPS_EXPR_OP_HPP_
