#include "random.h"

#include <mutex>
#include <unordered_map>

namespace ipu_tf {
namespace {

struct Process {
  std::mutex mutex;
  uint64_t seed = 0;
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

RandomKey NextKey(uint64_t stream) {
  Process& process = TheProcess();
  std::lock_guard<std::mutex> lock(process.mutex);
  return {process.seed, stream, process.calls[stream]++};
}

}  // namespace ipu_tf
