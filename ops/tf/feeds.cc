#include "feeds.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"

namespace ipu_tf {
namespace {

// Below this share of its read-ahead a queue asks for elements again: few, long reads wake the reader less often.
constexpr int64_t kRefillDivisor = 2;

// Never freed: threads may still use it while the process ends.
struct Registry {
  std::mutex mutex;
  int64_t next = 1;
  std::map<int64_t, std::shared_ptr<Infeed>> infeeds;
  std::map<int64_t, std::shared_ptr<Outfeed>> outfeeds;
};

Registry& Queues() {
  static Registry& registry = *new Registry;
  return registry;
}

absl::Status Cancelled() { return absl::CancelledError("The program was cancelled while it waited for a feed."); }

template <typename Queue>
std::shared_ptr<Queue> Find(std::map<int64_t, std::shared_ptr<Queue>>& queues, int64_t number) {
  std::lock_guard<std::mutex> lock(Queues().mutex);
  const auto found = queues.find(number);
  return found == queues.end() ? nullptr : found->second;
}

template <typename Queue>
std::shared_ptr<Queue> Remove(std::map<int64_t, std::shared_ptr<Queue>>& queues, int64_t number) {
  std::lock_guard<std::mutex> lock(Queues().mutex);
  const auto found = queues.find(number);
  if (found == queues.end()) return nullptr;
  std::shared_ptr<Queue> removed = std::move(found->second);
  queues.erase(found);
  return removed;
}

template <typename Queue>
int64_t Enter(std::map<int64_t, std::shared_ptr<Queue>>& queues, std::shared_ptr<Queue> queue) {
  std::lock_guard<std::mutex> lock(Queues().mutex);
  const int64_t number = Queues().next++;
  queues[number] = std::move(queue);
  return number;
}

}  // namespace

std::shared_ptr<Infeed> FindInfeed(int64_t number) { return Find(Queues().infeeds, number); }

std::shared_ptr<Outfeed> FindOutfeed(int64_t number) { return Find(Queues().outfeeds, number); }

int64_t Infeed::Restart() {
  std::unique_lock<std::mutex> lock(mutex_);
  ++pass_;
  demanded_ = !waiters_.empty();
  refills_ = false;
  end_ = absl::OkStatus();
  elements_.clear();
  is_taken_.clear();
  first_ = 0;
  std::fill(next_.begin(), next_.end(), 0);
  for (size_t replica = 0; replica < next_.size(); ++replica) next_[replica] = static_cast<int64_t>(replica);
  changed_.notify_all();
  return pass_;
}

bool Infeed::Wants() const {
  if (!demanded_ || !end_.ok()) return false;
  if (!waiters_.empty()) return true;
  return static_cast<int64_t>(elements_.size()) < (refills_ ? read_ahead_ : read_ahead_ / kRefillDivisor);
}

bool Infeed::WaitUntilWanted(int64_t pass) {
  std::unique_lock<std::mutex> lock(mutex_);
  changed_.wait(lock, [&] { return pass != pass_ || !end_.ok() || Wants(); });
  return pass == pass_ && end_.ok();
}

bool Infeed::Push(int64_t pass, Element element) {
  std::unique_lock<std::mutex> lock(mutex_);
  if (pass != pass_ || !end_.ok()) return false;
  elements_.push_back(std::move(element));
  is_taken_.push_back(false);
  refills_ = static_cast<int64_t>(elements_.size()) < read_ahead_;
  const bool waits = !waiters_.empty();
  if (!waits) return Wants();
  ServeWaiters(std::move(lock));
  std::lock_guard<std::mutex> again(mutex_);
  return pass == pass_ && Wants();
}

void Infeed::Add(Element element, const std::function<void()>& added) {
  std::unique_lock<std::mutex> lock(mutex_);
  if (end_.ok()) {
    elements_.push_back(std::move(element));
    is_taken_.push_back(false);
  }
  added();
  ServeWaiters(std::move(lock));
}

void Infeed::End(int64_t pass, absl::Status reason) {
  std::unique_lock<std::mutex> lock(mutex_);
  if (pass != pass_ || !end_.ok()) return;
  end_ = std::move(reason);
  ServeWaiters(std::move(lock));
}

int64_t Infeed::NumberOfTake() {
  std::lock_guard<std::mutex> lock(mutex_);
  return ++takes_;
}

void Infeed::Take(int64_t number, int replica, int replicas, Taken taken) {
  std::unique_lock<std::mutex> lock(mutex_);
  SetReplicas(replicas);
  const bool wanted = Wants();
  demanded_ = true;
  const bool is_there = HasNext(replica);
  const bool is_cancelled = cancelled_.erase(number) != 0;
  if (!is_there && end_.ok() && !is_cancelled) {
    waiters_.push_back({number, replica, std::move(taken)});
    changed_.notify_all();
    return;
  }
  absl::StatusOr<Element> result = Cancelled();
  if (!is_cancelled && is_there) {
    result = TakeNext(replica);
  } else if (!is_cancelled) {
    result = end_;
  }
  if (!wanted && Wants()) changed_.notify_all();
  lock.unlock();
  taken(std::move(result));
}

void Infeed::Cancel(int64_t number) {
  Taken cancelled;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    const auto found =
        std::find_if(waiters_.begin(), waiters_.end(), [&](const Waiter& waiter) { return waiter.number == number; });
    if (found == waiters_.end()) {
      cancelled_.insert(number);
      return;
    }
    cancelled = std::move(found->taken);
    waiters_.erase(found);
  }
  cancelled(Cancelled());
}

void Infeed::Close() {
  std::unique_lock<std::mutex> lock(mutex_);
  ++pass_;
  end_ = absl::CancelledError("The infeed was deleted while a program used it.");
  changed_.notify_all();
  ServeWaiters(std::move(lock));
}

bool Infeed::HasNext(int replica) const { return next_[replica] - first_ < static_cast<int64_t>(elements_.size()); }

Element Infeed::TakeNext(int replica) {
  const int64_t place = next_[replica] - first_;
  next_[replica] += static_cast<int64_t>(next_.size());
  Element element = std::move(elements_[place]);
  is_taken_[place] = true;
  while (!is_taken_.empty() && is_taken_.front()) {
    is_taken_.pop_front();
    elements_.pop_front();
    ++first_;
  }
  return element;
}

void Infeed::SetReplicas(int replicas) {
  if (replicas == static_cast<int>(next_.size())) return;
  next_.resize(replicas);
  for (int replica = 0; replica < replicas; ++replica) next_[replica] = first_ + replica;
}

void Infeed::ServeWaiters(std::unique_lock<std::mutex> lock) {
  std::vector<std::pair<Taken, absl::StatusOr<Element>>> served;
  std::vector<Waiter> remaining;
  for (Waiter& waiter : waiters_) {
    if (HasNext(waiter.replica)) {
      served.emplace_back(std::move(waiter.taken), TakeNext(waiter.replica));
    } else if (!end_.ok()) {
      served.emplace_back(std::move(waiter.taken), end_);
    } else {
      remaining.push_back(std::move(waiter));
    }
  }
  waiters_ = std::move(remaining);
  lock.unlock();
  changed_.notify_all();
  for (auto& [taken, result] : served) taken(std::move(result));
}

absl::Status Outfeed::Add(int replica, int replicas, Element element) {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    const absl::Status status = Store(replica, replicas, std::move(element));
    if (!status.ok() || waiters_.empty()) return status;
  }
  Answer();
  return absl::OkStatus();
}

absl::Status Outfeed::Store(int replica, int replicas, Element element) {
  if (replicas != static_cast<int>(stored_.size())) {
    const bool is_empty = std::all_of(stored_.begin(), stored_.end(), [](const auto& one) { return one.empty(); });
    if (!is_empty && !keeps_last_only_) {
      return absl::FailedPreconditionError(absl::StrCat("The outfeed holds elements of a program of ", stored_.size(),
                                                        " replicas, and a program of ", replicas,
                                                        " adds to it. Dequeue them before that program runs."));
    }
    stored_.assign(replicas, {});
    turn_ = 0;
  }
  std::deque<Element>& own = stored_[replica < 0 ? turn_++ % replicas : replica];
  if (keeps_last_only_) own.clear();
  own.push_back(std::move(element));
  return absl::OkStatus();
}

int64_t Outfeed::Rows() const {
  size_t rows = stored_.front().size();
  for (const auto& one : stored_) rows = std::min(rows, one.size());
  return static_cast<int64_t>(rows);
}

std::vector<std::vector<Element>> Outfeed::Take(int64_t limit) {
  std::lock_guard<std::mutex> lock(mutex_);
  const int64_t rows = limit < 0 ? Rows() : std::min(limit, Rows());
  std::vector<std::vector<Element>> taken(rows);
  for (std::vector<Element>& row : taken) {
    for (std::deque<Element>& own : stored_) {
      row.push_back(std::move(own.front()));
      own.pop_front();
    }
  }
  return taken;
}

int64_t Outfeed::NumberOfAwait() {
  std::lock_guard<std::mutex> lock(mutex_);
  return ++awaits_;
}

void Outfeed::Await(int64_t number, Taken taken) {
  std::lock_guard<std::mutex> lock(mutex_);
  waiters_.push_back({number, std::move(taken)});
  changed_.notify_all();
}

void Outfeed::Answer() {
  std::vector<std::pair<Taken, absl::StatusOr<Element>>> answered;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    while (!waiters_.empty() && (Rows() > 0 || !end_.ok())) {
      absl::StatusOr<Element> result = Cancelled();
      if (Rows() == 0) {
        result = end_;
      } else {
        result = std::move(stored_.front().front());
        stored_.front().pop_front();
      }
      if (cancelled_.erase(waiters_.front().number) != 0) result = Cancelled();
      answered.emplace_back(std::move(waiters_.front().taken), std::move(result));
      waiters_.pop_front();
    }
  }
  for (auto& [taken, result] : answered) {
    if (taken != nullptr) taken(std::move(result));
  }
}

void Outfeed::Cancel(int64_t number) {
  Taken cancelled;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    const auto found =
        std::find_if(waiters_.begin(), waiters_.end(), [&](const Waiter& waiter) { return waiter.number == number; });
    if (found == waiters_.end()) {
      cancelled_.insert(number);
      return;
    }
    cancelled = std::exchange(found->taken, nullptr);  // It still takes the element of its input.
  }
  if (cancelled != nullptr) cancelled(Cancelled());
}

void Outfeed::End(absl::Status reason) {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (end_.ok()) end_ = std::move(reason);
    changed_.notify_all();
  }
  Answer();
}

bool Outfeed::WaitUntilAwaited() {
  std::unique_lock<std::mutex> lock(mutex_);
  changed_.wait(lock, [&] { return !end_.ok() || !waiters_.empty(); });
  return end_.ok();
}

absl::Status Outfeed::end() {
  std::lock_guard<std::mutex> lock(mutex_);
  return end_;
}

int64_t Outfeed::rows() {
  std::lock_guard<std::mutex> lock(mutex_);
  return Rows();
}

int Outfeed::replicas() {
  std::lock_guard<std::mutex> lock(mutex_);
  return static_cast<int>(stored_.size());
}

}  // namespace ipu_tf

// C functions for ctypes.
extern "C" {

#define IPU_TF_EXPORT __attribute__((visibility("default")))

// Returns the number of a new infeed that reads so many elements ahead.
IPU_TF_EXPORT int64_t ipu_tf_infeed_create(int64_t read_ahead) {
  return ipu_tf::Enter(ipu_tf::Queues().infeeds, std::make_shared<ipu_tf::Infeed>(read_ahead));
}

// Returns the number of a new outfeed.
IPU_TF_EXPORT int64_t ipu_tf_outfeed_create(int32_t keeps_last_only) {
  return ipu_tf::Enter(ipu_tf::Queues().outfeeds, std::make_shared<ipu_tf::Outfeed>(keeps_last_only != 0));
}

// Begins a new pass over an infeed's data; returns its number, or -1 if there is no such infeed.
IPU_TF_EXPORT int64_t ipu_tf_infeed_restart(int64_t number) {
  const auto infeed = ipu_tf::FindInfeed(number);
  return infeed == nullptr ? -1 : infeed->Restart();
}

// Ends the data of a pass with an error.
IPU_TF_EXPORT void ipu_tf_infeed_end(int64_t number, int64_t pass, int32_t code, const char* message) {
  const auto infeed = ipu_tf::FindInfeed(number);
  if (infeed != nullptr) infeed->End(pass, absl::Status(static_cast<absl::StatusCode>(code), message));
}

// Deletes a queue; returns 0 if there is none of this number.
IPU_TF_EXPORT int32_t ipu_tf_feed_delete(int64_t number) {
  const auto infeed = ipu_tf::Remove(ipu_tf::Queues().infeeds, number);
  const auto outfeed = ipu_tf::Remove(ipu_tf::Queues().outfeeds, number);
  if (infeed != nullptr) infeed->Close();
  if (outfeed != nullptr) outfeed->End(absl::CancelledError("The outfeed was deleted while a call waited for it."));
  return infeed != nullptr || outfeed != nullptr ? 1 : 0;
}

// Ends an outfeed with an error: calls that wait for its elements fail.
IPU_TF_EXPORT void ipu_tf_outfeed_end(int64_t number, int32_t code, const char* message) {
  const auto outfeed = ipu_tf::FindOutfeed(number);
  if (outfeed != nullptr) outfeed->End(absl::Status(static_cast<absl::StatusCode>(code), message));
}

// Waits until a call waits for an element of an outfeed; returns 0 once it has ended.
IPU_TF_EXPORT int32_t ipu_tf_outfeed_wait(int64_t number) {
  const auto outfeed = ipu_tf::FindOutfeed(number);
  return outfeed != nullptr && outfeed->WaitUntilAwaited() ? 1 : 0;
}

// Returns the elements that an outfeed holds of every replica.
IPU_TF_EXPORT int64_t ipu_tf_outfeed_rows(int64_t number) {
  const auto outfeed = ipu_tf::FindOutfeed(number);
  return outfeed == nullptr ? 0 : outfeed->rows();
}

#undef IPU_TF_EXPORT

}  // extern "C"
