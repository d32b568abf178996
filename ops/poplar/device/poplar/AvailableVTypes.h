// Declared with the classes of vertices.
#ifndef IPU_TF_POPLAR_DEVICE_AVAILABLE_VTYPES_H_
#define IPU_TF_POPLAR_DEVICE_AVAILABLE_VTYPES_H_

#include <poplar/Vertex.hpp>

#endif  // IPU_TF_POPLAR_DEVICE_AVAILABLE_VTYPES_H_
