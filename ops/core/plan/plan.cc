#include "plan.h"

namespace ipu_tf {
namespace {

// Copies `values` into `fields` after checking their number and sign.
std::string ParseFields(const std::vector<int64_t>& values, const char* layout, const std::vector<int64_t*>& fields) {
  if (values.empty()) return "";
  std::string received = "[";
  for (size_t i = 0; i < values.size(); ++i) {
    received += (i == 0 ? "" : ", ") + std::to_string(values[i]);
  }
  received += "]";
  if (values.size() != fields.size()) {
    return "a plan has " + std::to_string(fields.size()) + " entries, " + layout + ". Received: " + received;
  }
  for (size_t i = 0; i < values.size(); ++i) {
    if (values[i] < 1) {
      return std::string("every entry of a plan is at least 1, ") + layout + ". Received: " + received;
    }
    *fields[i] = values[i];
  }
  return "";
}

}  // namespace

int64_t DefaultGrain(ElementType type) { return type == ElementType::kHalf ? 16 : 8; }

std::string ParsePlan(const std::vector<int64_t>& values, ElementType type, MatMulPlan* plan) {
  plan->grain = DefaultGrain(type);
  return ParseFields(values, "[batch, rows, columns, reduction, grain]",
                     {&plan->batch, &plan->rows, &plan->columns, &plan->reduction, &plan->grain});
}

std::string ParsePlan(const std::vector<int64_t>& values, ElementType type, ConvPlan* plan) {
  plan->grain = DefaultGrain(type);
  return ParseFields(values,
                     "[batch, groups, field_rows, field_columns, out_channels, in_channels, "
                     "kernel_rows, kernel_columns, grain]",
                     {&plan->batch, &plan->groups, &plan->field_rows, &plan->field_columns, &plan->out_channels,
                      &plan->in_channels, &plan->kernel_rows, &plan->kernel_columns, &plan->grain});
}

std::string CheckPartitions(const std::vector<std::pair<const char*, Partition>>& partitions) {
  for (const auto& [name, p] : partitions) {
    if (p.parts <= p.units()) continue;
    std::string message = std::string("the plan splits ") + name + " of " + std::to_string(p.extent) + " elements";
    if (p.grain > 1) message += " (grain " + std::to_string(p.grain) + ")";
    return message + " into " + std::to_string(p.parts) + " parts; at most " + std::to_string(p.units()) +
           " are possible";
  }
  return "";
}

}  // namespace ipu_tf
