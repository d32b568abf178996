// What a reduction does with two elements.
#ifndef IPU_TF_POPOPS_OPERATION_HPP_
#define IPU_TF_POPOPS_OPERATION_HPP_

#include <iosfwd>

namespace popops {
inline namespace ipu_tf {

enum class Operation { ADD, MUL, MIN, MAX, LOGICAL_AND, LOGICAL_OR, SQUARE_ADD, LOG_ADD };

// "ADD".
std::ostream& operator<<(std::ostream& stream, const Operation& op);

}  // namespace ipu_tf
}  // namespace popops

#endif  // IPU_TF_POPOPS_OPERATION_HPP_
