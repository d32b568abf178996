// What collectives compute. Values are reduced by a balanced tree over the numbers of the replicas, in float32 for
// float16 values, so the results depend neither on which replica comes first nor on how instances share the replicas
// out.
#include <algorithm>
#include <cstring>
#include <numeric>
#include <type_traits>

#include "absl/strings/str_cat.h"
#include "instance_exchange.h"
#include "replica_group.h"
#include "tensorflow/core/framework/types.h"

namespace ipu_tf {
namespace {

using tensorflow::Tensor;
using tensorflow::TensorShape;

template <typename T>
using Sum = std::conditional_t<std::is_same_v<T, Eigen::half> || std::is_same_v<T, tensorflow::bfloat16>, float, T>;

// Elements of all replicas that are reduced at once: they stay in the cache.
constexpr int64_t kBlock = 1024;

// The replicas of a group that have met in this process.
struct Members {
  int64_t first;  // Number of the first in the group.
  int64_t count;
  int64_t group;  // Replicas of the group.
};

// Calls `pair(left, right)` for the pairs of a balanced tree over the group that lie in this process, in order: 0 and
// 1, 2 and 3, ...; then 0 and 2, 4 and 6, ... The left one then stands for both. Numbers are those of the members.
template <typename Pair>
void ForEachPair(const Members& members, Pair pair) {
  const int64_t end = members.first + members.count;
  for (int64_t step = 1; step < members.group; step *= 2) {
    const int64_t width = 2 * step, start = (members.first + width - 1) / width * width;
    for (int64_t left = start; left + step < end; left += width) {
      const bool is_whole = std::min(left + width, members.group) <= end;
      if (is_whole) pair(left - members.first, left + step - members.first);
    }
  }
}

// The members that stand for all of them in the tree over the group.
std::vector<int64_t> Nodes(const Members& members) {
  std::vector<bool> stands(members.count, true);
  ForEachPair(members, [&](int64_t, int64_t right) { stands[right] = false; });
  std::vector<int64_t> nodes;
  for (int64_t member = 0; member < members.count; ++member) {
    if (stands[member]) nodes.push_back(member);
  }
  return nodes;
}

// The totals of the nodes, one after the other.
template <typename T, typename Leaf, typename Join>
std::vector<char> Totals(const Members& members, const std::vector<Tensor>& values, Leaf leaf, Join join) {
  using Total = Sum<T>;
  const int64_t elements = values[0].NumElements();
  const std::vector<int64_t> nodes = Nodes(members);
  std::vector<char> bytes(sizeof(Total) * elements * nodes.size());
  std::unique_ptr<Total[]> block(new Total[members.count * kBlock]);
  for (int64_t start = 0; start < elements; start += kBlock) {
    const int64_t size = std::min(kBlock, elements - start);
    for (int64_t member = 0; member < members.count; ++member) {
      const T* from = values[member].flat<T>().data() + start;
      Total* to = &block[member * kBlock];
      for (int64_t i = 0; i < size; ++i) to[i] = leaf(static_cast<Total>(from[i]));
    }
    ForEachPair(members, [&](int64_t left, int64_t right) {
      Total* to = &block[left * kBlock];
      const Total* from = &block[right * kBlock];
      for (int64_t i = 0; i < size; ++i) to[i] = join(to[i], from[i]);
    });
    for (size_t node = 0; node < nodes.size(); ++node) {
      std::memcpy(bytes.data() + sizeof(Total) * (node * elements + start), &block[nodes[node] * kBlock],
                  sizeof(Total) * size);
    }
  }
  return bytes;
}

// Gives `result` the totals of the whole group.
template <typename T>
void Write(const std::vector<char>& totals, bool is_mean, int64_t group, Tensor* result) {
  using Total = Sum<T>;
  auto out = result->flat<T>();
  const Total* from = reinterpret_cast<const Total*>(totals.data());
  for (int64_t i = 0; i < out.size(); ++i) {
    Total total = from[i];
    if constexpr (!std::is_same_v<T, bool>) {
      if (is_mean) total = total / static_cast<Total>(group);
    }
    out(i) = static_cast<T>(total);
  }
}

template <typename T>
absl::Status Reduce(const Collective& collective, const Members& members, const std::vector<Tensor>& values,
                    Tensor* result) {
  using Total = Sum<T>;
  const std::string& reduction = collective.reduction;
  const auto fold = [&](auto join, auto leaf) {
    std::vector<char> totals = Totals<T>(members, values, leaf, join);
    if (members.count < members.group) {
      std::vector<char> whole(sizeof(Total) * result->NumElements());
      const std::string type = tensorflow::DataTypeString(tensorflow::DataTypeToEnum<Total>::v());
      TF_RETURN_IF_ERROR(
          ExchangeWithInstances(collective, type, *result, members.first, members.count, totals, &whole));
      totals.swap(whole);
    }
    Write<T>(totals, reduction == "mean", members.group, result);
    return absl::OkStatus();
  };
  const auto plain = [](Total value) { return value; };
  if constexpr (std::is_same_v<T, bool>) {
    if (reduction == "logical_and") return fold([](bool a, bool b) { return a && b; }, plain);
    if (reduction == "logical_or") return fold([](bool a, bool b) { return a || b; }, plain);
  } else {
    const auto add = [](Total a, Total b) -> Total { return a + b; };
    if (reduction == "add" || reduction == "mean") return fold(add, plain);
    if (reduction == "mul") return fold([](Total a, Total b) -> Total { return a * b; }, plain);
    if (reduction == "min") return fold([](Total a, Total b) { return b < a ? b : a; }, plain);
    if (reduction == "max") return fold([](Total a, Total b) { return a < b ? b : a; }, plain);
    if (reduction == "square_add") return fold(add, [](Total value) -> Total { return value * value; });
  }
  return absl::InvalidArgumentError(absl::StrCat("Tensors of type ", tensorflow::DataTypeString(values[0].dtype()),
                                                 " cannot be reduced by '", reduction, "'."));
}

absl::Status Reduced(const Collective& collective, const Members& members, const std::vector<Tensor>& values,
                     Tensor* result) {
  *result = Tensor(values[0].dtype(), values[0].shape());
  switch (values[0].dtype()) {
    case tensorflow::DT_FLOAT:
      return Reduce<float>(collective, members, values, result);
    case tensorflow::DT_HALF:
      return Reduce<Eigen::half>(collective, members, values, result);
    case tensorflow::DT_BFLOAT16:
      return Reduce<tensorflow::bfloat16>(collective, members, values, result);
    case tensorflow::DT_INT32:
      return Reduce<int32_t>(collective, members, values, result);
    case tensorflow::DT_UINT32:
      return Reduce<uint32_t>(collective, members, values, result);
    case tensorflow::DT_INT8:
      return Reduce<int8_t>(collective, members, values, result);
    case tensorflow::DT_UINT8:
      return Reduce<uint8_t>(collective, members, values, result);
    case tensorflow::DT_INT64:
      return Reduce<int64_t>(collective, members, values, result);
    case tensorflow::DT_DOUBLE:
      return Reduce<double>(collective, members, values, result);
    case tensorflow::DT_BOOL:
      return Reduce<bool>(collective, members, values, result);
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

// Puts the values of all replicas of the group into `gathered`, in their order.
absl::Status Gather(const Collective& collective, const Members& members, const std::vector<Tensor>& values,
                    Tensor* gathered) {
  const size_t bytes = values[0].tensor_data().size();
  std::vector<char> own(bytes * values.size());
  for (size_t r = 0; r < values.size(); ++r) std::memcpy(&own[r * bytes], values[r].tensor_data().data(), bytes);
  std::vector<char> all;
  if (members.count < members.group) {
    all.resize(bytes * members.group);
    const std::string type = tensorflow::DataTypeString(values[0].dtype());
    TF_RETURN_IF_ERROR(ExchangeWithInstances(collective, type, values[0], members.first, members.count, own, &all));
    own.swap(all);
  }
  std::memcpy(BytesOf(gathered), own.data(), own.size());
  return absl::OkStatus();
}

}  // namespace

absl::Status Combine(const Collective& collective, int first, const std::vector<Tensor>& values,
                     std::vector<Tensor>* results) {
  const int64_t size = collective.group_size, count = static_cast<int64_t>(values.size());
  const Members members{first % size, count, size};
  for (const Tensor& value : values) {
    if (value.shape() != values[0].shape()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "The values of '", collective.site, "' differ in shape between replicas: ", values[0].shape().DebugString(),
          " and ", value.shape().DebugString(), "."));
    }
  }
  const size_t bytes = values[0].tensor_data().size();
  if (collective.reduction.empty()) {
    Tensor gathered(values[0].dtype(), WithFirst(values[0].shape(), size, false));
    TF_RETURN_IF_ERROR(Gather(collective, members, values, &gathered));
    if (collective.kind == "all-gather") {
      results->assign(count, gathered);
      return absl::OkStatus();
    }
    const size_t part = bytes / size;
    for (int64_t to = members.first; to < members.first + count; ++to) {
      Tensor& result = results->emplace_back(values[0].dtype(), values[0].shape());
      for (int64_t from = 0; from < size; ++from) {
        std::memcpy(BytesOf(&result) + from * part, BytesOf(&gathered) + from * bytes + to * part, part);
      }
    }
    return absl::OkStatus();
  }
  Tensor reduced;
  TF_RETURN_IF_ERROR(Reduced(collective, members, values, &reduced));
  if (collective.kind == "all-reduce") {
    results->assign(count, reduced);
    return absl::OkStatus();
  }
  const size_t part = bytes / size;
  for (int64_t r = members.first; r < members.first + count; ++r) {
    const TensorShape shape = WithFirst(reduced.shape(), reduced.dim_size(0) / size, true);
    Tensor& result = results->emplace_back(reduced.dtype(), shape);
    std::memcpy(BytesOf(&result), reduced.tensor_data().data() + r * part, part);
  }
  return absl::OkStatus();
}

}  // namespace ipu_tf
