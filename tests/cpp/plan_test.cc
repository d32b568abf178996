// Plans: partitions, and what is refused.
#include "../../ops/core/plan/plan.h"

#include "../../ops/core/convolutions/conv.h"
#include "check.h"

namespace ipu_tf::testing {
namespace {

TEST(PartitionsCoverTheirExtentOnce) {
  for (const int64_t extent : {1, 7, 16, 100}) {
    for (const int64_t grain : {1, 4, 16}) {
      for (int64_t parts = 1; parts <= (extent + grain - 1) / grain; ++parts) {
        const Partition partition{extent, parts, grain};
        int64_t at = 0;
        for (int64_t i = 0; i < parts; ++i) {
          CHECK(partition.begin(i) == at && partition.end(i) > at);
          CHECK(partition.begin(i) % grain == 0);
          at = partition.end(i);
        }
        CHECK(at == extent);
      }
    }
  }
}

TEST(PlansAreReadAndChecked) {
  MatMulPlan plan;
  CHECK(ParsePlan({}, ElementType::kHalf, &plan).empty() && plan.grain == 16);
  CHECK(ParsePlan({1, 2, 3, 4, 8}, ElementType::kFloat, &plan).empty() && plan.reduction == 4);
  CHECK(ParsePlan({1, 2}, ElementType::kFloat, &plan).find("has 5 entries") != std::string::npos);
  CHECK(ParsePlan({1, 2, 0, 4, 8}, ElementType::kFloat, &plan).find("at least 1") != std::string::npos);
  CHECK(CheckPartitions({{"rows", {4, 5, 1}}}).find("rows of 4 elements into 5 parts") != std::string::npos);
  CHECK(CheckPartitions({{"rows", {4, 4, 1}}}).empty());
}

}  // namespace
}  // namespace ipu_tf::testing
