// Operations element by element; shapes broadcast as in NumPy.
#ifndef IPU_TF_POPOPS_ELEMENT_WISE_HPP_
#define IPU_TF_POPOPS_ELEMENT_WISE_HPP_

#include <iosfwd>
#include <string>
#include <vector>

#include <poplar/DebugContext.hpp>
#include <poplar/Graph.hpp>
#include <poplar/OptionFlags.hpp>
#include <poplar/Program.hpp>
#include <popops/Expr.hpp>

namespace popops {
inline namespace ipu_tf {

// What every function takes behind its operands. Options have no effect.
#define IPU_TF_REST                                                               \
  poplar::program::Sequence &prog, const poplar::DebugContext &debugContext = {}, \
                                                              const poplar::OptionFlags &options = {}

// A new tensor with the values of an expression, mapped as the first tensor that has its shape. A single operation has
// a codelet of popops; others get one of their own, which is compiled at its first use.
poplar::Tensor map(poplar::Graph& graph, const expr::Expr& expr, const std::vector<poplar::Tensor>& ts, IPU_TF_REST);
// The first tensor gets the values.
void mapInPlace(poplar::Graph& graph, const expr::Expr& expr, const std::vector<poplar::Tensor>& ts, IPU_TF_REST);
void mapWithOutput(poplar::Graph& graph, const expr::Expr& expr, const std::vector<poplar::Tensor>& ts,
                   const poplar::Tensor& out, IPU_TF_REST);

// Several expressions of the same tensors; each reads what they held before.
std::vector<poplar::Tensor> map(poplar::Graph& graph, const std::vector<expr::Any>& exprs,
                                const std::vector<poplar::Tensor>& ts, IPU_TF_REST);
void mapInPlace(poplar::Graph& graph, const std::vector<expr::Any>& exprs, const std::vector<poplar::Tensor>& ts,
                IPU_TF_REST);
void mapWithOutput(poplar::Graph& graph, const std::vector<expr::Any>& exprs, const std::vector<poplar::Tensor>& ts,
                   const std::vector<poplar::Tensor>& outs, IPU_TF_REST);

// The source of the codelet that an expression would get.
void outputGeneratedCodelet(const poplar::Target& target, const expr::Expr& expr, const std::vector<poplar::Tensor>& ts,
                            const poplar::OptionFlags& options, std::ostream& stream);

inline poplar::Tensor map(poplar::Graph& graph, expr::UnaryOpType op, const poplar::Tensor& t, IPU_TF_REST) {
  return map(graph, expr::UnaryOp(op, expr::_1), {t}, prog, debugContext, options);
}
inline poplar::Tensor map(poplar::Graph& graph, expr::BinaryOpType op, const poplar::Tensor& a, const poplar::Tensor& b,
                          IPU_TF_REST) {
  return map(graph, expr::BinaryOp(op, expr::_1, expr::_2), {a, b}, prog, debugContext, options);
}
inline poplar::Tensor map(poplar::Graph& graph, expr::TernaryOpType op, const poplar::Tensor& a,
                          const poplar::Tensor& b, const poplar::Tensor& c, IPU_TF_REST) {
  return map(graph, expr::TernaryOp(op, expr::_1, expr::_2, expr::_3), {a, b, c}, prog, debugContext, options);
}
inline void mapInPlace(poplar::Graph& graph, expr::UnaryOpType op, const poplar::Tensor& t, IPU_TF_REST) {
  mapInPlace(graph, expr::UnaryOp(op, expr::_1), {t}, prog, debugContext, options);
}
inline void mapInPlace(poplar::Graph& graph, expr::BinaryOpType op, const poplar::Tensor& a, const poplar::Tensor& b,
                       IPU_TF_REST) {
  mapInPlace(graph, expr::BinaryOp(op, expr::_1, expr::_2), {a, b}, prog, debugContext, options);
}
inline void mapInPlace(poplar::Graph& graph, expr::TernaryOpType op, const poplar::Tensor& a, const poplar::Tensor& b,
                       const poplar::Tensor& c, IPU_TF_REST) {
  mapInPlace(graph, expr::TernaryOp(op, expr::_1, expr::_2, expr::_3), {a, b, c}, prog, debugContext, options);
}
inline void mapWithOutput(poplar::Graph& graph, expr::UnaryOpType op, const poplar::Tensor& in,
                          const poplar::Tensor& out, IPU_TF_REST) {
  mapWithOutput(graph, expr::UnaryOp(op, expr::_1), {in}, out, prog, debugContext, options);
}
inline void mapWithOutput(poplar::Graph& graph, expr::BinaryOpType op, const poplar::Tensor& a, const poplar::Tensor& b,
                          const poplar::Tensor& out, IPU_TF_REST) {
  mapWithOutput(graph, expr::BinaryOp(op, expr::_1, expr::_2), {a, b}, out, prog, debugContext, options);
}
inline void mapWithOutput(poplar::Graph& graph, expr::TernaryOpType op, const poplar::Tensor& a,
                          const poplar::Tensor& b, const poplar::Tensor& c, const poplar::Tensor& out, IPU_TF_REST) {
  mapWithOutput(graph, expr::TernaryOp(op, expr::_1, expr::_2, expr::_3), {a, b, c}, out, prog, debugContext, options);
}

// NAME gives a new tensor; NAMEInPlace writes the first operand, NAMEWithOutput a given tensor.
#define IPU_TF_UNARY(NAME, OP)                                                                           \
  inline poplar::Tensor NAME(poplar::Graph& graph, const poplar::Tensor& A, IPU_TF_REST) {               \
    return map(graph, expr::UnaryOpType::OP, A, prog, debugContext, options);                            \
  }                                                                                                      \
  inline void NAME##WithOutput(poplar::Graph& graph, const poplar::Tensor& A, const poplar::Tensor& out, \
                               IPU_TF_REST) {                                                            \
    mapWithOutput(graph, expr::UnaryOpType::OP, A, out, prog, debugContext, options);                    \
  }
#define IPU_TF_UNARY_IN_PLACE(NAME, OP)                                                   \
  IPU_TF_UNARY(NAME, OP)                                                                  \
  inline void NAME##InPlace(poplar::Graph& graph, const poplar::Tensor& A, IPU_TF_REST) { \
    mapInPlace(graph, expr::UnaryOpType::OP, A, prog, debugContext, options);             \
  }
IPU_TF_UNARY(isFinite, IS_FINITE)
IPU_TF_UNARY_IN_PLACE(abs, ABSOLUTE)
IPU_TF_UNARY_IN_PLACE(asin, ASIN)
IPU_TF_UNARY_IN_PLACE(bitwiseNot, BITWISE_NOT)
IPU_TF_UNARY_IN_PLACE(cbrt, CBRT)
IPU_TF_UNARY_IN_PLACE(ceil, CEIL)
IPU_TF_UNARY_IN_PLACE(cos, COS)
IPU_TF_UNARY_IN_PLACE(countLeadingZeros, COUNT_LEADING_ZEROS)
IPU_TF_UNARY_IN_PLACE(erf, ERF)
IPU_TF_UNARY_IN_PLACE(exp, EXPONENT)
IPU_TF_UNARY_IN_PLACE(exp2, EXPONENT2)
IPU_TF_UNARY_IN_PLACE(expm1, EXPONENT_MINUS_ONE)
IPU_TF_UNARY_IN_PLACE(floor, FLOOR)
IPU_TF_UNARY_IN_PLACE(geluErf, GELU_ERF)
IPU_TF_UNARY_IN_PLACE(inv, INVERSE)
IPU_TF_UNARY_IN_PLACE(log, LOGARITHM)
IPU_TF_UNARY_IN_PLACE(log1p, LOGARITHM_ONE_PLUS)
IPU_TF_UNARY_IN_PLACE(logicalNot, LOGICAL_NOT)
IPU_TF_UNARY_IN_PLACE(nearbyint, NEARBY_INT)
IPU_TF_UNARY_IN_PLACE(neg, NEGATE)
IPU_TF_UNARY_IN_PLACE(popcount, POPCOUNT)
IPU_TF_UNARY_IN_PLACE(round, ROUND)
IPU_TF_UNARY_IN_PLACE(rsqrt, RSQRT)
IPU_TF_UNARY_IN_PLACE(sigmoid, SIGMOID)
IPU_TF_UNARY_IN_PLACE(signum, SIGNUM)
IPU_TF_UNARY_IN_PLACE(sin, SIN)
IPU_TF_UNARY_IN_PLACE(sqrt, SQRT)
IPU_TF_UNARY_IN_PLACE(square, SQUARE)
IPU_TF_UNARY_IN_PLACE(tan, TAN)
IPU_TF_UNARY_IN_PLACE(tanh, TANH)
#undef IPU_TF_UNARY_IN_PLACE
#undef IPU_TF_UNARY

namespace detail {
// Raises poplibs_error unless a number of the host may stand beside elements of the type: fractions beside FLOAT and
// HALF, others beside the type of their own.
void CheckConstant(const char* call, const poplar::Type& elementType, const expr::Const& constant);
}  // namespace detail

// The same of two operands, one of which may be a number.
#define IPU_TF_BINARY(NAME, OP)                                                                                       \
  inline poplar::Tensor NAME(poplar::Graph& graph, const poplar::Tensor& A, const poplar::Tensor& B, IPU_TF_REST) {   \
    return map(graph, expr::BinaryOpType::OP, A, B, prog, debugContext, options);                                     \
  }                                                                                                                   \
  template <typename T, poplar::detail::IfNumber<T> = 0>                                                              \
  poplar::Tensor NAME(poplar::Graph& graph, const poplar::Tensor& A, T b, IPU_TF_REST) {                              \
    detail::CheckConstant(#NAME, A.elementType(), b);                                                                 \
    return map(graph, expr::BinaryOp(expr::BinaryOpType::OP, expr::_1, expr::Const(b)), {A}, prog, debugContext,      \
               options);                                                                                              \
  }                                                                                                                   \
  template <typename T, poplar::detail::IfNumber<T> = 0>                                                              \
  poplar::Tensor NAME(poplar::Graph& graph, T a, const poplar::Tensor& B, IPU_TF_REST) {                              \
    detail::CheckConstant(#NAME, B.elementType(), a);                                                                 \
    return map(graph, expr::BinaryOp(expr::BinaryOpType::OP, expr::Const(a), expr::_1), {B}, prog, debugContext,      \
               options);                                                                                              \
  }                                                                                                                   \
  inline void NAME##InPlace(poplar::Graph& graph, const poplar::Tensor& A, const poplar::Tensor& B, IPU_TF_REST) {    \
    mapInPlace(graph, expr::BinaryOpType::OP, A, B, prog, debugContext, options);                                     \
  }                                                                                                                   \
  template <typename T, poplar::detail::IfNumber<T> = 0>                                                              \
  void NAME##InPlace(poplar::Graph& graph, const poplar::Tensor& A, T b, IPU_TF_REST) {                               \
    detail::CheckConstant(#NAME "InPlace", A.elementType(), b);                                                       \
    mapInPlace(graph, expr::BinaryOp(expr::BinaryOpType::OP, expr::_1, expr::Const(b)), {A}, prog, debugContext,      \
               options);                                                                                              \
  }                                                                                                                   \
  inline void NAME##WithOutput(poplar::Graph& graph, const poplar::Tensor& A, const poplar::Tensor& B,                \
                               const poplar::Tensor& out, IPU_TF_REST) {                                              \
    mapWithOutput(graph, expr::BinaryOpType::OP, A, B, out, prog, debugContext, options);                             \
  }                                                                                                                   \
  template <typename T, poplar::detail::IfNumber<T> = 0>                                                              \
  void NAME##WithOutput(poplar::Graph& graph, const poplar::Tensor& A, T b, const poplar::Tensor& out, IPU_TF_REST) { \
    detail::CheckConstant(#NAME "WithOutput", A.elementType(), b);                                                    \
    mapWithOutput(graph, expr::BinaryOp(expr::BinaryOpType::OP, expr::_1, expr::Const(b)), {A}, out, prog,            \
                  debugContext, options);                                                                             \
  }                                                                                                                   \
  template <typename T, poplar::detail::IfNumber<T> = 0>                                                              \
  void NAME##WithOutput(poplar::Graph& graph, T a, const poplar::Tensor& B, const poplar::Tensor& out, IPU_TF_REST) { \
    detail::CheckConstant(#NAME "WithOutput", B.elementType(), a);                                                    \
    mapWithOutput(graph, expr::BinaryOp(expr::BinaryOpType::OP, expr::Const(a), expr::_1), {B}, out, prog,            \
                  debugContext, options);                                                                             \
  }
IPU_TF_BINARY(add, ADD)
IPU_TF_BINARY(atan2, ATAN2)
IPU_TF_BINARY(bitwiseAnd, BITWISE_AND)
IPU_TF_BINARY(bitwiseOr, BITWISE_OR)
IPU_TF_BINARY(bitwiseXnor, BITWISE_XNOR)
IPU_TF_BINARY(bitwiseXor, BITWISE_XOR)
IPU_TF_BINARY(div, DIVIDE)
IPU_TF_BINARY(eq, EQUAL)
IPU_TF_BINARY(gt, GREATER_THAN)
IPU_TF_BINARY(gteq, GREATER_THAN_EQUAL)
IPU_TF_BINARY(invStdDevToVariance, INV_STD_DEV_TO_VARIANCE)
IPU_TF_BINARY(logicalAnd, LOGICAL_AND)
IPU_TF_BINARY(logicalOr, LOGICAL_OR)
IPU_TF_BINARY(lt, LESS_THAN)
IPU_TF_BINARY(lteq, LESS_THAN_EQUAL)
IPU_TF_BINARY(max, MAXIMUM)
IPU_TF_BINARY(min, MINIMUM)
IPU_TF_BINARY(mul, MULTIPLY)
IPU_TF_BINARY(neq, NOT_EQUAL)
IPU_TF_BINARY(pow, POWER)
IPU_TF_BINARY(rem, REMAINDER)
IPU_TF_BINARY(shiftLeft, SHIFT_LEFT)
IPU_TF_BINARY(shiftRight, SHIFT_RIGHT)
IPU_TF_BINARY(shiftRightSignExtend, SHIFT_RIGHT_SIGN_EXTEND)
IPU_TF_BINARY(sub, SUBTRACT)
IPU_TF_BINARY(varianceToInvStdDev, VARIANCE_TO_INV_STD_DEV)
#undef IPU_TF_BINARY

// Of three: (if true, if false, conditions) and (values, minimums, maximums).
#define IPU_TF_TERNARY(NAME, OP)                                                                       \
  inline poplar::Tensor NAME(poplar::Graph& graph, const poplar::Tensor& A, const poplar::Tensor& B,   \
                             const poplar::Tensor& C, IPU_TF_REST) {                                   \
    return map(graph, expr::TernaryOpType::OP, A, B, C, prog, debugContext, options);                  \
  }                                                                                                    \
  inline void NAME##InPlace(poplar::Graph& graph, const poplar::Tensor& A, const poplar::Tensor& B,    \
                            const poplar::Tensor& C, IPU_TF_REST) {                                    \
    mapInPlace(graph, expr::TernaryOpType::OP, A, B, C, prog, debugContext, options);                  \
  }                                                                                                    \
  inline void NAME##WithOutput(poplar::Graph& graph, const poplar::Tensor& A, const poplar::Tensor& B, \
                               const poplar::Tensor& C, const poplar::Tensor& out, IPU_TF_REST) {      \
    mapWithOutput(graph, expr::TernaryOpType::OP, A, B, C, out, prog, debugContext, options);          \
  }
IPU_TF_TERNARY(select, SELECT)
IPU_TF_TERNARY(clamp, CLAMP)
#undef IPU_TF_TERNARY
#undef IPU_TF_REST

// The same as operations of two operands, with a result of another type.
poplar::Tensor varianceToInvStdDev(poplar::Graph& graph, const poplar::Tensor& src, const poplar::Tensor& epsilon,
                                   poplar::program::Sequence& prog, const poplar::Type dstType,
                                   const poplar::DebugContext& debugContext = {});
poplar::Tensor varianceToInvStdDev(poplar::Graph& graph, const poplar::Tensor& src, float epsilon,
                                   poplar::program::Sequence& prog, const poplar::Type dstType,
                                   const poplar::DebugContext& debugContext = {});
poplar::Tensor invStdDevToVariance(poplar::Graph& graph, const poplar::Tensor& src, const poplar::Tensor& epsilon,
                                   poplar::program::Sequence& prog, const poplar::Type dstType,
                                   const poplar::DebugContext& debugContext = {});
poplar::Tensor invStdDevToVariance(poplar::Graph& graph, const poplar::Tensor& src, float epsilon,
                                   poplar::program::Sequence& prog, const poplar::Type dstType,
                                   const poplar::DebugContext& debugContext = {});

}  // namespace ipu_tf
}  // namespace popops

// Where the vendor's header has it, too.
#include <popops/Cast.hpp>

#endif  // IPU_TF_POPOPS_ELEMENT_WISE_HPP_
