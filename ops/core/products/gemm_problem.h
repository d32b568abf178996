// What the driver of products (gemm.h) computes: rows given by address, a reduction over taps times a run of channels.
#ifndef IPU_TF_OPS_CORE_GEMM_PROBLEM_H_
#define IPU_TF_OPS_CORE_GEMM_PROBLEM_H_

#include <cstdint>
#include <vector>

#include "../kernels/kernels.h"
#include "epilogue.h"

namespace ipu_tf {

// Where the rows of a problem lie. Must be safe to call from several threads.
class RowSource {
 public:
  virtual ~RowSource() = default;
  // Writes for rows [begin, begin + count) the address of channel 0 of each tap to a[tap * stride + row], and of
  // the output row to c[row]. nullptr stands for a tap outside of the image.
  virtual void Fill(int64_t begin, int64_t count, const float** a, int64_t stride, float** c) const = 0;
  // Floats from the first tap of a row to its other taps, where these are the same for all rows without a tap
  // outside of the image; else nullptr.
  virtual const int64_t* TapOffsets() const { return nullptr; }
};

// The part of the reduction that one tile sums: taps [tap_begin, tap_end), channels [k_begin, k_end) of each.
struct ReductionPart {
  int64_t tap_begin, tap_end;
  int64_t k_begin, k_end;
};

// The second operand: element (tap, k, n) at data[tap_at[tap] + k * k_stride + n * n_stride].
struct Weights {
  const float* data = nullptr;
  std::vector<int64_t> tap_at;
  int64_t k_stride = 0;
  int64_t n_stride = 1;
};

// What a product updates: each output is an element of `weights` less the sum times `rate`. `weights` lie as the
// outputs do, `outputs` being the first of these; they may be the outputs.
struct WeightUpdate {
  const float* weights = nullptr;  // Null: the outputs are the sums.
  const float* outputs = nullptr;
  float rate = 0;
};

// rows x columns outputs, each the sum over `parts` in order.
struct GemmProblem {
  int64_t rows = 0;
  int64_t columns = 0;
  int64_t run = 0;  // Channels of a tap.
  Weights weights;
  std::vector<ReductionPart> parts;
  const RowSource* source = nullptr;
  int64_t column_offset = 0;    // Added to every output row address.
  int64_t transposed_step = 0;  // > 0: rows adjoin in memory, channels of the one tap lie this far apart.
  bool skip_outside = false;    // Do not form products of taps outside the image (else: of a zero).
  PassRounding rounding;
  WeightUpdate update;
  Epilogue epilogue;               // A bias begins at the first column, other tensors lie as the outputs do,
  const float* outputs = nullptr;  // this being the first of these.

  int64_t taps() const { return static_cast<int64_t>(weights.tap_at.size()); }
};

}  // namespace ipu_tf

#endif  // IPU_TF_OPS_CORE_GEMM_PROBLEM_H_
