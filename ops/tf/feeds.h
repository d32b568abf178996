// Queues between the host and the programs of the device. The ops of a program name them by numbers, so that a program
// that XLA compiled, which has no resources of TensorFlow, reaches them, too.
#ifndef IPU_TF_OPS_TF_FEEDS_H_
#define IPU_TF_OPS_TF_FEEDS_H_

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tensorflow/core/framework/tensor.h"

namespace ipu_tf {

// The tensors of one element of a queue.
using Element = std::vector<tensorflow::Tensor>;

// Elements that a thread of the host reads ahead from a dataset. With R replicas, the k-th take of replica r gets
// element k * R + r of those that were there when the first of the R replicas took one.
class Infeed {
 public:
  using Taken = std::function<void(absl::StatusOr<Element>)>;

  explicit Infeed(int64_t read_ahead) : read_ahead_(read_ahead) {}

  // Begins a new pass over the data, without elements; returns its number. Earlier passes end.
  int64_t Restart();

  // Waits until the pass wants elements; false once it has ended. A pass wants none before the first take.
  bool WaitUntilWanted(int64_t pass);

  // Adds an element; returns whether the pass wants another. Elements of passes that have ended are dropped.
  bool Push(int64_t pass, Element element);

  // Adds an element to the present pass, and calls `added` before any other element is added.
  void Add(Element element, const std::function<void()>& added);

  // Ends the data of a pass: takes of elements beyond it fail with `reason`.
  void End(int64_t pass, absl::Status reason);

  // Returns a number for a take.
  int64_t NumberOfTake();

  // Calls `taken` with the replica's next element, now or, on another thread, when it is there.
  void Take(int64_t number, int replica, int replicas, Taken taken);

  // Fails a take that waits, or is yet to come.
  void Cancel(int64_t number);

  // Ends the queue: all takes fail.
  void Close();

 private:
  struct Waiter {
    int64_t number;
    int replica;
    Taken taken;
  };

  bool Wants() const;
  bool HasNext(int replica) const;
  Element TakeNext(int replica);
  void SetReplicas(int replicas);
  void ServeWaiters(std::unique_lock<std::mutex> lock);

  const int64_t read_ahead_;
  std::mutex mutex_;
  std::condition_variable changed_;
  int64_t pass_ = 0;
  bool demanded_ = false;
  bool refills_ = false;
  absl::Status end_;
  std::deque<Element> elements_;
  std::deque<bool> is_taken_;        // For each of `elements_`.
  int64_t first_ = 0;                // Number of the first of `elements_`.
  std::vector<int64_t> next_ = {0};  // Number of each replica's next element.
  std::vector<Waiter> waiters_;
  int64_t takes_ = 0;
  std::set<int64_t> cancelled_;  // Takes that are yet to come.
};

// Elements that the replicas of a program give to the host.
class Outfeed {
 public:
  using Taken = std::function<void(absl::StatusOr<Element>)>;

  explicit Outfeed(bool keeps_last_only) : keeps_last_only_(keeps_last_only), stored_(1) {}

  // Adds an element of a replica. Replica -1 stands for the replicas taking turns.
  absl::Status Add(int replica, int replicas, Element element);

  // Moves at most `limit` rows out, each with an element of every replica; all of them if it is negative.
  std::vector<std::vector<Element>> Take(int64_t limit);

  // Enters a call that waits for the next element of a program of one replica; calls are answered in their order.
  // `Answer` or `Add` calls `taken`.
  void Await(int64_t number, Taken taken);

  // Answers the calls for which there are elements, or all of them if the queue has ended.
  void Answer();

  // Returns a number for a call that waits.
  int64_t NumberOfAwait();

  // Fails a call that waits, or is yet to come. The element that would have answered it is dropped.
  void Cancel(int64_t number);

  // Fails the calls that wait, and all later ones.
  void End(absl::Status reason);

  // Waits until a call waits; false if the queue has ended.
  bool WaitUntilAwaited();

  // The error with which the queue has ended; OK if it has not.
  absl::Status end();

  int64_t rows();
  int replicas();

 private:
  struct Waiter {
    int64_t number;
    Taken taken;
  };

  absl::Status Store(int replica, int replicas, Element element);
  int64_t Rows() const;

  const bool keeps_last_only_;
  std::mutex mutex_;
  std::condition_variable changed_;
  absl::Status end_;
  std::deque<Waiter> waiters_;
  int64_t awaits_ = 0;
  std::set<int64_t> cancelled_;  // Calls that are yet to come.
  int64_t turn_ = 0;
  std::vector<std::deque<Element>> stored_;  // For each replica.
};

// The queues of the process by their numbers; null if there is none.
std::shared_ptr<Infeed> FindInfeed(int64_t number);
std::shared_ptr<Outfeed> FindOutfeed(int64_t number);

}  // namespace ipu_tf

#endif  // IPU_TF_OPS_TF_FEEDS_H_
