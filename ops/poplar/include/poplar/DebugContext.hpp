// Names of what a program makes, for messages and reports.
#ifndef IPU_TF_POPLAR_DEBUG_CONTEXT_HPP_
#define IPU_TF_POPLAR_DEBUG_CONTEXT_HPP_

#include <string>
#include <utility>

#include <poplar/StringRef.hpp>

namespace poplar {
inline namespace ipu_tf {

// A name of its own, or one below that of another context: "outer/inner".
class DebugContext {
 public:
  DebugContext() = default;
  DebugContext(const char* name) : name_(name) {}
  DebugContext(StringRef name) : name_(name) {}
  DebugContext(std::string name) : name_(std::move(name)) {}
  DebugContext(const DebugContext& outer, StringRef name)
      : name_(outer.name_.empty() ? std::string(name) : outer.name_ + "/" + std::string(name)) {}

  const std::string& getPathName() const { return name_; }

 private:
  std::string name_;
};

using DebugNameAndId = DebugContext;

}  // namespace ipu_tf
}  // namespace poplar

#endif  // IPU_TF_POPLAR_DEBUG_CONTEXT_HPP_
