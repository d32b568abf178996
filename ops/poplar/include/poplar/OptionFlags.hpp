// Options by name.
#ifndef IPU_TF_POPLAR_OPTION_FLAGS_HPP_
#define IPU_TF_POPLAR_OPTION_FLAGS_HPP_

#include <initializer_list>
#include <iosfwd>
#include <map>
#include <string>
#include <utility>

#include <poplar/StringRef.hpp>

namespace poplar {
inline namespace ipu_tf {

class OptionFlags {
 public:
  using OptionFlag = std::pair<const std::string, std::string>;
  using initializer_list = std::initializer_list<OptionFlag>;
  using const_iterator = std::map<std::string, std::string>::const_iterator;

  OptionFlags() = default;
  OptionFlags(initializer_list options) : options_(options) {}

  // Sets one option, or replaces its value.
  void set(StringRef name, StringRef value) { options_[std::string(name)] = std::string(value); }
  void set(initializer_list options) {
    for (const auto& [name, value] : options) options_[name] = value;
  }
  void clear() { options_.clear(); }
  // The value of an option; throws std::out_of_range for one that is not set.
  const std::string& at(StringRef name) const { return options_.at(std::string(name)); }
  const_iterator find(StringRef name) const { return options_.find(std::string(name)); }
  const_iterator begin() const { return options_.begin(); }
  const_iterator end() const { return options_.end(); }

  friend bool operator==(const OptionFlags& a, const OptionFlags& b) { return a.options_ == b.options_; }
  friend bool operator<(const OptionFlags& a, const OptionFlags& b) { return a.options_ < b.options_; }

 private:
  std::map<std::string, std::string> options_;
};

// Sets the options of a JSON object of strings, numbers and booleans; raises parse_error for other text.
void readJSON(StringRef text, OptionFlags& options);
void readJSON(std::istream& stream, OptionFlags& options);

}  // namespace ipu_tf
}  // namespace poplar

#endif  // IPU_TF_POPLAR_OPTION_FLAGS_HPP_
