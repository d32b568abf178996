// A view of a contiguous list that somebody else owns.
#ifndef IPU_TF_POPLAR_ARRAY_REF_HPP_
#define IPU_TF_POPLAR_ARRAY_REF_HPP_

#include <array>
#include <cstddef>
#include <initializer_list>
#include <string>
#include <vector>

namespace poplar {
inline namespace ipu_tf {

template <typename T>
class ArrayRef {
 public:
  using value_type = T;
  using const_iterator = const T*;

  constexpr ArrayRef() = default;
  constexpr ArrayRef(const T* data, std::size_t size) : data_(data), size_(size) {}
  // The list lives until the end of the call that it is made for.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Winit-list-lifetime"
  constexpr ArrayRef(std::initializer_list<T> list) : data_(list.begin()), size_(list.size()) {}
#pragma GCC diagnostic pop
  ArrayRef(const std::vector<T>& list) : data_(list.data()), size_(list.size()) {}
  template <std::size_t N>
  constexpr ArrayRef(const std::array<T, N>& list) : data_(list.data()), size_(N) {}
  template <std::size_t N>
  constexpr ArrayRef(const T (&list)[N]) : data_(list), size_(N) {}

  constexpr const T* begin() const { return data_; }
  constexpr const T* end() const { return data_ + size_; }
  constexpr const T* data() const { return data_; }
  constexpr std::size_t size() const { return size_; }
  constexpr bool empty() const { return size_ == 0; }
  constexpr const T& operator[](std::size_t i) const { return data_[i]; }
  constexpr const T& front() const { return data_[0]; }
  constexpr const T& back() const { return data_[size_ - 1]; }
  std::vector<T> cloneAsVector() const { return {begin(), end()}; }
  operator std::vector<T>() const { return cloneAsVector(); }

 private:
  const T* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace ipu_tf
}  // namespace poplar

#endif  // IPU_TF_POPLAR_ARRAY_REF_HPP_
