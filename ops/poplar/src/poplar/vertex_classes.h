// Finds the vertices among the classes of compiled codelets.
#ifndef IPU_TF_POPLAR_VERTEX_CLASSES_H_
#define IPU_TF_POPLAR_VERTEX_CLASSES_H_

#include <string>
#include <vector>

#include "codelets.h"

namespace poplar {
inline namespace ipu_tf {
namespace detail {

struct VertexClass {
  std::string cpp_name;            // As C++ writes it.
  std::vector<std::string> names;  // Normal names; enumerators may be written in two ways.
  VertexType type;
};

// The classes derived from poplar::Vertex, MultiVertex or SupervisorVertex in a library with debug information.
std::vector<VertexClass> FindVertexClasses(const std::string& library);

}  // namespace detail
}  // namespace ipu_tf
}  // namespace poplar

#endif  // IPU_TF_POPLAR_VERTEX_CLASSES_H_
