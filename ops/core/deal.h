// Work items dealt to the thread that needs them done and to helpers from a pool.
#ifndef IPU_TF_OPS_CORE_DEAL_H_
#define IPU_TF_OPS_CORE_DEAL_H_

#include <cstdint>
#include <functional>

namespace ipu_tf {

// Gives a task to a pool of threads. It may run at any time, even after the items that it was to help with.
using Schedule = std::function<void(std::function<void()> task)>;

// Runs work(item) once for every item in [0, items), on this thread and on at most `helpers` others that `schedule`
// brings; returns when all are done.
void DealItems(int64_t items, int64_t helpers, const std::function<void(int64_t)>& work, const Schedule& schedule);

// The same on `helpers` other threads alone: of as many as there are cores, none then shares its core with this thread.
// For work that takes longer than waking them. Where they do not come soon, as the pool is busy, this thread helps.
void LeaveItems(int64_t items, int64_t helpers, const std::function<void(int64_t)>& work, const Schedule& schedule);

}  // namespace ipu_tf

#endif  // IPU_TF_OPS_CORE_DEAL_H_
