// How the core asks for threads without knowing the pool they come from.
#ifndef IPU_TF_OPS_CORE_PARALLEL_H_
#define IPU_TF_OPS_CORE_PARALLEL_H_

#include <algorithm>
#include <cstdint>
#include <functional>

namespace ipu_tf {

// Runs work(item) once for every item in [0, items), in any order, on any thread; returns when all are done.
struct Parallel {
  int threads = 1;
  bool is_long = false;  // Whether the work takes much longer than waking threads for it.
  std::function<void(int64_t items, const std::function<void(int64_t)>& work, bool is_long)> run;

  void operator()(int64_t items, const std::function<void(int64_t)>& work) const {
    if (items == 1 || threads == 1 || !run) {
      for (int64_t i = 0; i < items; ++i) work(i);
    } else if (items > 0) {
      run(items, work, is_long);
    }
  }
};

// For so many floats: waking a thread for few would take longer than the work on them, which this thread does alone;
// three million, 24 MB to read and to write, take much longer than waking threads.
inline Parallel ForFloats(int64_t floats, Parallel parallel) {
  constexpr int64_t kFew = int64_t{1} << 18, kMany = int64_t{3} << 20;
  if (floats < kFew) return Parallel{};
  parallel.is_long = floats >= kMany;
  return parallel;
}

// For so many multiplications: fifty million and more take a core half a millisecond and longer.
inline Parallel ForProducts(int64_t multiplications, Parallel parallel) {
  constexpr int64_t kMany = 50'000'000;
  parallel.is_long = multiplications >= kMany;
  return parallel;
}

inline int64_t CeilDivide(int64_t n, int64_t d) { return (n + d - 1) / d; }

// Calls work(begin, count) for stretches of [0, total), each but the last of 2^16.
template <typename Work>
void ForStretches(int64_t total, const Parallel& parallel, const Work& work) {
  constexpr int64_t kStretch = int64_t{1} << 16;
  parallel(CeilDivide(total, kStretch), [&](int64_t item) {
    const int64_t begin = item * kStretch;
    work(begin, std::min(kStretch, total - begin));
  });
}

}  // namespace ipu_tf

#endif  // IPU_TF_OPS_CORE_PARALLEL_H_
