// An expression with the types of its parts.
#ifndef IPU_TF_POPOPS_EXPRESSION_H_
#define IPU_TF_POPOPS_EXPRESSION_H_

#include <cstdint>
#include <string>
#include <vector>

#include <poplar/Tensor.hpp>
#include <poplar/Type.hpp>
#include <popops/Expr.hpp>

namespace popops {
inline namespace ipu_tf {
namespace detail {

// A part of an expression; its operands come before it.
struct Part {
  enum class Kind : std::uint8_t { kInput, kConstant, kCast, kOperation };
  Kind kind = Kind::kInput;
  bool has_type = false;
  poplar::Type type;
  unsigned input = 0;  // From 0 on.
  const expr::Const* constant = nullptr;
  std::string name;  // Of an operation.
  std::vector<std::size_t> operands;
  bool gives_truth = false;  // An operation that gives BOOL.
};

class Expression {
 public:
  // Raises poplibs_error if an input is missing, or operands of an operation have different types.
  Expression(const expr::Expr& expr, const std::vector<poplar::Tensor>& inputs, std::string call);

  const std::vector<Part>& parts() const { return parts_; }
  const Part& root() const { return parts_.back(); }
  poplar::Type type() const { return root().type; }

  // C++ of the value, given that of each input.
  std::string Code(std::size_t part, const std::vector<std::string>& inputs) const;
  // The operations with their types, as they are computed: "Mul_float.Add_float".
  std::vector<std::string> Operations() const;

 private:
  std::size_t Add(const expr::Expr& expr);
  std::size_t AddOperation(const expr::detail::Operation& operation, const std::string& name);
  void Unify(const std::vector<std::size_t>& operands, const std::string& name);
  void SetType(std::size_t part, poplar::Type type);
  void SetOwnTypes(std::size_t part);

  const std::vector<poplar::Tensor>& inputs_;
  std::string call_;
  std::vector<Part> parts_;
};

// A number as C++ of codelets writes it.
std::string Literal(const expr::Const& constant, poplar::Type type);
// As C++ of codelets writes it.
std::string CppName(poplar::Type type);

}  // namespace detail
}  // namespace ipu_tf
}  // namespace popops

#endif  // IPU_TF_POPOPS_EXPRESSION_H_
