#include "deal.h"

#include <immintrin.h>
#include <sched.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>

namespace ipu_tf {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kSpins = 2000;
// A thread that sleeps on an idle core runs 20 to 80 us after it is asked (measured on an Intel Xeon).
constexpr std::chrono::microseconds kPatience{100};
// Helpers that come later than that are busy elsewhere. Waking every millisecond to see takes a core from them.
constexpr std::chrono::milliseconds kLate{3};

// Items are dealt by a counter, to every other core from the last one on: where ops after one another have as many
// items, a core finds in its cache what it wrote there. A thread that comes when all are dealt finds nothing to do, so
// nobody waits for a pool that is busy with other ops.
class Deal : public std::enable_shared_from_this<Deal> {
 public:
  Deal(int64_t items, int64_t helpers, const std::function<void(int64_t)>& work)
      : items_(items), helpers_(helpers), work_(&work), end_(items) {}

  // Waits while helpers run the items; where they are late, runs those that are left.
  void Leave(const Schedule& schedule) {
    for (int64_t i = 0; i < helpers_; ++i) AskForHelp(schedule);
    {
      std::unique_lock<std::mutex> lock(mutex_);
      const bool done = finished_.wait_for(lock, kLate, [this] { return IsDone(); });
      if (done || arrived_ >= helpers_) return WaitWith(&lock);
    }
    RunItems();
    Wait();
  }

  void Run(const Schedule& schedule) {
    for (int64_t i = 0; i < helpers_; ++i) AskForHelp(schedule);
    // Linux may queue a helper on the core of the thread that asks, where its last run was, although another core is
    // idle a moment later: it then comes milliseconds late. A second one is woken where there is room.
    const Clock::time_point late = Clock::now() + kPatience;
    bool asked_again = false;
    const bool from_end = FromEnd();
    while (RunItem(from_end)) {
      if (asked_again || arrived_ >= helpers_ || dealt_ >= items_ || Clock::now() < late) continue;
      asked_again = true;
      AskForHelp(schedule);
    }
    Wait();
  }

 private:
  static bool FromEnd() { return sched_getcpu() % 2 == 1; }

  void AskForHelp(const Schedule& schedule) {
    schedule([deal = shared_from_this()] { deal->Help(); });
  }

  void Help() {
    if (arrived_.fetch_add(1) < helpers_) RunItems();
  }

  void RunItems() {
    const bool from_end = FromEnd();
    while (RunItem(from_end)) {
    }
  }

  // Whether there was an item left to run.
  bool RunItem(bool from_end) {
    if (dealt_.fetch_add(1) >= items_) return false;
    (*work_)(from_end ? end_.fetch_sub(1) - 1 : begin_.fetch_add(1));
    if (done_.fetch_add(1) + 1 == items_) {
      std::lock_guard<std::mutex> lock(mutex_);
      finished_.notify_all();
    }
    return true;
  }

  void Wait() {
    for (int i = 0; i < kSpins && done_.load() < items_; ++i) _mm_pause();
    std::unique_lock<std::mutex> lock(mutex_);
    WaitWith(&lock);
  }

  void WaitWith(std::unique_lock<std::mutex>* lock) {
    finished_.wait(*lock, [this] { return IsDone(); });
  }

  bool IsDone() const { return done_.load() == items_; }

  const int64_t items_;
  const int64_t helpers_;
  const std::function<void(int64_t)>* work_;
  std::atomic<int64_t> arrived_{0};  // Helpers that have come.
  std::atomic<int64_t> dealt_{0};
  std::atomic<int64_t> begin_{0};  // Items that are left begin here.
  std::atomic<int64_t> end_;
  std::atomic<int64_t> done_{0};
  std::mutex mutex_;
  std::condition_variable finished_;
};

}  // namespace

void DealItems(int64_t items, int64_t helpers, const std::function<void(int64_t)>& work, const Schedule& schedule) {
  std::make_shared<Deal>(items, helpers, work)->Run(schedule);
}

void LeaveItems(int64_t items, int64_t helpers, const std::function<void(int64_t)>& work, const Schedule& schedule) {
  std::make_shared<Deal>(items, helpers, work)->Leave(schedule);
}

}  // namespace ipu_tf
