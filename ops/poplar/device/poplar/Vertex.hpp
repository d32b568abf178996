// What codelets are written with, compiled for the host: classes of vertices and their fields.
#ifndef IPU_TF_POPLAR_DEVICE_VERTEX_HPP_
#define IPU_TF_POPLAR_DEVICE_VERTEX_HPP_

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include <ipu_builtins.h>
#include <poplar/StackSizeDefs.hpp>

#define IS_EXTERNAL_CODELET(IS_EXTERNAL)
#define WORKER_ALIGN
#define NAME_VERTEX(...)
// A hint of clang.
#define __builtin_assume(CONDITION) static_cast<void>(0)
// __attribute__((target("supervisor"))): the host has one kind of thread.
#define target(MODE) unused
// An attribute of clang, which g++ would pass over: its vectors would become single numbers.
#define ext_vector_type(N) vector_size(ext_vector_type_is_of_clang_use_float2_of_ipudef_h)

namespace poplar {

// Runs on one worker: bool or void compute().
class Vertex {
 public:
  static constexpr unsigned char ipu_tf_kind = 0;
};

// Runs once on each worker: compute(unsigned worker).
class MultiVertex {
 public:
  static constexpr unsigned char ipu_tf_kind = 1;
  static constexpr unsigned numWorkers() { return 6; }
};

// Runs on the supervisor: bool or void compute().
class SupervisorVertex {
 public:
  static constexpr unsigned char ipu_tf_kind = 2;
};

template <bool is_supervisor>
using SupervisorVertexIf = std::conditional_t<is_supervisor, SupervisorVertex, Vertex>;
template <bool is_multi>
using MultiVertexIf = std::conditional_t<is_multi, MultiVertex, Vertex>;

enum class VectorLayout {
  NOT_VECTOR,
  ONE_PTR,
  SPAN,
  SHORT_SPAN,
  DELTAN,
  DELTANELEMENTS,
  SCALED_PTR32,
  SCALED_PTR64,
  SCALED_PTR128,
  COMPACT_PTR,
  COMPACT_DELTAN,
};

enum class VectorListLayout {
  ONE_PTR,
  DELTAN,
  DELTANELEMENTS,
  COMPACT_DELTAN,
  SCALED_PTR32,
  SCALED_PTR64,
  SCALED_PTR128
};

namespace detail {

constexpr bool HasSize(VectorLayout layout) {
  return layout == VectorLayout::SPAN || layout == VectorLayout::SHORT_SPAN;
}

// A pointer to elements, with or without their number.
template <typename T, bool has_size>
class Row {
 public:
  using value_type = T;
  T& operator[](std::size_t i) const { return data_[i]; }
  T& operator*() const { return *data_; }
  T* begin() const { return data_; }
  T* end() const { return data_ + size_; }
  unsigned size() const { return size_; }
  bool empty() const { return size_ == 0; }
  T* data() const { return data_; }
  const Row* operator->() const { return this; }
  // Of the layouts of lists of rows.
  unsigned getSize() const { return size_; }
  T* beginPtr() const { return data_; }

 protected:
  T* data_;
  unsigned size_;
};

template <typename T>
class Row<T, false> {
 public:
  using value_type = T;
  T& operator[](std::size_t i) const { return data_[i]; }
  T& operator*() const { return *data_; }
  T* begin() const { return data_; }
  T* data() const { return data_; }
  const Row* operator->() const { return this; }
  operator T*() const { return data_; }

 protected:
  T* data_;
};

}  // namespace detail

// A list of values; inside of Input, Output or InOut, elements that are one after the other in memory.
template <typename T, VectorLayout layout = VectorLayout::SPAN, unsigned minAlign = alignof(T),
          bool interleaved = false>
class Vector : public detail::Row<T, detail::HasSize(layout)> {};

// A list of rows of elements.
template <typename T, VectorListLayout layout = VectorListLayout::COMPACT_DELTAN, unsigned minAlign = alignof(T),
          bool interleaved = false>
class VectorList : public detail::Row<detail::Row<T, true>, true> {};

namespace detail {

template <typename T>
class Edge {
 public:
  operator T&() const { return *data_; }
  T& operator*() const { return *data_; }
  T* operator->() const { return data_; }

 protected:
  T* data_;
};

template <typename T, VectorLayout layout, unsigned minAlign, bool interleaved>
class Edge<Vector<T, layout, minAlign, interleaved>> : public Row<T, HasSize(layout)> {
  // Makes the compiler describe the class, whose arguments are read from the debug information.
  static_assert(sizeof(Vector<T, layout, minAlign, interleaved>) > 0, "");
};

template <typename T, VectorListLayout layout, unsigned minAlign, bool interleaved>
class Edge<VectorList<T, layout, minAlign, interleaved>> : public Row<Row<T, true>, true> {
  static_assert(sizeof(VectorList<T, layout, minAlign, interleaved>) > 0, "");
};

}  // namespace detail

// Edges: elements of tensors. Elements of an Input must not be written.
template <typename T>
class Input : public detail::Edge<T> {};
template <typename T>
class Output : public detail::Edge<T> {
 public:
  template <typename V>
  Output& operator=(const V& value) {
    *this->data_ = value;
    return *this;
  }
};
template <typename T>
class InOut : public detail::Edge<T> {
 public:
  template <typename V>
  InOut& operator=(const V& value) {
    *this->data_ = value;
    return *this;
  }
};

}  // namespace poplar

#endif  // IPU_TF_POPLAR_DEVICE_VERTEX_HPP_
