// What a function that estimates the time of a vertex knows of it.
#ifndef IPU_TF_POPLAR_VERTEX_INTROSPECTOR_HPP_
#define IPU_TF_POPLAR_VERTEX_INTROSPECTOR_HPP_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <poplar/Target.hpp>

namespace poplar {
inline namespace ipu_tf {

struct VertexPerfEstimate {
  VertexPerfEstimate() = default;
  VertexPerfEstimate(std::uint64_t cycles, std::uint64_t flops = 0) : cycles(cycles), flops(flops) {}

  std::uint64_t cycles = 0;
  std::uint64_t flops = 0;
};

// The sizes of a field, and the values of one that is no edge.
class FieldData {
 public:
  // A row of a list of rows.
  class Row {
   public:
    explicit Row(std::size_t size) : size_(size) {}
    std::size_t size() const { return size_; }

   private:
    std::size_t size_;
  };

  FieldData(unsigned rank, std::vector<std::size_t> sizes, std::vector<double> floating,
            std::vector<std::int64_t> integral)
      : rank_(rank), sizes_(std::move(sizes)), floating_(std::move(floating)), integral_(std::move(integral)) {}

  // 0 for one element, 1 for a list, 2 for a list of rows.
  unsigned rank() const { return rank_; }
  // Elements, or rows of a list of rows.
  std::size_t size() const { return rank_ == 2 ? sizes_.size() : sizes_.front(); }
  // Elements of a row.
  std::size_t getSizeAtIndex(std::size_t row) const { return sizes_.at(row); }
  Row operator[](std::size_t row) const { return Row(getSizeAtIndex(row)); }
  // The numbers that setInitialValue, or the vertex's connections, gave the field; T() where they gave none.
  template <typename T>
  T getInitialValue(const Target& target) const {
    const std::vector<T> values = getInitialValues<T>(target);
    return values.empty() ? T() : values.front();
  }
  template <typename T>
  std::vector<T> getInitialValues(const Target&) const {
    std::vector<T> values;
    for (const double one : floating_) values.push_back(static_cast<T>(one));
    for (const std::int64_t one : integral_) values.push_back(static_cast<T>(one));
    return values;
  }

 private:
  unsigned rank_;
  std::vector<std::size_t> sizes_;  // Of each row, or of the whole.
  std::vector<double> floating_;
  std::vector<std::int64_t> integral_;
};

class VertexIntrospector {
 public:
  explicit VertexIntrospector(std::function<FieldData(const std::string&)> field) : field_(std::move(field)) {}
  // Raises unknown_field, which lists the fields there are.
  FieldData getFieldInfo(const std::string& name) const { return field_(name); }

 private:
  std::function<FieldData(const std::string&)> field_;
};

using PerfEstimateFunc = std::function<VertexPerfEstimate(const VertexIntrospector& vertex, const Target& target)>;

}  // namespace ipu_tf
}  // namespace poplar

#endif  // IPU_TF_POPLAR_VERTEX_INTROSPECTOR_HPP_
