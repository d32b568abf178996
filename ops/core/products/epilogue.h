// What may follow a product at once: a bias and a ReLU, or another gradient that is added and the gradient of a ReLU;
// and what may go with a filter gradient: that of the bias.
#ifndef IPU_TF_OPS_CORE_EPILOGUE_H_
#define IPU_TF_OPS_CORE_EPILOGUE_H_

#include <cstdint>

#include "../kernels/kernels.h"
#include "../parallel.h"

namespace ipu_tf {

struct Epilogue {
  const float* bias = nullptr;    // One value a column; null: there is none.
  bool relu = false;              // After the bias.
  const float* addend = nullptr;  // Added, in the layout of the product; null: nothing is.
  // What left the ReLU whose gradient follows, in the layout of the product; null: no such gradient.
  const float* relu_output = nullptr;

  bool any() const { return bias != nullptr || addend != nullptr || relu_output != nullptr; }
};

// Applies an epilogue to a matrix whose rows adjoin.
void ApplyEpilogue(const Epilogue& epilogue, float* y, int64_t rows, int64_t columns, const Kernels& kernels,
                   const Parallel& parallel);

// sums[c] = sum over r of x[r * columns + c]: blocks of rows, side by side, then the blocks in order, so that the
// result does not depend on the number of threads.
void ColumnSums(const float* x, int64_t rows, int64_t columns, float* sums, const Kernels& kernels,
                const Parallel& parallel);

// The same of float16 numbers; sums are float32.
void ColumnSums(const uint16_t* x, int64_t rows, int64_t columns, float* sums, const Kernels& kernels,
                const Parallel& parallel);

}  // namespace ipu_tf

#endif  // IPU_TF_OPS_CORE_EPILOGUE_H_
