#include "profile.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <utility>

#include <poplar/exceptions.hpp>

#include "../base/environment.h"

namespace poplar {
inline namespace ipu_tf {
namespace detail {

namespace {

// The folder that `ipu-tf poplar --report` or options name for reports; empty if none are wanted. The second engine
// of a process has a folder of its own inside of the first one's, and so on.
std::string ReportFolder(const OptionFlags& options) {
  static std::atomic<int> engines{0};
  bool is_wanted = false;
  for (const auto& [name, value] : options) {
    if (name == "autoReport.all" || name.rfind("autoReport.output", 0) == 0) is_wanted |= IsTrue(options, name);
  }
  const char* const chosen = std::getenv("IPU_TF_POPLAR_REPORT");
  const auto directory = options.find("autoReport.directory");
  std::string folder;
  if (chosen != nullptr && chosen[0] != '\0') {
    folder = chosen;
  } else if (is_wanted) {
    folder = directory == options.end() ? "." : directory->second;
  }
  if (folder.empty()) return folder;
  const int number = ++engines;
  return number == 1 ? folder : folder + "/engine_" + std::to_string(number);
}

bool WantsInstructions(const OptionFlags& options) {
  const auto found = options.find("cycles");
  if (found == options.end() || found->second == "estimates") return false;
  if (found->second == "instructions") return true;
  throw invalid_option("The option cycles is \"estimates\" or \"instructions\". Received: \"" + found->second + "\".");
}

// The machine has assembly for the vertices of libraries: what their C++ takes on the host says nothing of it.
bool IsOfLibrary(const VertexType& type) {
  return type.name.rfind("popops::", 0) == 0 || type.name.rfind("poprand::", 0) == 0;
}

}  // namespace

Profile::Profile(std::shared_ptr<const Compiled> compiled)
    : compiled_(std::move(compiled)), runs_(compiled_->steps, 0) {}

void Profile::Start(const OptionFlags& options) {
  const bool only_instructions = WantsInstructions(options);
  const TargetType type = compiled_->graph->target.getTargetType();
  if (type == TargetType::CPU) return;
  report_folder_ = ReportFolder(options);
  for (const Vertex& one : compiled_->graph->vertices) {
    reads_cycles_ |= compiled_->graph->vertex_types[one.type]->reads_cycles;
  }
  if (only_instructions || reads_cycles_ || !report_folder_.empty() || compiled_->reads_cycles ||
      IsTrue(options, "debug.instrument") || IsTrue(options, "debug.instrumentCompute")) {
    StartCounting(!only_instructions && type == TargetType::IPU_MODEL);
  }
}

std::uint64_t Profile::CyclesUntil(const Step& step) {
  --runs_[step.number];
  const std::uint64_t cycles = CyclesSince({});
  ++runs_[step.number];
  return cycles;
}

void Profile::StartCounting(bool estimates_hold) {
  const GraphState& graph = *compiled_->graph;
  std::vector<bool (*)(void*)> by_type(graph.vertex_types.size(), nullptr);
  std::vector<bool (*)(void*)> by_vertex(graph.vertices.size(), nullptr);
  bool any = false;
  for (std::size_t v = 0; v < graph.vertices.size(); ++v) {
    const Vertex& vertex = graph.vertices[v];
    const VertexType& type = *graph.vertex_types[vertex.type];
    if (vertex.cycles != 0 && (estimates_hold || IsOfLibrary(type))) continue;
    auto& function = by_type[vertex.type];
    if (function == nullptr) function = CountedFunction(type);
    by_vertex[v] = function;
    any = true;
  }
  if (!any) return;
  counted_ = std::move(by_vertex);
  slots_.assign(graph.vertices.size(), 0);
}

Profile::~Profile() {
  const bool has_run = std::any_of(runs_.begin(), runs_.end(), [](std::uint64_t count) { return count > 0; });
  try {
    if (!report_folder_.empty() && has_run) std::cerr << "report: " << Write(report_folder_) << "\n";
    if (helper_ != nullptr) AskWithCounts("forget", {});
  } catch (const poplar_error& error) {
    std::cerr << "report: " << error.what() << "\n";
  }
}

// Counts change what a run takes, so cycles are asked for again when a step has run twice as often as then.
std::uint64_t Profile::CyclesSince(const std::vector<std::uint64_t>& before) {
  const auto ran = [&](std::size_t step) { return runs_[step] - (before.empty() ? 0 : before[step]); };
  bool is_known = !cycles_.empty();
  for (std::size_t step = 0; is_known && is_counting() && step < runs_.size(); ++step) {
    is_known = ran(step) == 0 || runs_[step] < 2 * known_runs_[step];
  }
  if (!is_known) {
    const std::string answer = AskWithCounts("cycles", {});
    cycles_.resize(runs_.size());
    std::memcpy(cycles_.data(), answer.data(), std::min(answer.size(), cycles_.size() * sizeof(std::uint64_t)));
    known_runs_ = runs_;
  }
  std::uint64_t cycles = 0;
  for (std::size_t step = 0; step < runs_.size(); ++step) cycles += ran(step) * cycles_[step];
  return cycles;
}

void Profile::Reset() {
  std::fill(runs_.begin(), runs_.end(), 0);
  std::fill(slots_.begin(), slots_.end(), 0);
}

std::string Profile::AskWithCounts(const std::string& request, Records records) {
  static std::atomic<int> graphs{0};
  if (helper_ == nullptr) {
    std::shared_ptr<Helper> helper = Helper::Shared();
    id_ = std::to_string(++graphs);
    Records graph = GraphRecords(*compiled_);
    graph.AddText("id", id_);
    helper->Ask("graph", graph);
    helper_ = std::move(helper);
  }
  records.AddText("id", id_);
  records.Add("counts.runs", runs_);
  records.Add("counts.slots", slots_);
  return helper_->Ask(request, records);
}

std::string Profile::Summary(const OptionFlags& options) {
  Records records;
  records.AddText("options", IsTrue(options, "showExecutionSteps") ? "steps" : "");
  return AskWithCounts("summary", std::move(records));
}

std::string Profile::Json() { return AskWithCounts("json", {}); }

std::string Profile::Write(const std::string& folder) {
  Records records;
  records.AddText("folder", folder);
  return AskWithCounts("write", std::move(records));
}

std::string Profile::Overflow() { return AskWithCounts("overflow", {}); }

void CheckWholeMemory(const std::shared_ptr<const Compiled>& compiled) {
  const Target& target = compiled->graph->target;
  if (target.getTargetType() == TargetType::CPU) return;
  const std::vector<std::uint64_t> bytes = VariableBytes(*compiled->graph);
  if (*std::max_element(bytes.begin(), bytes.end()) <= target.getBytesPerTile() / 2) return;
  const std::string overflow = Profile(compiled).Overflow();
  if (!overflow.empty()) throw graph_memory_allocation_error(overflow);
}

}  // namespace detail
}  // namespace ipu_tf
}  // namespace poplar
