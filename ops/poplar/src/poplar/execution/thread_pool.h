// Threads that wait for work.
#ifndef IPU_TF_POPLAR_THREAD_POOL_H_
#define IPU_TF_POPLAR_THREAD_POOL_H_

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace poplar {
inline namespace ipu_tf {
namespace detail {

class ThreadPool {
 public:
  ThreadPool() : threads_(std::max(1u, std::thread::hardware_concurrency())) {}
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;
  ~ThreadPool();

  std::size_t threads() const { return threads_; }
  // Calls work(i) for i below `items`, on any thread; returns when all are done. `work` raises nothing.
  void Run(std::size_t items, const std::function<void(std::size_t)>& work);

 private:
  void Work();

  std::size_t threads_;
  std::vector<std::thread> helpers_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::condition_variable done_;
  const std::function<void(std::size_t)>* work_ = nullptr;
  std::size_t items_ = 0;
  std::atomic<std::size_t> next_{0};
  std::size_t busy_ = 0;
  std::uint64_t round_ = 0;
  bool ends_ = false;
};

}  // namespace detail
}  // namespace ipu_tf
}  // namespace poplar

#endif  // IPU_TF_POPLAR_THREAD_POOL_H_
