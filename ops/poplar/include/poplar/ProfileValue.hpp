// Profiles of graphs and executions: the report as JSON.
#ifndef IPU_TF_POPLAR_PROFILE_VALUE_HPP_
#define IPU_TF_POPLAR_PROFILE_VALUE_HPP_

#include <iosfwd>
#include <string>
#include <utility>

namespace poplar {
inline namespace ipu_tf {

class ProfileValue {
 public:
  ProfileValue() = default;
  explicit ProfileValue(std::string json) : json_(std::move(json)) {}
  const std::string& json() const { return json_; }

 private:
  std::string json_;
};

void serializeToJSON(std::ostream& out, const ProfileValue& value, bool prettyPrint = false);

}  // namespace ipu_tf
}  // namespace poplar

#endif  // IPU_TF_POPLAR_PROFILE_VALUE_HPP_
