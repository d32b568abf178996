// Which extents a convolution's plan splits.
#include "../convolutions/conv.h"

namespace ipu_tf {

std::string CheckPlan(ConvPass pass, const ConvPlan& plan, const ConvShape& shape) {
  const bool input = pass == ConvPass::kInputGradient;
  const bool filter = pass == ConvPass::kFilterGradient;
  const int64_t rows = input ? shape.in_rows : shape.out_rows;
  const int64_t columns = input ? shape.in_columns : shape.out_columns;
  // The input gradient reduces over the filter's output channels.
  const int64_t from = input ? shape.group_out_channels() : shape.group_in_channels();
  const int64_t to = input ? shape.group_in_channels() : shape.group_out_channels();
  return CheckPartitions({{"batch", {shape.batch, plan.batch, 1}},
                          {"groups", {shape.groups, plan.groups, 1}},
                          {"field_rows", {rows, plan.field_rows, 1}},
                          {"field_columns", {columns, plan.field_columns, filter ? plan.grain : 1}},
                          {"out_channels", {to, plan.out_channels, 1}},
                          {"in_channels", {from, plan.in_channels, filter ? 1 : plan.grain}},
                          {"kernel_rows", {shape.kernel_rows, plan.kernel_rows, 1}},
                          {"kernel_columns", {shape.kernel_columns, plan.kernel_columns, 1}}});
}

}  // namespace ipu_tf
