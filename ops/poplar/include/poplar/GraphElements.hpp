// References to the parts of a graph.
#ifndef IPU_TF_POPLAR_GRAPH_ELEMENTS_HPP_
#define IPU_TF_POPLAR_GRAPH_ELEMENTS_HPP_

#include <cstdint>
#include <string>
#include <utility>

#include <poplar/StringRef.hpp>
#include <poplar/Type.hpp>

namespace poplar {
inline namespace ipu_tf {

// Vertices that run side by side.
class ComputeSet {
 public:
  ComputeSet() = default;
  explicit ComputeSet(std::uint32_t id) : id_(id) {}
  std::uint32_t getId() const { return id_; }
  friend bool operator==(ComputeSet a, ComputeSet b) { return a.id_ == b.id_; }
  friend bool operator!=(ComputeSet a, ComputeSet b) { return !(a == b); }

 private:
  std::uint32_t id_ = ~std::uint32_t{0};
};

// A field of a vertex, or one element of a field that is a list.
class FieldRef {
 public:
  FieldRef(std::uint32_t vertex, std::string name, std::int64_t index = -1)
      : vertex_(vertex), name_(std::move(name)), index_(index) {}
  FieldRef operator[](std::size_t i) const { return {vertex_, name_, static_cast<std::int64_t>(i)}; }

  std::uint32_t getVertexId() const { return vertex_; }
  const std::string& getName() const { return name_; }
  // -1 for the whole field.
  std::int64_t getIndex() const { return index_; }

 private:
  std::uint32_t vertex_;
  std::string name_;
  std::int64_t index_;
};

// A call of a codelet on a tile.
class VertexRef {
 public:
  VertexRef() = default;
  explicit VertexRef(std::uint32_t id) : id_(id) {}
  FieldRef operator[](StringRef field) const { return {id_, std::string(field)}; }
  std::uint32_t getId() const { return id_; }
  bool isNull() const { return id_ == ~std::uint32_t{0}; }
  friend bool operator==(VertexRef a, VertexRef b) { return a.id_ == b.id_; }
  friend bool operator!=(VertexRef a, VertexRef b) { return !(a == b); }

 private:
  std::uint32_t id_ = ~std::uint32_t{0};
};

// A program that may be called from several places.
class Function {
 public:
  Function() = default;
  explicit Function(std::uint32_t id) : id_(id) {}
  std::uint32_t getId() const { return id_; }

 private:
  std::uint32_t id_ = ~std::uint32_t{0};
};

// A function of the host.
class HostFunction {
 public:
  HostFunction() = default;
  explicit HostFunction(std::uint32_t id) : id_(id) {}
  std::uint32_t getId() const { return id_; }

 private:
  std::uint32_t id_ = ~std::uint32_t{0};
};

}  // namespace ipu_tf
}  // namespace poplar

#endif  // IPU_TF_POPLAR_GRAPH_ELEMENTS_HPP_
