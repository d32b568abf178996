// What a program ran, and its cycles and memory as the helper models them.
#ifndef IPU_TF_POPLAR_PROFILE_H_
#define IPU_TF_POPLAR_PROFILE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <poplar/OptionFlags.hpp>

#include "../codelets/instruction_counts.h"
#include "../compile/compiled.h"
#include "helper.h"

namespace poplar {
inline namespace ipu_tf {
namespace detail {

// The arrays of a compiled graph.
Records GraphRecords(const Compiled& compiled);

// Raises graph_memory_allocation_error if a tile overflows. Asks the helper only where variables
// alone take half of a tile.
void CheckWholeMemory(const std::shared_ptr<const Compiled>& compiled);

class Profile {
 public:
  explicit Profile(std::shared_ptr<const Compiled> compiled);
  ~Profile();

  // Reads the options of an engine. Counts instructions from here on if they ask for it.
  void Start(const OptionFlags& options);
  void Ran(const Step& step) {
    if (is_on) ++runs_[step.number];
  }
  void SetRuns(std::vector<std::uint64_t> runs) { runs_ = std::move(runs); }
  void Reset();
  // Whether vertices are called by Compute, which counts their instructions.
  bool is_counting() const { return !counted_.empty(); }
  // The same as its call: whether compute() returns true.
  bool Compute(const VertexCall& call, void* state) {
    const auto function = counted_[call.vertex];
    if (function == nullptr || !is_on) return call.compute(state);
    const Counted counted = CountedCall(function, state);
    slots_[call.vertex] += counted.slots;
    return counted.status != 0;
  }

  // How often each step ran.
  const std::vector<std::uint64_t>& runs() const { return runs_; }
  // Cycles of all that ran since; before the first run `before` may be empty.
  std::uint64_t CyclesSince(const std::vector<std::uint64_t>& before);

  // Whether codelets ask for cycles, and those of all that ran before this run of a step.
  bool reads_cycles() const { return reads_cycles_; }
  std::uint64_t CyclesUntil(const Step& step);

  // The text of Engine::printProfileSummary.
  std::string Summary(const OptionFlags& options);
  // The report as JSON.
  std::string Json();
  // Writes a report's files into a folder; returns their paths.
  std::string Write(const std::string& folder);
  // Why the program does not fit its tiles; empty if it does.
  std::string Overflow();

  bool is_on = true;

 private:
  void StartCounting(bool estimates_hold);
  std::string AskWithCounts(const std::string& request, Records records);

  std::shared_ptr<const Compiled> compiled_;
  std::vector<std::uint64_t> runs_;    // By number of a step.
  std::vector<std::uint64_t> cycles_;  // Of one run of each step, as known when `known_runs_` had run.
  std::vector<std::uint64_t> known_runs_;
  bool reads_cycles_ = false;
  std::string report_folder_;             // Of the report at the end; empty for none.
  std::vector<bool (*)(void*)> counted_;  // By vertex; null for those with an estimate that holds.
  std::vector<std::uint64_t> slots_;      // By vertex, of all runs.
  std::shared_ptr<Helper> helper_;
  std::string id_;  // Of the graph, for the helper.
};

}  // namespace detail
}  // namespace ipu_tf
}  // namespace poplar

#endif  // IPU_TF_POPLAR_PROFILE_H_
