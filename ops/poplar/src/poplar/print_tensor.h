// The text of PrintTensor.
#ifndef IPU_TF_POPLAR_PRINT_TENSOR_H_
#define IPU_TF_POPLAR_PRINT_TENSOR_H_

#include <cstdint>
#include <string>
#include <vector>

#include <poplar/Type.hpp>

namespace poplar {
inline namespace ipu_tf {
namespace detail {

// "title: [1 2]" and a line end; of a matrix, one line for each row.
std::string PrintedTensor(const std::string& title, const std::uint8_t* elements, Type type,
                          const std::vector<std::size_t>& shape);

}  // namespace detail
}  // namespace ipu_tf
}  // namespace poplar

#endif  // IPU_TF_POPLAR_PRINT_TENSOR_H_
