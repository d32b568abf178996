// Declared with the classes of vertices.
#ifndef IPU_TF_POPLAR_DEVICE_IN_OUT_TYPES_HPP_
#define IPU_TF_POPLAR_DEVICE_IN_OUT_TYPES_HPP_

#include <poplar/Vertex.hpp>

#endif  // IPU_TF_POPLAR_DEVICE_IN_OUT_TYPES_HPP_
