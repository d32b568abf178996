// Division of sizes.
#ifndef IPU_TF_POPUTIL_DIVISION_H_
#define IPU_TF_POPUTIL_DIVISION_H_

#include <cstddef>

namespace poputil {
inline namespace ipu_tf {

inline std::size_t CeilDivide(std::size_t n, std::size_t d) { return (n + d - 1) / d; }

}  // namespace ipu_tf
}  // namespace poputil

#endif  // IPU_TF_POPUTIL_DIVISION_H_
