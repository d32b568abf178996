// Declared with graphs.
#ifndef IPU_TF_POPLAR_TENSOR_CLONE_METHOD_HPP_
#define IPU_TF_POPLAR_TENSOR_CLONE_METHOD_HPP_

#include <poplar/Graph.hpp>

#endif  // IPU_TF_POPLAR_TENSOR_CLONE_METHOD_HPP_
