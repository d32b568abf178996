// A range of elements.
#ifndef IPU_TF_POPLAR_INTERVAL_HPP_
#define IPU_TF_POPLAR_INTERVAL_HPP_

#include <cstddef>

namespace poplar {
inline namespace ipu_tf {

// The elements from begin to the one before end.
class Interval {
 public:
  constexpr Interval() = default;
  constexpr Interval(std::size_t begin, std::size_t end) : begin_(begin), end_(end) {}

  constexpr std::size_t begin() const { return begin_; }
  constexpr std::size_t end() const { return end_; }
  constexpr std::size_t lower() const { return begin_; }
  constexpr std::size_t upper() const { return end_; }
  constexpr std::size_t size() const { return end_ - begin_; }

  friend constexpr bool operator==(const Interval& a, const Interval& b) {
    return a.begin_ == b.begin_ && a.end_ == b.end_;
  }
  friend constexpr bool operator!=(const Interval& a, const Interval& b) { return !(a == b); }
  friend constexpr bool operator<(const Interval& a, const Interval& b) {
    return a.begin_ != b.begin_ ? a.begin_ < b.begin_ : a.end_ < b.end_;
  }

 private:
  std::size_t begin_ = 0;
  std::size_t end_ = 0;
};

}  // namespace ipu_tf
}  // namespace poplar

#endif  // IPU_TF_POPLAR_INTERVAL_HPP_
