// How an op is split over tiles (docs/numerics.md).
#ifndef IPU_TF_OPS_CORE_PLAN_H_
#define IPU_TF_OPS_CORE_PLAN_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "../elements/random.h"

namespace ipu_tf {

enum class ElementType { kFloat, kHalf };
enum class Rounding { kNearest, kStochastic };

// An extent split into parts of whole grains: part i is [begin(i), begin(i + 1)).
struct Partition {
  int64_t extent = 1;
  int64_t parts = 1;
  int64_t grain = 1;

  int64_t units() const { return (extent + grain - 1) / grain; }
  int64_t begin(int64_t part) const {
    const int64_t at = part * units() / parts * grain;
    return at < extent ? at : extent;
  }
  int64_t end(int64_t part) const { return begin(part + 1); }
};

struct MatMulPlan {
  int64_t batch = 1, rows = 1, columns = 1, reduction = 1;
  int64_t grain = 8;
};

struct ConvPlan {
  int64_t batch = 1, groups = 1, field_rows = 1, field_columns = 1;
  int64_t out_channels = 1, in_channels = 1, kernel_rows = 1, kernel_columns = 1;
  int64_t grain = 8;
};

// The numbers beside the plan that define the arithmetic of a call.
struct Numerics {
  ElementType type = ElementType::kFloat;
  bool half_partials = false;
  Rounding rounding = Rounding::kNearest;
  bool nanoo = false;
  RandomKey random;  // Of this execution; for stochastic rounding only.

  // The grain of rounding passes; 0 where partials stay float32.
  int64_t pass_grain(int64_t grain) const { return type == ElementType::kHalf && half_partials ? grain : 0; }
  bool stochastic() const { return type == ElementType::kHalf && rounding == Rounding::kStochastic; }
};

// Elements of one AMP pass: 16 for float16, 8 for float32.
int64_t DefaultGrain(ElementType type);

// Read the op attribute `plan`; an empty list is the plan of one tile. Return an error, or "".
std::string ParsePlan(const std::vector<int64_t>& values, ElementType type, MatMulPlan* plan);
std::string ParsePlan(const std::vector<int64_t>& values, ElementType type, ConvPlan* plan);

// Returns the error of the first partition that its extent cannot fill, or "".
std::string CheckPartitions(const std::vector<std::pair<const char*, Partition>>& partitions);

}  // namespace ipu_tf

#endif  // IPU_TF_OPS_CORE_PLAN_H_
