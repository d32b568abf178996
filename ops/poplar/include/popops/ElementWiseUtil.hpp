// Declared with the arithmetic of elements.
#ifndef IPU_TF_POPOPS_ELEMENT_WISE_UTIL_HPP_
#define IPU_TF_POPOPS_ELEMENT_WISE_UTIL_HPP_

#include <popops/ElementWise.hpp>

#endif  // IPU_TF_POPOPS_ELEMENT_WISE_UTIL_HPP_
