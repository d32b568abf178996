// What functions of PopLibs note of their arguments; here, the name of their context alone.
#ifndef IPU_TF_POPUTIL_DEBUG_INFO_HPP_
#define IPU_TF_POPUTIL_DEBUG_INFO_HPP_

#include <string>

#include <poplar/DebugContext.hpp>
#include <poplar/Tensor.hpp>

namespace poputil {
inline namespace ipu_tf {

struct ArgMap {};

// A context: {info, "name"} names what is inside of it.
class PoplibsOpDebugInfo : public poplar::DebugContext {
 public:
  PoplibsOpDebugInfo(const poplar::DebugContext& debugContext, const ArgMap& = {}, const std::string& = "")
      : poplar::DebugContext(debugContext) {}

  void addOutputs(const ArgMap&) {}
  void addOutput(const poplar::Tensor&) {}
};

}  // namespace ipu_tf
}  // namespace poputil

#define DI_ARGS(...) \
  poputil::ArgMap {}
#define DI_ARG(...) \
  poputil::ArgMap {}

#endif  // IPU_TF_POPUTIL_DEBUG_INFO_HPP_
