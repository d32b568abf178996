#include "random.h"

#include <mutex>

#include "replica_streams.h"

namespace ipu_tf {
namespace {

struct Process {
  std::mutex mutex;
  uint64_t seed = 0;
  int64_t seeds = 0;
  bool identical_replicas = false;
  std::unordered_map<int64_t, std::unordered_map<uint64_t, uint64_t>> calls;  // By group and stream.
};

Process& TheProcess() {
  static Process* process = new Process;
  return *process;
}

}  // namespace

void ResetSeed(uint64_t seed) {
  Process& process = TheProcess();
  std::lock_guard<std::mutex> lock(process.mutex);
  process.seed = seed;
  process.calls.clear();
  ++process.seeds;
}

void SetIdenticalReplicas(bool identical) {
  Process& process = TheProcess();
  std::lock_guard<std::mutex> lock(process.mutex);
  process.identical_replicas = identical;
}

RandomKey NextKey(uint64_t stream) {
  Process& process = TheProcess();
  std::lock_guard<std::mutex> lock(process.mutex);
  const uint64_t drawn = process.identical_replicas ? stream % kReplicaStride : stream;
  auto& calls = process.calls[static_cast<int64_t>(stream / kStreamsOfGroup)];
  return {process.seed, drawn, calls[stream]++};  // Each replica counts its own calls.
}

StreamCalls CallsOf(const std::vector<int64_t>& groups) {
  Process& process = TheProcess();
  std::lock_guard<std::mutex> lock(process.mutex);
  StreamCalls found{process.seeds, {}};
  for (const int64_t group : groups) found.calls[group] = process.calls[group];
  return found;
}

void SetCalls(const std::vector<int64_t>& groups, const StreamCalls& calls) {
  Process& process = TheProcess();
  std::lock_guard<std::mutex> lock(process.mutex);
  for (const int64_t group : groups) {
    const auto found = calls.calls.find(group);
    process.calls[group] = found == calls.calls.end() ? std::unordered_map<uint64_t, uint64_t>() : found->second;
  }
}

}  // namespace ipu_tf
