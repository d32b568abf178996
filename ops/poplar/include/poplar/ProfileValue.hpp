// Profiles of graphs and executions; there are none, and what would return one raises poplar_error.
#ifndef IPU_TF_POPLAR_PROFILE_VALUE_HPP_
#define IPU_TF_POPLAR_PROFILE_VALUE_HPP_

#include <iosfwd>

namespace poplar {
inline namespace ipu_tf {

class ProfileValue {};

void serializeToJSON(std::ostream& out, const ProfileValue& value, bool prettyPrint = false);

}  // namespace ipu_tf
}  // namespace poplar

#endif  // IPU_TF_POPLAR_PROFILE_VALUE_HPP_
