// Declared with the classes of vertices.
#ifndef IPU_TF_POPLAR_DEVICE_HALF_FLOAT_HPP_
#define IPU_TF_POPLAR_DEVICE_HALF_FLOAT_HPP_

#include <poplar/Vertex.hpp>

#endif  // IPU_TF_POPLAR_DEVICE_HALF_FLOAT_HPP_
