#include "random.h"

#include <mutex>
#include <unordered_map>

#include "replica_streams.h"

namespace ipu_tf {
namespace {

struct Process {
  std::mutex mutex;
  uint64_t seed = 0;
  bool identical_replicas = false;
  std::unordered_map<uint64_t, uint64_t> calls;  // By stream.
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
  return {process.seed, drawn, process.calls[stream]++};  // Each replica counts its own calls.
}

}  // namespace ipu_tf
