// The program PrintTensor is declared with the others.
#ifndef IPU_TF_POPLAR_PRINT_TENSOR_HPP_
#define IPU_TF_POPLAR_PRINT_TENSOR_HPP_

#include <poplar/Program.hpp>

#endif  // IPU_TF_POPLAR_PRINT_TENSOR_HPP_
