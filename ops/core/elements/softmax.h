// Softmax of rows and its gradient, each with the dropout that may follow it.
#ifndef IPU_TF_OPS_CORE_SOFTMAX_H_
#define IPU_TF_OPS_CORE_SOFTMAX_H_

#include <cstdint>

#include "../kernels/kernels.h"
#include "../parallel.h"

namespace ipu_tf {

// Softmax of `rows` rows, of which `first` is the first one; the others follow it.
void Softmax(const SoftmaxRow& first, int64_t rows, const Kernels& kernels, const Parallel& parallel);

// The gradient of such rows.
void SoftmaxGradient(const SoftmaxGradientRow& first, int64_t rows, const Kernels& kernels, const Parallel& parallel);

}  // namespace ipu_tf

#endif  // IPU_TF_OPS_CORE_SOFTMAX_H_
