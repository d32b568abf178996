#include "replica_group.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "tensorflow/core/platform/env.h"

namespace ipu_tf {
namespace {

using tensorflow::AsyncOpKernel;
using tensorflow::OpKernelContext;
using tensorflow::Tensor;

// "replica 2", "replicas 1 and 3", "replicas 0, 1 and 3".
std::string Replicas(const std::vector<int>& replicas) {
  if (replicas.size() == 1) return absl::StrCat("replica ", replicas[0]);
  const std::vector<int> first(replicas.begin(), replicas.end() - 1);
  return absl::StrCat("replicas ", absl::StrJoin(first, ", "), " and ", replicas.back());
}

constexpr char kAdvice[] =
    "All replicas of a group have to run the same collectives equally often, in one order: check the loops and "
    "conditions around them, whose course must not differ between replicas.";

// The time in which the error of a replica reaches the run.
constexpr int64_t kErrorMicroseconds = 500'000;

}  // namespace

std::string Replica::DebugString() const { return absl::StrCat("replica ", number()); }

void ReplicaGroup::Join(int replica, const Collective& collective, OpKernelContext* context,
                        AsyncOpKernel::DoneCallback done) {
  auto arrival = std::make_unique<Waiting>();
  arrival->collective = &collective;
  arrival->value = context->input(1);
  arrival->context = context;
  arrival->done = std::move(done);
  tensorflow::CancellationManager* cancellation = context->cancellation_manager();
  const auto token =
      cancellation == nullptr ? tensorflow::CancellationManager::kInvalidToken : cancellation->get_cancellation_token();
  arrival->token = token;
  Arrived arrived;
  std::string error;
  int first = 0;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    const auto cancel = [self = shared_from_this(), replica, token] { self->Cancel(replica, token); };
    if (cancellation != nullptr && !cancellation->RegisterCallback(token, cancel)) {
      arrived.push_back(std::move(arrival));
      FinishCancelled(std::move(arrived));
      return;
    }
    if (waiting_[replica] != nullptr) {
      error = absl::StrCat("Replica ", offset_ + replica, " runs two collectives at once: '",
                           waiting_[replica]->collective->site, "' and '", collective.site,
                           "'. Order them with tf.control_dependencies.");
      arrived.push_back(std::move(arrival));
    } else {
      waiting_[replica] = std::move(arrival);
      first = offset_ + GroupOf(replica).first;
      arrived = IsComplete(replica) ? TakeGroup(replica) : TakeStuck(&error);
    }
  }
  Meet(std::move(arrived), first, error);
}

void ReplicaGroup::End(int replica) {
  Arrived arrived;
  std::string error;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    ended_[replica] = true;
    arrived = TakeStuck(&error);
  }
  Meet(std::move(arrived), 0, error);
}

void ReplicaGroup::Meet(Arrived arrived, int first, const std::string& error) {
  if (arrived.empty()) return;
  std::vector<Tensor> values, results;
  for (const auto& one : arrived) values.push_back(one->value);
  const absl::Status status =
      error.empty() ? Combine(*arrived[0]->collective, first, values, &results) : absl::FailedPreconditionError(error);
  Finish(std::move(arrived), status, results);
}

void ReplicaGroup::Cancel(int replica, tensorflow::CancellationToken token) {
  Arrived arrived;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (waiting_[replica] == nullptr || waiting_[replica]->token != token) return;
    arrived.push_back(std::move(waiting_[replica]));
  }
  FinishCancelled(std::move(arrived));
}

void ReplicaGroup::FinishCancelled(Arrived arrived) {
  // Deregistering a callback from itself would wait for it.
  arrived[0]->token = tensorflow::CancellationManager::kInvalidToken;
  // A run is cancelled before the replica that failed has ended. Its error is the one to report, and TensorFlow
  // reports the first that comes.
  auto cancelled = std::make_shared<Arrived>(std::move(arrived));
  tensorflow::Env::Default()->SchedClosureAfter(kErrorMicroseconds, [cancelled] {
    Finish(std::move(*cancelled), absl::CancelledError("The run was cancelled."), {});
  });
}

std::pair<int, int> ReplicaGroup::GroupOf(int replica) const {
  const int size = std::min(waiting_[replica]->collective->group_size, count_);
  const int first = replica / size * size;
  return {first, std::min(first + size, count_)};
}

bool ReplicaGroup::IsComplete(int replica) const {
  const Collective& collective = *waiting_[replica]->collective;
  const auto [first, end] = GroupOf(replica);
  for (int other = first; other < end; ++other) {
    if (waiting_[other] == nullptr || waiting_[other]->collective->site != collective.site) return false;
  }
  return true;
}

ReplicaGroup::Arrived ReplicaGroup::TakeStuck(std::string* error) {
  Arrived arrived;
  for (size_t replica = 0; replica < waiting_.size(); ++replica) {
    if (waiting_[replica] == nullptr && !ended_[replica]) return arrived;  // It still runs.
  }
  // Complete groups were taken when they became so.
  for (size_t replica = 0; replica < waiting_.size(); ++replica) {
    if (waiting_[replica] == nullptr) continue;
    if (arrived.empty()) *error = WhyStuck(replica);
    arrived.push_back(std::move(waiting_[replica]));
  }
  return arrived;
}

std::string ReplicaGroup::WhyStuck(int replica) const {
  const Collective& collective = *waiting_[replica]->collective;
  const auto [first, end] = GroupOf(replica);
  std::vector<int> here, ended;
  std::string elsewhere;
  for (int other = first; other < end; ++other) {
    if (ended_[other]) {
      ended.push_back(offset_ + other);
    } else if (waiting_[other]->collective->site == collective.site) {
      here.push_back(offset_ + other);
    } else {
      absl::StrAppend(&elsewhere, ", replica ", offset_ + other, " at '", waiting_[other]->collective->site, "'");
    }
  }
  if (ended.empty()) {
    return absl::StrCat("Replicas wait at different collectives: ", Replicas(here), " at '", collective.site, "'",
                        elsewhere, ". ", kAdvice);
  }
  return absl::StrCat("The collective '", collective.site, "' is never reached by ", Replicas(ended),
                      ended.size() == 1 ? ", which has ended; " : ", which have ended; ", Replicas(here),
                      here.size() == 1 ? " waits there" : " wait there", elsewhere, ". ", kAdvice);
}

ReplicaGroup::Arrived ReplicaGroup::TakeGroup(int replica) {
  const auto [first, end] = GroupOf(replica);
  Arrived arrived;
  for (int other = first; other < end; ++other) {
    if (waiting_[other] != nullptr) arrived.push_back(std::move(waiting_[other]));
  }
  return arrived;
}

void ReplicaGroup::Finish(Arrived arrived, const absl::Status& status, const std::vector<Tensor>& results) {
  for (size_t index = 0; index < arrived.size(); ++index) {
    Waiting& one = *arrived[index];
    if (one.token != tensorflow::CancellationManager::kInvalidToken) {
      one.context->cancellation_manager()->DeregisterCallback(one.token);
    }
    if (status.ok()) {
      one.context->set_output(0, results[index]);
    } else {
      one.context->SetStatus(status);
    }
    one.done();
  }
}

}  // namespace ipu_tf
