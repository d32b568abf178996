// The parts of an input gradient with strides, each a forward convolution.
#ifndef IPU_TF_OPS_CORE_GRADIENT_PHASE_H_
#define IPU_TF_OPS_CORE_GRADIENT_PHASE_H_

#include <cstdint>
#include <vector>

#include "conv_shape.h"
#include "padded_lines.h"

namespace ipu_tf {

// The positions along one side of a kernel that reach the pixels of dx at a remainder modulo the stride: `last`, and
// every `stride` positions before it.
struct PhaseTaps {
  int64_t count = 0, last = 0;
  int64_t pad_before = 0;  // Of dy.
};

// The pixels of dx whose row and column leave a remainder modulo the strides: the forward convolution of dy with the
// part of the flipped filter that reaches them.
struct GradientPhase {
  int64_t row, column;  // The remainders.
  PhaseTaps rows, columns;
  Window window;
};

// Those that have pixels, of a convolution without column dilation.
std::vector<GradientPhase> GradientPhases(const ConvShape& shape);

}  // namespace ipu_tf

#endif  // IPU_TF_OPS_CORE_GRADIENT_PHASE_H_
