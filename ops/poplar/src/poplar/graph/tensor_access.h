// The elements behind tensors: ranges of variables, read without an object for each.
#ifndef IPU_TF_POPLAR_TENSOR_ACCESS_H_
#define IPU_TF_POPLAR_TENSOR_ACCESS_H_

#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

#include <poplar/Tensor.hpp>

namespace poplar {
inline namespace ipu_tf {
namespace detail {

struct GraphState;

// Elements of one variable, from begin on.
struct Run {
  std::uint32_t variable;
  std::uint64_t begin;
  std::uint64_t size;
};

// An ordered list of elements; tensors are strided views of it.
struct Elements {
  const GraphState* graph = nullptr;
  std::vector<Run> runs;
  std::vector<std::uint64_t> starts;  // The place of each run in the list.
  std::uint64_t total = 0;

  void Append(const Run& run) {
    if (run.size == 0) return;
    if (!runs.empty() && runs.back().variable == run.variable && runs.back().begin + runs.back().size == run.begin) {
      runs.back().size += run.size;
    } else {
      runs.push_back(run);
      starts.push_back(total);
    }
    total += run.size;
  }
};

struct TensorAccess {
  static Tensor Make(std::shared_ptr<const Elements> elements, Type type, const std::vector<std::size_t>& shape);
  static const Elements& ElementsOf(const Tensor& tensor) { return *tensor.elements_; }
  static std::int64_t StrideOf(const Tensor& tensor, unsigned d) { return tensor.strides_[d]; }
  static const GraphState* GraphOf(const Tensor& tensor) {
    return tensor.elements_ ? tensor.elements_->graph : nullptr;
  }

  // Calls work(begin, size, step) for the stretches of the list of elements that the tensor reads in order: as many
  // elements as `size`, `step` apart.
  template <typename Work>
  static void ForStretches(const Tensor& tensor, const Work& work) {
    // Dimensions that follow each other in the list count as one.
    std::vector<std::pair<std::uint64_t, std::int64_t>> dims;
    for (std::size_t d = 0; d < tensor.shape_.size(); ++d) {
      const std::uint64_t size = tensor.shape_[d];
      if (size == 0) return;
      if (size == 1) continue;
      if (!dims.empty() && dims.back().second == static_cast<std::int64_t>(size) * tensor.strides_[d]) {
        dims.back() = {dims.back().first * size, tensor.strides_[d]};
      } else {
        dims.emplace_back(size, tensor.strides_[d]);
      }
    }
    if (dims.empty()) dims.emplace_back(1, 1);
    const auto [inner_size, inner_step] = dims.back();
    dims.pop_back();
    std::vector<std::uint64_t> place(dims.size(), 0);
    std::uint64_t begin = tensor.offset_;
    while (true) {
      work(begin, inner_size, inner_step);
      std::size_t d = dims.size();
      while (d > 0) {
        --d;
        begin += static_cast<std::uint64_t>(dims[d].second);
        if (++place[d] < dims[d].first) break;
        begin -= static_cast<std::uint64_t>(dims[d].second) * dims[d].first;
        place[d] = 0;
        if (d == 0) return;
      }
      if (dims.empty()) return;
    }
  }

  // Calls work(run) for the ranges of variables that the tensor reads in order.
  template <typename Work>
  static void ForRuns(const Tensor& tensor, const Work& work) {
    const Elements& elements = *tensor.elements_;
    const auto at = [&](std::uint64_t place) {
      if (elements.runs.size() == 1) return std::size_t{0};
      const auto after = std::upper_bound(elements.starts.begin(), elements.starts.end(), place);
      return static_cast<std::size_t>(after - elements.starts.begin()) - 1;
    };
    ForStretches(tensor, [&](std::uint64_t begin, std::uint64_t size, std::int64_t step) {
      if (step == 1) {
        std::size_t run = at(begin);
        while (size > 0) {
          const std::uint64_t inside = begin - elements.starts[run];
          const std::uint64_t count = std::min(size, elements.runs[run].size - inside);
          work(Run{elements.runs[run].variable, elements.runs[run].begin + inside, count});
          begin += count;
          size -= count;
          ++run;
        }
        return;
      }
      for (std::uint64_t i = 0; i < size; ++i, begin += static_cast<std::uint64_t>(step)) {
        const std::size_t run = at(begin);
        work(Run{elements.runs[run].variable, elements.runs[run].begin + (begin - elements.starts[run]), 1});
      }
    });
  }

  // The ranges in order; neighbours are joined.
  static std::shared_ptr<Elements> Materialised(const Tensor& tensor);
};

}  // namespace detail
}  // namespace ipu_tf
}  // namespace poplar

#endif  // IPU_TF_POPLAR_TENSOR_ACCESS_H_
