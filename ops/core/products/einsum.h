// Binary einsums as batched matrix products.
#ifndef IPU_TF_OPS_CORE_EINSUM_H_
#define IPU_TF_OPS_CORE_EINSUM_H_

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace ipu_tf {

// What a label is to the product: an index of every factor, of the rows, of the columns, or summed over.
enum class AxisRole { kBatch, kRow, kColumn, kReduction };

struct EinsumAxis {
  AxisRole role;
  int64_t extent;
  int64_t a_stride, b_stride;  // Elements; 0 where the operand does not have the axis.
  int64_t output_stride;       // Elements; 0 for a summed axis.
};

struct Einsum {
  std::vector<EinsumAxis> axes;  // In the order of the output, summed ones last, in the order of `a`.
  std::vector<int64_t> output_shape;
};

// Analyses `equation` for operands of these shapes. Returns what tile ops cannot do about it, or "".
std::string ParseEinsum(const std::string& equation, const std::vector<int64_t>& a_shape,
                        const std::vector<int64_t>& b_shape, Einsum* einsum);

// A dimension of a strided tensor.
struct StridedAxis {
  int64_t extent, stride;
};

// to[dense, row-major over axes] = from[strided].
void CopyStrided(const float* from, const std::vector<StridedAxis>& axes, float* to);

// The inverse: to[strided] = from[dense].
void CopyToStrided(const float* from, const std::vector<StridedAxis>& axes, float* to);

// Merges axes of which each is the next one repeated; true if one stride is left (extent and stride are set).
bool Collapse(const std::vector<StridedAxis>& axes, StridedAxis* merged);

}  // namespace ipu_tf

#endif  // IPU_TF_OPS_CORE_EINSUM_H_
