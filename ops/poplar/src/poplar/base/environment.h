// What comes from variables of the environment: options of engines, and how much is logged.
#ifndef IPU_TF_POPLAR_ENVIRONMENT_H_
#define IPU_TF_POPLAR_ENVIRONMENT_H_

#include <chrono>
#include <string>

#include <poplar/OptionFlags.hpp>

namespace poplar {
inline namespace ipu_tf {
namespace detail {

// The options of a program, then those of POPLAR_ENGINE_OPTIONS and POPLAR_RUNTIME_OPTIONS, which win. Raises
// invalid_option for a variable that holds no JSON object of plain values, and for a name of no option.
OptionFlags EngineOptions(const OptionFlags& of_program);

// Whether an option is "true"; raises invalid_option for a value that is neither that nor "false".
bool IsTrue(const OptionFlags& options, const std::string& name);

// Writes "poplar: WHAT (0.1 s)", the time since it started, if POPLAR_LOG_LEVEL is INFO, DEBUG or TRACE: to the error
// output, or where POPLAR_LOG_DEST says. Raises invalid_option for other words than the levels there are.
void LogTime(const std::string& what, std::chrono::steady_clock::time_point started);

}  // namespace detail
}  // namespace ipu_tf
}  // namespace poplar

#endif  // IPU_TF_POPLAR_ENVIRONMENT_H_
