#include "expression.h"

#include <cmath>
#include <cstdio>

#include <poputil/exceptions.hpp>

#include "library.h"
#include "operations.h"

namespace popops {
inline namespace ipu_tf {
namespace detail {
namespace {

bool GivesTruth(const std::string& name) {
  for (const char* one :
       {"IsFinite", "IsInf", "IsNaN", "Not", "Equal", "Gte", "Gt", "Lte", "Lt", "And", "Or", "NotEqual"}) {
    if (name == one) return true;
  }
  return false;
}

bool IsOfIntegers(const std::string& name) {
  for (const char* one : {"BitwiseAnd", "BitwiseNot", "BitwiseOr", "BitwiseXnor", "BitwiseXor", "CountLeadingZeros",
                          "Popcount", "Shl", "Shr", "ShrSE"}) {
    if (name == one) return true;
  }
  return false;
}

}  // namespace

std::string CppName(poplar::Type type) { return type == poplar::SIGNED_CHAR ? "signed char" : type.toString(); }

std::string Literal(const expr::Const& constant, poplar::Type type) {
  const double number = constant.getDataAsDouble();
  const std::string cast = "static_cast<" + CppName(type) + ">(";
  if (!constant.IsFloating()) {
    const bool is_signed = constant.getType() != poplar::UNSIGNED_LONGLONG;
    const std::uint64_t bits = constant.getDataForUnsignedIntegral();
    return cast + (is_signed ? "(long long)" : "") + std::to_string(bits) + "ull)";
  }
  if (std::isnan(number)) return cast + "__builtin_nan(\"\"))";
  if (std::isinf(number)) return cast + (number < 0 ? "-" : "") + "__builtin_inf())";
  char text[40];
  std::snprintf(text, sizeof text, "%a", number);
  return cast + text + ")";
}

Expression::Expression(const expr::Expr& expr, const std::vector<poplar::Tensor>& inputs, std::string call)
    : inputs_(inputs), call_(std::move(call)) {
  Add(expr);
  if (!root().has_type) SetOwnTypes(parts_.size() - 1);
}

std::size_t Expression::Add(const expr::Expr& expr) {
  Part part;
  if (const auto* input = expr.getAs<expr::PlaceHolder>()) {
    if (input->getIndex() == 0 || input->getIndex() > inputs_.size()) {
      throw poputil::poplibs_error("popops::" + call_ + ": the expression has the input _" +
                                   std::to_string(input->getIndex()) + ", but there are " +
                                   std::to_string(inputs_.size()) + " tensors.");
    }
    part.input = input->getIndex() - 1;
    part.type = inputs_[part.input].elementType();
    part.has_type = true;
  } else if (const auto* constant = expr.getAs<expr::Const>()) {
    part.kind = Part::Kind::kConstant;
    part.constant = constant;
  } else if (const auto* cast = expr.getAs<expr::Cast>()) {
    part.operands.push_back(Add(cast->getLHS()));
    if (!parts_[part.operands[0]].has_type) SetOwnTypes(part.operands[0]);
    part.kind = Part::Kind::kCast;
    part.type = cast->getRHSType();
    part.has_type = true;
  } else if (const auto* unary = expr.getAs<expr::UnaryOp>()) {
    return AddOperation(*unary, NameOf(unary->getOpType()));
  } else if (const auto* binary = expr.getAs<expr::BinaryOp>()) {
    return AddOperation(*binary, NameOf(binary->getOpType()));
  } else if (const auto* ternary = expr.getAs<expr::TernaryOp>()) {
    return AddOperation(*ternary, NameOf(ternary->getOpType()));
  } else {
    throw poputil::poplibs_error("popops::" + call_ + ": this class of expressions is not known.");
  }
  parts_.push_back(std::move(part));
  return parts_.size() - 1;
}

std::size_t Expression::AddOperation(const expr::detail::Operation& operation, const std::string& name) {
  Part part;
  part.kind = Part::Kind::kOperation;
  part.name = name;
  part.gives_truth = GivesTruth(name);
  for (const expr::Any& one : operation.operands) part.operands.push_back(Add(one));
  std::vector<std::size_t> alike = part.operands;
  if (name == "Select") {
    alike.pop_back();
    Part& condition = parts_[part.operands[2]];
    if (!condition.has_type) SetType(part.operands[2], poplar::BOOL);
    if (parts_[part.operands[2]].type != poplar::BOOL) {
      throw poputil::poplibs_error("popops::" + call_ + ": the condition of a select is of BOOL. Received: " +
                                   parts_[part.operands[2]].type.toString() + ".");
    }
  }
  Unify(alike, name);
  part.has_type = part.gives_truth || parts_[alike[0]].has_type;
  part.type = part.gives_truth ? poplar::BOOL : parts_[alike[0]].type;
  if (part.gives_truth && !parts_[alike[0]].has_type) {
    for (const std::size_t one : alike) SetOwnTypes(one);
  }
  if ((name == "And" || name == "Or" || name == "Not") && parts_[alike[0]].type != poplar::BOOL) {
    throw poputil::poplibs_error("popops::" + call_ + ": the operands of " + name +
                                 " are of BOOL. Received: " + parts_[alike[0]].type.toString() + ".");
  }
  if (IsOfIntegers(name) && IsFloat(parts_[alike[0]].type)) {
    throw poputil::poplibs_error("popops::" + call_ + ": the operands of " + name +
                                 " are integers. Received: " + parts_[alike[0]].type.toString() + ".");
  }
  parts_.push_back(std::move(part));
  return parts_.size() - 1;
}

void Expression::Unify(const std::vector<std::size_t>& operands, const std::string& name) {
  const Part* typed = nullptr;
  for (const std::size_t one : operands) {
    if (!parts_[one].has_type) continue;
    if (typed != nullptr && typed->type != parts_[one].type) {
      throw poputil::poplibs_error("popops::" + call_ + ": the operands of " + name +
                                   " must have one type. Received: " + typed->type.toString() + " and " +
                                   parts_[one].type.toString() + ". Call popops::cast on one.");
    }
    typed = &parts_[one];
  }
  if (typed == nullptr) return;
  for (const std::size_t one : operands) {
    if (!parts_[one].has_type) SetType(one, typed->type);
  }
}

// Parts without a type consist of constants.
void Expression::SetType(std::size_t part, poplar::Type type) {
  Part& one = parts_[part];
  if (one.has_type) return;
  one.type = type;
  one.has_type = true;
  for (const std::size_t operand : one.operands) SetType(operand, type);
}

void Expression::SetOwnTypes(std::size_t part) {
  std::size_t first = part;
  while (parts_[first].kind != Part::Kind::kConstant) first = parts_[first].operands[0];
  SetType(part, parts_[first].constant->getType());
}

std::string Expression::Code(std::size_t number, const std::vector<std::string>& inputs) const {
  const Part& part = parts_[number];
  if (part.kind == Part::Kind::kInput) return inputs[part.input];
  if (part.kind == Part::Kind::kConstant) return Literal(*part.constant, part.type);
  std::string text =
      part.kind == Part::Kind::kCast ? "Converted<" + CppName(part.type) + ">(" : "op::" + part.name + "::Of(";
  for (std::size_t i = 0; i < part.operands.size(); ++i) {
    text += (i == 0 ? "" : ", ") + Code(part.operands[i], inputs);
  }
  return text + ")";
}

std::vector<std::string> Expression::Operations() const {
  std::vector<std::string> found;
  for (const Part& part : parts_) {
    if (part.kind == Part::Kind::kCast) found.push_back("Cast " + part.type.toString());
    if (part.kind == Part::Kind::kOperation) {
      found.push_back(part.name + " " + parts_[part.operands[0]].type.toString());
    }
  }
  return found;
}

}  // namespace detail
}  // namespace ipu_tf
}  // namespace popops
