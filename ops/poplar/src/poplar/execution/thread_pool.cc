#include "thread_pool.h"

namespace poplar {
inline namespace ipu_tf {
namespace detail {

ThreadPool::~ThreadPool() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    ends_ = true;
  }
  wake_.notify_all();
  for (std::thread& one : helpers_) one.join();
}

void ThreadPool::Run(std::size_t items, const std::function<void(std::size_t)>& work) {
  if (threads_ == 1 || items < 2) {
    for (std::size_t i = 0; i < items; ++i) work(i);
    return;
  }
  while (helpers_.size() + 1 < threads_) helpers_.emplace_back([this] { Work(); });
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    work_ = &work;
    items_ = items;
    next_ = 0;
    busy_ = helpers_.size();
    ++round_;
  }
  wake_.notify_all();
  for (std::size_t i = next_++; i < items; i = next_++) work(i);
  std::unique_lock<std::mutex> lock(mutex_);
  done_.wait(lock, [this] { return busy_ == 0; });
}

void ThreadPool::Work() {
  std::uint64_t seen = 0;
  std::unique_lock<std::mutex> lock(mutex_);
  while (true) {
    wake_.wait(lock, [&] { return ends_ || round_ != seen; });
    if (ends_) return;
    seen = round_;
    const auto& work = *work_;
    const std::size_t items = items_;
    lock.unlock();
    for (std::size_t i = next_++; i < items; i = next_++) work(i);
    lock.lock();
    if (--busy_ == 0) done_.notify_one();
  }
}

}  // namespace detail
}  // namespace ipu_tf
}  // namespace poplar
