// What collectives compute. Sums go through the replicas in their order, in float32 for float16 values, so they do not
// depend on which replica comes first.
#include <algorithm>
#include <cstring>
#include <type_traits>

#include "absl/strings/str_cat.h"
#include "replica_group.h"
#include "tensorflow/core/framework/types.h"

namespace ipu_tf {
namespace {

using tensorflow::Tensor;
using tensorflow::TensorShape;

template <typename T>
using Sum = std::conditional_t<std::is_same_v<T, Eigen::half> || std::is_same_v<T, tensorflow::bfloat16>, float, T>;

template <typename T, typename Step>
void Fold(const std::vector<Tensor>& values, Tensor* result, bool is_mean, Step step) {
  using Total = Sum<T>;
  auto out = result->flat<T>();
  const Total count = static_cast<Total>(values.size());
  std::vector<const T*> from;
  for (const Tensor& value : values) from.push_back(value.flat<T>().data());
  for (int64_t i = 0; i < out.size(); ++i) {
    Total total = step(Total(), static_cast<Total>(from[0][i]), true);
    for (size_t replica = 1; replica < from.size(); ++replica) {
      total = step(total, static_cast<Total>(from[replica][i]), false);
    }
    if constexpr (!std::is_same_v<T, bool>) {
      if (is_mean) total = total / count;
    }
    out(i) = static_cast<T>(total);
  }
}

template <typename T>
absl::Status Reduce(const std::string& reduction, const std::vector<Tensor>& values, Tensor* result) {
  using Total = Sum<T>;
  const auto fold = [&](auto combine) {
    Fold<T>(values, result, reduction == "mean", [combine](Total total, Total value, bool is_first) -> Total {
      return is_first ? value : combine(total, value);
    });
    return absl::OkStatus();
  };
  if constexpr (std::is_same_v<T, bool>) {
    if (reduction == "logical_and") return fold([](bool a, bool b) { return a && b; });
    if (reduction == "logical_or") return fold([](bool a, bool b) { return a || b; });
  } else {
    if (reduction == "add" || reduction == "mean") return fold([](Total a, Total b) { return a + b; });
    if (reduction == "mul") return fold([](Total a, Total b) { return a * b; });
    if (reduction == "min") return fold([](Total a, Total b) { return b < a ? b : a; });
    if (reduction == "max") return fold([](Total a, Total b) { return a < b ? b : a; });
    if (reduction == "square_add") {
      Fold<T>(values, result, false, [](Total total, Total value, bool is_first) -> Total {
        return is_first ? value * value : total + value * value;
      });
      return absl::OkStatus();
    }
  }
  return absl::InvalidArgumentError(absl::StrCat("Tensors of type ", tensorflow::DataTypeString(values[0].dtype()),
                                                 " cannot be reduced by '", reduction, "'."));
}

absl::Status Reduced(const std::string& reduction, const std::vector<Tensor>& values, Tensor* result) {
  *result = Tensor(values[0].dtype(), values[0].shape());
  switch (values[0].dtype()) {
    case tensorflow::DT_FLOAT:
      return Reduce<float>(reduction, values, result);
    case tensorflow::DT_HALF:
      return Reduce<Eigen::half>(reduction, values, result);
    case tensorflow::DT_BFLOAT16:
      return Reduce<tensorflow::bfloat16>(reduction, values, result);
    case tensorflow::DT_INT32:
      return Reduce<int32_t>(reduction, values, result);
    case tensorflow::DT_UINT32:
      return Reduce<uint32_t>(reduction, values, result);
    case tensorflow::DT_INT8:
      return Reduce<int8_t>(reduction, values, result);
    case tensorflow::DT_UINT8:
      return Reduce<uint8_t>(reduction, values, result);
    case tensorflow::DT_INT64:
      return Reduce<int64_t>(reduction, values, result);
    case tensorflow::DT_DOUBLE:
      return Reduce<double>(reduction, values, result);
    case tensorflow::DT_BOOL:
      return Reduce<bool>(reduction, values, result);
    default:
      break;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("Tensors of type ", tensorflow::DataTypeString(values[0].dtype()), " cannot be reduced."));
}

char* BytesOf(Tensor* tensor) { return const_cast<char*>(tensor->tensor_data().data()); }

TensorShape WithFirst(const TensorShape& shape, int64_t first, bool replaces) {
  TensorShape changed = shape;
  if (replaces) {
    changed.set_dim(0, first);
  } else {
    changed.InsertDim(0, first);
  }
  return changed;
}

}  // namespace

absl::Status Combine(const Collective& collective, const std::vector<Tensor>& values, std::vector<Tensor>* results) {
  const int64_t count = static_cast<int64_t>(values.size());
  for (const Tensor& value : values) {
    if (value.shape() != values[0].shape()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "The values of '", collective.site, "' differ in shape between replicas: ", values[0].shape().DebugString(),
          " and ", value.shape().DebugString(), "."));
    }
  }
  const size_t bytes = values[0].tensor_data().size();
  if (collective.kind == "all-gather") {
    Tensor gathered(values[0].dtype(), WithFirst(values[0].shape(), count, false));
    for (int64_t r = 0; r < count; ++r)
      std::memcpy(BytesOf(&gathered) + r * bytes, values[r].tensor_data().data(), bytes);
    results->assign(count, gathered);
    return absl::OkStatus();
  }
  if (collective.kind == "all-to-all") {
    const size_t part = bytes / count;
    for (int64_t to = 0; to < count; ++to) {
      Tensor& result = results->emplace_back(values[0].dtype(), values[0].shape());
      for (int64_t from = 0; from < count; ++from) {
        std::memcpy(BytesOf(&result) + from * part, values[from].tensor_data().data() + to * part, part);
      }
    }
    return absl::OkStatus();
  }
  Tensor reduced;
  TF_RETURN_IF_ERROR(Reduced(collective.reduction, values, &reduced));
  if (collective.kind == "all-reduce") {
    results->assign(count, reduced);
    return absl::OkStatus();
  }
  const size_t part = bytes / count;
  for (int64_t r = 0; r < count; ++r) {
    const TensorShape shape = WithFirst(reduced.shape(), reduced.dim_size(0) / count, true);
    Tensor& result = results->emplace_back(reduced.dtype(), shape);
    std::memcpy(BytesOf(&result), reduced.tensor_data().data() + r * part, part);
  }
  return absl::OkStatus();
}

}  // namespace ipu_tf
