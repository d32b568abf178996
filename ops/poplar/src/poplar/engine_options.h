// Options of engines that come from outside of the program.
#ifndef IPU_TF_POPLAR_ENGINE_OPTIONS_H_
#define IPU_TF_POPLAR_ENGINE_OPTIONS_H_

#include <poplar/OptionFlags.hpp>

namespace poplar {
inline namespace ipu_tf {
namespace detail {

// Those of the variable POPLAR_ENGINE_OPTIONS; raises invalid_option if it holds no JSON object of plain values.
OptionFlags EnvironmentOptions();

}  // namespace detail
}  // namespace ipu_tf
}  // namespace poplar

#endif  // IPU_TF_POPLAR_ENGINE_OPTIONS_H_
