// Items dealt to a thread and its helpers.
#include "core/deal.h"

#include <atomic>
#include <chrono>
#include <thread>
#include <utility>
#include <vector>

#include "check.h"
#include "reference.h"

namespace ipu_tf::testing {
namespace {

void Sleep(int64_t milliseconds) { std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds)); }

// A pool whose threads are busy: it keeps the tasks.
struct BusyPool {
  std::vector<Task> tasks;
  Schedule Scheduler() {
    return [this](Task task) { tasks.push_back(std::move(task)); };
  }
};

TEST(EachItemIsDealtOnce) {
  for (const int64_t items : {1, 2, 7, 100}) {
    for (const int64_t helpers : {0, 1, 3}) {
      for (int turn = 0; turn < 20; ++turn) {
        std::vector<int> runs(items);
        IdlePool pool;
        DealItems(items, helpers, [&](int64_t item) { ++runs[item]; }, pool.Scheduler());
        CHECK_SAME(runs, std::vector<int>(items, 1));
      }
    }
  }
}

TEST(NobodyWaitsForABusyPool) {
  std::vector<int> runs(5);
  BusyPool pool;
  DealItems(5, 2, [&](int64_t item) { ++runs[item]; }, pool.Scheduler());
  CHECK_SAME(runs, std::vector<int>(5, 1));
  // They come when all is done, and `runs` may be gone.
  runs.clear();
  for (const Task& task : pool.tasks) task();
}

TEST(HelpersRunTheItemsThatAreLeftToThem) {
  const std::thread::id caller = std::this_thread::get_id();
  int left_alone = 0;
  for (const int64_t items : {1, 2, 7, 100}) {
    for (const int64_t helpers : {1, 2, 3}) {
      std::vector<int> runs(items);
      std::atomic<int> of_caller{0};
      IdlePool pool;
      const auto work = [&](int64_t item) {
        ++runs[item];
        if (std::this_thread::get_id() == caller) ++of_caller;
      };
      LeaveItems(items, helpers, work, pool.Scheduler());
      CHECK_SAME(runs, std::vector<int>(items, 1));
      CHECK(static_cast<int64_t>(pool.threads.size()) == helpers);
      left_alone += of_caller == 0;
    }
  }
  CHECK(left_alone > 0);  // All of them, unless helpers are late: the machine may be busy.
}

TEST(ItemsThatAreLeftToABusyPoolAreRunAllTheSame) {
  std::vector<int> runs(5);
  BusyPool pool;
  LeaveItems(5, 2, [&](int64_t item) { ++runs[item]; }, pool.Scheduler());
  CHECK_SAME(runs, std::vector<int>(5, 1));
  CHECK(pool.tasks.size() == 2);
  runs.clear();
  for (const Task& task : pool.tasks) task();
}

TEST(OneMoreHelperIsAskedWhereOneIsLate) {
  BusyPool pool;
  DealItems(3, 2, [](int64_t) { Sleep(1); }, pool.Scheduler());
  CHECK(pool.tasks.size() == 3);
}

TEST(NoMoreHelpersAreAskedWhereAllHaveCome) {
  IdlePool pool;
  std::atomic<int> here{0};
  const auto work = [&](int64_t) {
    ++here;
    while (here < 3) std::this_thread::yield();
    Sleep(1);
  };
  DealItems(6, 2, work, pool.Scheduler());
  CHECK(pool.threads.size() == 2);
}

TEST(NoHelperIsAskedForItemsThatAreDealt) {
  BusyPool pool;
  DealItems(1, 1, [](int64_t) { Sleep(1); }, pool.Scheduler());
  CHECK(pool.tasks.size() == 1);
}

TEST(AHelperTooManyLeavesTheItemsToTheOthers) {
  // The first comes only when the second, asked in its place, is at work.
  std::vector<Task> late;
  IdlePool pool;
  const auto schedule = [&](Task task) {
    late.empty() ? late.push_back(std::move(task)) : pool.Scheduler()(std::move(task));
  };
  const std::thread::id caller = std::this_thread::get_id();
  std::atomic<int> items_of_second{0};
  bool has_come = false, working = false;
  int items_of_late = 0;
  const auto work = [&](int64_t) {
    if (std::this_thread::get_id() != caller) {
      ++items_of_second;
    } else if (working) {
      ++items_of_late;
    } else if (items_of_second > 0 && !has_come) {
      has_come = working = true;
      late.front()();
      working = false;
    }
    Sleep(1);
  };
  DealItems(200, 1, work, schedule);
  CHECK(has_come);
  CHECK(items_of_late == 0);
  CHECK(pool.threads.size() == 1);
}

}  // namespace
}  // namespace ipu_tf::testing
