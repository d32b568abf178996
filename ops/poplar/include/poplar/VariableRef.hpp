// Variables of a graph, and ranges of their elements.
#ifndef IPU_TF_POPLAR_VARIABLE_REF_HPP_
#define IPU_TF_POPLAR_VARIABLE_REF_HPP_

#include <cstddef>
#include <cstdint>
#include <functional>

#include <poplar/Interval.hpp>

namespace poplar {
inline namespace ipu_tf {

class VariableRef {
 public:
  VariableRef() = default;
  explicit VariableRef(std::uint32_t id) : id_(id) {}
  std::uint32_t getId() const { return id_; }
  friend bool operator==(VariableRef a, VariableRef b) { return a.id_ == b.id_; }
  friend bool operator!=(VariableRef a, VariableRef b) { return !(a == b); }
  friend bool operator<(VariableRef a, VariableRef b) { return a.id_ < b.id_; }

 private:
  std::uint32_t id_ = ~std::uint32_t{0};
};

struct VariableInterval {
  VariableInterval() = default;
  VariableInterval(VariableRef variable, Interval elements) : var(variable), interval(elements) {}
  friend bool operator==(const VariableInterval& a, const VariableInterval& b) {
    return a.var == b.var && a.interval == b.interval;
  }
  friend bool operator<(const VariableInterval& a, const VariableInterval& b) {
    return a.var == b.var ? a.interval < b.interval : a.var < b.var;
  }

  VariableRef var;
  Interval interval;
};

}  // namespace ipu_tf
}  // namespace poplar

template <>
struct std::hash<poplar::VariableRef> {
  std::size_t operator()(poplar::VariableRef variable) const { return variable.getId(); }
};

#endif  // IPU_TF_POPLAR_VARIABLE_REF_HPP_
