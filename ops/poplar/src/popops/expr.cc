#include <popops/Expr.hpp>

#include <iterator>
#include <ostream>
#include <sstream>

#include "operations.h"

namespace popops {
inline namespace ipu_tf {
namespace detail {
namespace {

// In the order of the enumerations.
constexpr const char* kUnary[] = {
    "Abs",       "Asin",     "BitwiseNot", "Cbrt",    "Ceil",  "Cos",     "CountLeadingZeros",
    "Erf",       "Exp",      "Expm1",      "Exp2",    "Floor", "GeluErf", "Inv",
    "IsFinite",  "IsInf",    "IsNaN",      "Log",     "Log1p", "Not",     "Neg",
    "NearbyInt", "Popcount", "Relu",       "Signum",  "Sin",   "Tan",     "Tanh",
    "Round",     "Sqrt",     "Square",     "Sigmoid", "Rsqrt", "Trunc"};
constexpr const char* kBinary[] = {"Add",
                                   "Atan2",
                                   "BitwiseAnd",
                                   "BitwiseOr",
                                   "BitwiseXor",
                                   "BitwiseXnor",
                                   "Divide",
                                   "Equal",
                                   "Gte",
                                   "Gt",
                                   "InvStdDevToVariance",
                                   "Lte",
                                   "And",
                                   "Or",
                                   "Lt",
                                   "Max",
                                   "Min",
                                   "Mul",
                                   "NotEqual",
                                   "Pow",
                                   "Rem",
                                   "Shl",
                                   "Shr",
                                   "ShrSE",
                                   "Sub",
                                   "VarianceToInvStdDev"};
constexpr const char* kTernary[] = {"Clamp", "Select"};
static_assert(std::size(kUnary) == static_cast<int>(expr::UnaryOpType::TRUNC) + 1);
static_assert(std::size(kBinary) == static_cast<int>(expr::BinaryOpType::VARIANCE_TO_INV_STD_DEV) + 1);

}  // namespace

const char* NameOf(expr::UnaryOpType op) { return kUnary[static_cast<int>(op)]; }
const char* NameOf(expr::BinaryOpType op) { return kBinary[static_cast<int>(op)]; }
const char* NameOf(expr::TernaryOpType op) { return kTernary[static_cast<int>(op)]; }

}  // namespace detail

namespace expr {
namespace {

std::string Text(const Expr& expr) {
  std::ostringstream text;
  expr.print(text);
  return text.str();
}

}  // namespace

std::ostream& operator<<(std::ostream& stream, const Expr& expr) {
  expr.print(stream);
  return stream;
}

bool deepEquals(const Expr& a, const Expr& b) { return a.deepEquals(b); }

std::string detail::Operation::name(const std::vector<poplar::Tensor>& inputs) const {
  std::string text = Title();
  for (const Any& one : operands) text += "_" + one.name(inputs);
  return text;
}

bool detail::Operation::deepEquals(const Expr& other) const {
  const auto* same = dynamic_cast<const Operation*>(&other);
  if (same == nullptr || Title() != same->Title() || operands.size() != same->operands.size()) return false;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    if (!expr::deepEquals(operands[i], same->operands[i])) return false;
  }
  return true;
}

void detail::Operation::print(std::ostream& stream, unsigned, bool) const {
  stream << Title() << "(";
  for (std::size_t i = 0; i < operands.size(); ++i) stream << (i == 0 ? "" : ", ") << Text(operands[i]);
  stream << ")";
}

std::string Const::printValue() const {
  std::ostringstream text;
  if (IsFloating()) {
    text << number_;
  } else {
    text << static_cast<std::int64_t>(bits_);
  }
  return text.str();
}

std::string Const::name(const std::vector<poplar::Tensor>&) const { return "Const"; }

bool Const::deepEquals(const Expr& other) const {
  const auto* same = other.getAs<Const>();
  return same != nullptr && type_ == same->type_ && number_ == same->number_ && bits_ == same->bits_;
}

void Const::print(std::ostream& stream, unsigned, bool) const { stream << "Const(" << printValue() << ")"; }

std::string PlaceHolder::name(const std::vector<poplar::Tensor>&) const { return std::to_string(index_); }

bool PlaceHolder::deepEquals(const Expr& other) const {
  const auto* same = other.getAs<PlaceHolder>();
  return same != nullptr && index_ == same->index_;
}

void PlaceHolder::print(std::ostream& stream, unsigned, bool) const { stream << "_" << index_; }

std::string Cast::Title() const { return "Cast<" + type_.toString() + ">"; }
std::string UnaryOp::Title() const { return popops::detail::NameOf(type_); }
std::string BinaryOp::Title() const { return popops::detail::NameOf(type_); }
std::string TernaryOp::Title() const { return popops::detail::NameOf(type_); }

}  // namespace expr
}  // namespace ipu_tf
}  // namespace popops
