// Libraries of compiled codelets: the source that describes its vertex types, and what reads this description.
#ifndef IPU_TF_POPLAR_CODELET_LIBRARY_H_
#define IPU_TF_POPLAR_CODELET_LIBRARY_H_

#include <memory>
#include <string>
#include <vector>

#include "codelets.h"

namespace poplar {
inline namespace ipu_tf {
namespace detail {

// A text as a literal of C++.
std::string Quoted(const std::string& text);

// Source that includes the codelets, describes their vertices as text, and has a table of functions.
//
// Args:
//   source: Path of the codelets.
//   classes: Those of the codelets.
//   counted: Path of the build that counts instructions, without its suffixes.
std::string Registration(const std::string& source, const std::vector<VertexClass>& classes,
                         const std::string& counted);

// The vertex types of a library that such a source was compiled to. Raises file_load_error for any other.
std::vector<std::shared_ptr<const VertexType>> LoadCodelets(const std::string& library, const std::string& what);

}  // namespace detail
}  // namespace ipu_tf
}  // namespace poplar

#endif  // IPU_TF_POPLAR_CODELET_LIBRARY_H_
