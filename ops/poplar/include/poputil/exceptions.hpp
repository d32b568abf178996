// The errors of PopLibs functions.
#ifndef IPU_TF_POPUTIL_EXCEPTIONS_HPP_
#define IPU_TF_POPUTIL_EXCEPTIONS_HPP_

#include <stdexcept>
#include <string>

namespace poputil {
inline namespace ipu_tf {

struct poplibs_error : std::runtime_error {
  explicit poplibs_error(const std::string& message) : std::runtime_error(message) {}
};

}  // namespace ipu_tf
}  // namespace poputil

#endif  // IPU_TF_POPUTIL_EXCEPTIONS_HPP_
