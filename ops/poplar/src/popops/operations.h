// Names of the operations of expressions.
#ifndef IPU_TF_POPOPS_OPERATIONS_H_
#define IPU_TF_POPOPS_OPERATIONS_H_

#include <popops/ExprOp.hpp>

namespace popops {
inline namespace ipu_tf {
namespace detail {

// As the classes of codelets/elements.h, and as the model of costs reads them (ipu_tf/poplar/model/popops.py).
const char* NameOf(expr::UnaryOpType op);
const char* NameOf(expr::BinaryOpType op);
const char* NameOf(expr::TernaryOpType op);

}  // namespace detail
}  // namespace ipu_tf
}  // namespace popops

#endif  // IPU_TF_POPOPS_OPERATIONS_H_
