// What a reduction does with two elements.
#ifndef IPU_TF_POPOPS_OPERATION_HPP_
#define IPU_TF_POPOPS_OPERATION_HPP_

namespace popops {
inline namespace ipu_tf {

enum class Operation { ADD, MUL, MIN, MAX, LOGICAL_AND, LOGICAL_OR, SQUARE_ADD, LOG_ADD };

}  // namespace ipu_tf
}  // namespace popops

#endif  // IPU_TF_POPOPS_OPERATION_HPP_
