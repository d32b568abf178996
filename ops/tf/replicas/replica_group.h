// The replicas of a run, and the collectives at which they meet. No thread ever waits: a replica that comes early
// leaves its callback, and the last one computes the result for all.
#ifndef IPU_TF_OPS_TF_REPLICAS_REPLICA_GROUP_H_
#define IPU_TF_OPS_TF_REPLICAS_REPLICA_GROUP_H_

#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "tensorflow/core/framework/cancellation.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/resource_base.h"
#include "tensorflow/core/platform/thread_annotations.h"

namespace ipu_tf {

// A collective in the program.
struct Collective {
  std::string kind;       // The opcode of HLO: "all-reduce", "all-gather", "reduce-scatter" or "all-to-all".
  std::string reduction;  // "add", "mean", ...; "" where nothing is reduced.
  int group_size;         // Consecutive replicas that take part together.
  std::string site;       // The name of the place in the program; differs between places.
};

// Returns the results of a collective, one for each replica of a group in this process, in their order. `first` is the
// number of the first among the replicas of all instances.
absl::Status Combine(const Collective& collective, int first, const std::vector<tensorflow::Tensor>& values,
                     std::vector<tensorflow::Tensor>* results);

// The replicas of one run. Groups lie in this process, or consist of all replicas of several instances.
class ReplicaGroup : public std::enable_shared_from_this<ReplicaGroup> {
 public:
  // `offset` is the number of the first replica among those of all instances.
  ReplicaGroup(int count, int offset) : count_(count), offset_(offset), waiting_(count), ended_(count, false) {}

  int count() const { return count_; }
  int offset() const { return offset_; }

  // Takes part in a collective with input `value_index` of `context`; `done` is called when all replicas have come.
  void Join(int replica, const Collective& collective, tensorflow::OpKernelContext* context,
            tensorflow::AsyncOpKernel::DoneCallback done);

  // Notes that a replica has ended: it reaches no further collective.
  void End(int replica);

 private:
  struct Waiting {
    const Collective* collective;
    tensorflow::Tensor value;
    tensorflow::OpKernelContext* context;
    tensorflow::AsyncOpKernel::DoneCallback done;
    tensorflow::CancellationToken token;
  };
  using Arrived = std::vector<std::unique_ptr<Waiting>>;

  static void Finish(Arrived arrived, const absl::Status& status, const std::vector<tensorflow::Tensor>& results);
  // Gives the replicas of a group that is complete their results, or all that are stuck the error.
  static void Meet(Arrived arrived, int first, const std::string& error);
  static void FinishCancelled(Arrived arrived);
  void Cancel(int replica, tensorflow::CancellationToken token);
  // Returns the first replica here, and the one after the last, of the group that a waiting replica belongs to.
  std::pair<int, int> GroupOf(int replica) const TF_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool IsComplete(int replica) const TF_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Takes all that wait if no replica runs any more, and says why.
  Arrived TakeStuck(std::string* error) TF_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::string WhyStuck(int replica) const TF_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Arrived TakeGroup(int replica) TF_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const int count_, offset_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<Waiting>> waiting_ TF_GUARDED_BY(mutex_);
  std::vector<bool> ended_ TF_GUARDED_BY(mutex_);
};

// One replica of a run, as the ops of its program see it.
class Replica : public tensorflow::ResourceBase {
 public:
  Replica(std::shared_ptr<ReplicaGroup> group, int index) : group(std::move(group)), index(index) {}
  int number() const { return group->offset() + index; }  // Among those of all instances.
  std::string DebugString() const override;

  const std::shared_ptr<ReplicaGroup> group;
  const int index;
};

}  // namespace ipu_tf

#endif  // IPU_TF_OPS_TF_REPLICAS_REPLICA_GROUP_H_
