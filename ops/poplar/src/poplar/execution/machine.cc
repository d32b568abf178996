#include "machine.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <new>

#include <poplar/exceptions.hpp>

#include "../profile/profile.h"
#include "codelet_runtime.h"

namespace poplar {
inline namespace ipu_tf {
namespace detail {
namespace {

constexpr double kDefaultTimeoutS = 300;  // Of target.hostSyncTimeout.
constexpr std::int64_t kWorthThreadsNs = 50'000;
constexpr std::size_t kPartsPerThread = 8;

double TimeoutOf(const OptionFlags& options) {
  const auto found = options.find("target.hostSyncTimeout");
  if (found == options.end()) return kDefaultTimeoutS;
  char* end = nullptr;
  const double seconds = std::strtod(found->second.c_str(), &end);
  if (end == found->second.c_str() || seconds <= 0) {
    throw invalid_option("The option target.hostSyncTimeout is a number of seconds. Received: \"" + found->second +
                         "\".");
  }
  return seconds;
}

std::int64_t NowNs() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

void MoveBytes(std::uint8_t* memory, const Move& move) {
  std::uint8_t* to = memory + move.to;
  const std::uint8_t* from = memory + move.from;
  if (move.bytes == 4) {
    std::memcpy(to, from, 4);
  } else {
    std::memcpy(to, from, move.bytes);
  }
}

}  // namespace

void Machine::Free::operator()(std::uint8_t* memory) const { std::free(memory); }

Machine::Machine(std::shared_ptr<const Compiled> compiled, const OptionFlags& options)
    : print_stream(&std::cerr),
      print_tensor_stream(&std::cerr),
      compiled_(std::move(compiled)),
      graph_(*compiled_->graph),
      nanoseconds_(compiled_->sets.size(), 0),
      timeout_s_(TimeoutOf(options)) {
  for (const DataStream& one : graph_.streams) {
    streams_.emplace_back();
    streams_.back().callbacks.resize(PartsOf(one));
  }
  for (const RemoteBuffer& one : graph_.remote_buffers) {
    remote_.emplace_back(one.numElements() * one.getRepeats() * TypeBytes(one.elementType()) * graph_.replicas);
  }
  host_functions_.resize(graph_.host_functions.size());
  for (auto& callbacks : host_functions_) callbacks.resize(graph_.replicas);
}

void Machine::Load(const Target& target) {
  const std::uint64_t tiles = std::uint64_t{graph_.target.getNumTiles()} * graph_.replicas;
  if (target.getNumTiles() != tiles) {
    throw poplar_error("Engine::load: the graph is for " + std::to_string(tiles) + " tiles, the device has " +
                       std::to_string(target.getNumTiles()) + ".");
  }
  memory_.clear();
  for (unsigned replica = 0; replica < graph_.replicas; ++replica) {
    memory_.emplace_back(static_cast<std::uint8_t*>(std::calloc(compiled_->bytes / 64 + 2, 64)));
    if (memory_.back() == nullptr) throw std::bad_alloc();
    std::uint8_t* const memory = memory_.back().get();
    for (std::size_t i = 0; i < compiled_->variables.size(); ++i) {
      const std::vector<std::uint8_t>& bytes = graph_.variables[i].bytes;
      if (!bytes.empty()) std::memcpy(memory + compiled_->variables[i], bytes.data(), bytes.size());
    }
    for (const std::uint32_t i : graph_.replica_indices) {
      std::memcpy(memory + compiled_->variables[i], &replica, sizeof replica);
    }
    if (!compiled_->image.empty())
      std::memcpy(memory + compiled_->states, compiled_->image.data(), compiled_->image.size());
    for (const std::uint64_t at : compiled_->pointers) {
      std::uint64_t address;
      std::memcpy(&address, memory + at, sizeof address);
      address += reinterpret_cast<std::uintptr_t>(memory);
      std::memcpy(memory + at, &address, sizeof address);
    }
  }
  random_.resize(tiles);
  for (std::uint32_t tile = 0; tile < random_.size(); ++tile) random_[tile] = RandomStart(tile);
}

void Machine::Run(unsigned program) {
  if (!is_loaded()) throw poplar_error("Engine::run: no device is loaded. Call Engine::load first.");
  if (program >= compiled_->programs.size()) {
    throw poplar_error("Engine::run: the engine has programs 0 to " + std::to_string(compiled_->programs.size() - 1) +
                       ". Received: " + std::to_string(program) + ".");
  }
  const Watch watch(timeout_s_);
  RunStep(*compiled_->programs[program], {0, graph_.replicas});
  EndIfInterrupted();
}

void Machine::RunStep(const Step& step, Replicas on) {
  EndIfInterrupted();
  profile->Ran(step);
  const auto for_each = [&](const auto& work) {
    for (unsigned replica = on.begin; replica < on.end; ++replica) work(replica);
  };
  switch (step.kind) {
    case ProgramKind::kSequence:
      for (const auto& child : step.children) RunStep(*child, on);
      break;
    case ProgramKind::kExecute:
      if (profile->reads_cycles()) set_cycles_ = profile->CyclesUntil(step);
      RunSet(step, on);
      break;
    case ProgramKind::kCopy:
      for_each([&](unsigned replica) { RunCopy(step, memory_[replica].get()); });
      break;
    case ProgramKind::kCrossReplicaCopy:
      RunCrossReplicaCopy(step);
      break;
    case ProgramKind::kCopyFromStream:
    case ProgramKind::kCopyToStream:
      RunStream(step);
      break;
    case ProgramKind::kCopyFromRemote:
    case ProgramKind::kCopyToRemote:
      for_each([&](unsigned replica) { RunRemote(step, replica); });
      break;
    case ProgramKind::kHostFunction:
      for (const auto& child : step.children) profile->Ran(*child);
      for_each([&](unsigned replica) { RunHostFunction(step, replica); });
      break;
    case ProgramKind::kRepeat:
      for (std::uint64_t i = 0; i < step.count; ++i) RunStep(*step.children[0], on);
      break;
    case ProgramKind::kRepeatWhile:
      RunWhile(step, on, false);
      break;
    case ProgramKind::kIf:
    case ProgramKind::kSwitch:
      RunBranch(step, on);
      break;
    case ProgramKind::kCall:
      RunStep(*step.function, on);
      break;
    case ProgramKind::kPrint:
      for_each([&](unsigned replica) { RunPrint(step, replica); });
      break;
    case ProgramKind::kAbort:
    case ProgramKind::kAbortOnCondition:
      for_each([&](unsigned replica) { AbortIf(step, replica); });
      break;
    case ProgramKind::kCycleCount:
      RunCycleCount(step, on);
      break;
    case ProgramKind::kNothing:
      if (on.end - on.begin > 1) CheckEqual(step);
      break;
  }
}

void Machine::RunSet(const Step& step, Replicas on) {
  const CompiledSet& set = compiled_->sets[step.id];
  const std::int64_t start = NowNs();
  const bool is_worth_threads = nanoseconds_[step.id] > kWorthThreadsNs;
  const std::size_t parts = is_worth_threads ? std::min(set.parts.size(), kPartsPerThread * pool_.threads()) : 1;
  const std::size_t all = parts * (on.end - on.begin);
  std::vector<PartResult> results(all);
  const auto work = [&](std::size_t i) {
    RunPart(set, i % parts, parts, on.begin + static_cast<unsigned>(i / parts), &results[i]);
  };
  if (is_worth_threads && all > 1) {
    pool_.Run(all, work);
  } else {
    for (std::size_t i = 0; i < all; ++i) work(i);
  }
  for (const PartResult& one : results) {
    *print_stream << one.text;
    if (!one.fault.empty()) throw application_runtime_error(one.fault);
  }
  nanoseconds_[step.id] = NowNs() - start;
  if (step.moves.empty()) return;
  for (unsigned replica = on.begin; replica < on.end; ++replica) {
    const auto first = results.begin() + static_cast<std::ptrdiff_t>((replica - on.begin) * parts);
    const bool status = std::all_of(first, first + static_cast<std::ptrdiff_t>(parts),
                                    [](const PartResult& one) { return one.status; });
    const std::uint8_t element[8] = {status};  // Of any type, the low byte first.
    Scatter(step, replica, element);
  }
}

// Parts are tiles in a row, so that what a tile prints and its random numbers do not depend on threads.
void Machine::RunPart(const CompiledSet& set, std::size_t part, std::size_t parts, unsigned replica,
                      PartResult* result) {
  if (set.calls.empty()) return;
  const auto bound = [&](std::size_t p) {
    const std::size_t place = p * set.parts.size() / parts;
    return place == set.parts.size() ? set.calls.size() : set.parts[place];
  };
  std::uint8_t* const memory = memory_[replica].get();
  std::uint64_t* const random = random_.data() + std::uint64_t{replica} * graph_.target.getNumTiles();
  RunningVertex& running = Running();
  running.text = &result->text;
  running.since_ms = NowNs() / 1'000'000;
  running.replica = replica;
  running.graph = &graph_;
  running.cycles = set_cycles_;
  const bool is_counting = replica == 0 && profile->is_counting();
  bool status = true;
  const std::size_t end = bound(part + 1);
  for (std::size_t i = bound(part); i < end; ++i) {
    const VertexCall& call = set.calls[i];
    running.vertex.store(call.vertex, std::memory_order_relaxed);
    running.random = &random[call.tile];
    for (std::uint32_t m = 0; m < call.gathers; ++m) MoveBytes(memory, set.gathers[call.first_gather + m]);
    if (!set.first_guard.empty()) FillGuards(set, i, memory);
    status &= is_counting ? profile->Compute(call, memory + call.state) : call.compute(memory + call.state);
    if (!set.first_guard.empty()) result->fault = GuardFault(set, i, graph_, memory);
    if (!result->fault.empty()) {
      result->fault += graph_.ReplicaText(replica) + ".";
      break;
    }
    for (std::uint32_t m = 0; m < call.scatters; ++m) MoveBytes(memory, set.scatters[call.first_scatter + m]);
    if (i % 64 == 0) running.since_ms.store(NowNs() / 1'000'000, std::memory_order_relaxed);
  }
  result->status = status;
  running.graph = nullptr;
  running.text = nullptr;
}

void Machine::RunCopy(const Step& step, std::uint8_t* memory) {
  if (!step.is_staged) {
    for (const Move& move : step.moves) MoveBytes(memory, move);
    return;
  }
  buffer_.resize(step.bytes);
  std::uint64_t at = 0;
  for (const Move& move : step.moves) {
    std::memcpy(buffer_.data() + at, memory + move.from, move.bytes);
    at += move.bytes;
  }
  at = 0;
  for (const Move& move : step.moves) {
    std::memcpy(memory + move.to, buffer_.data() + at, move.bytes);
    at += move.bytes;
  }
}

// All send before any receives.
void Machine::RunCrossReplicaCopy(const Step& step) {
  buffer_.resize(step.bytes * step.cases.size() / 2);
  for (const bool sends : {true, false}) {
    std::uint8_t* buffer = buffer_.data();
    for (std::size_t i = 0; i < step.cases.size(); i += 2) {
      std::uint8_t* const memory = memory_[static_cast<std::size_t>(step.cases[sends ? i : i + 1])].get();
      for (const Move& move : step.moves) {
        std::memcpy(sends ? buffer : memory + move.to, sends ? memory + move.from : buffer, move.bytes);
        buffer += move.bytes;
      }
    }
  }
}

std::int64_t Machine::Predicate(const Step& step, unsigned replica) const {
  return ElementInteger(memory_[replica].get() + step.predicate, step.predicate_type);
}

// The child that a replica takes; of a loop, the body, or none that is behind it.
std::size_t Machine::Chosen(const Step& step, unsigned replica) const {
  const std::int64_t value = Predicate(step, replica);
  if (step.kind == ProgramKind::kIf) return value != 0 ? 0 : 1;
  if (step.kind == ProgramKind::kRepeatWhile) return (value != 0) == (step.count != 0) ? 1 : 2;
  const auto found = std::find(step.cases.begin(), step.cases.end(), static_cast<std::int32_t>(value));
  return static_cast<std::size_t>(found - step.cases.begin());
}

// Whether replicas take the same child; raises if they do not, but have to.
bool Machine::Agree(const Step& step, Replicas on) const {
  for (unsigned other = on.begin + 1; other < on.end; ++other) {
    if (Chosen(step, other) == Chosen(step, on.begin)) continue;
    if (step.together.empty()) return false;
    throw application_runtime_error(
        "Replicas take different branches: the predicate " + step.text + " is " +
        std::to_string(Predicate(step, on.begin)) + " on replica " + std::to_string(on.begin) + " and " +
        std::to_string(Predicate(step, other)) + " on replica " + std::to_string(other) + ". What depends on it has " +
        step.together + ", which all replicas run together. Give the predicate the same value on all of them.");
  }
  return true;
}

// Runs replicas one after the other. Figures are those of the first.
template <typename Work>
void Machine::Apart(Replicas on, const Work& work) {
  const std::vector<std::uint64_t> before = profile->runs();
  std::vector<std::uint64_t> first;
  for (unsigned replica = on.begin; replica < on.end; ++replica) {
    if (replica != on.begin) profile->SetRuns(before);
    work(Replicas{replica, replica + 1});
    if (replica == on.begin) first = profile->runs();
  }
  profile->SetRuns(std::move(first));
}

void Machine::RunBranch(const Step& step, Replicas on) {
  if (Agree(step, on)) {
    RunStep(*step.children[Chosen(step, on.begin)], on);
  } else {
    Apart(on, [&](Replicas one) { RunStep(*step.children[Chosen(step, one.begin)], one); });
  }
}

void Machine::RunWhile(const Step& step, Replicas on, bool is_tested) {
  const std::int64_t start = NowNs();
  while (true) {
    if (!is_tested) RunStep(*step.children[0], on);
    is_tested = false;
    if (!Agree(step, on)) return Apart(on, [&](Replicas one) { RunWhile(step, one, true); });
    if (Chosen(step, on.begin) != 1) return;
    RunStep(*step.children[1], on);
    if (static_cast<double>(NowNs() - start) * 1e-9 > timeout_s_) {
      throw application_runtime_error(
          "A loop (RepeatWhile) ran for more than " + SecondsText(timeout_s_) +
          " seconds. If it does end, set the option target.hostSyncTimeout to more seconds.");
    }
  }
}

void Machine::AbortIf(const Step& step, unsigned replica) const {
  if (step.kind == ProgramKind::kAbortOnCondition && Predicate(step, replica) == 0) return;
  throw application_runtime_error((step.text.empty() ? "The program ended itself (Abort)." : step.text) +
                                  graph_.ReplicaText(replica));
}

// A tensor of AssumeEqualAcrossReplicas, if the step has one.
void Machine::CheckEqual(const Step& step) const {
  for (const Move& move : step.moves) {
    const std::uint8_t* const first = memory_[0].get() + move.from;
    for (unsigned replica = 1; replica < graph_.replicas; ++replica) {
      const std::uint8_t* const other = memory_[replica].get() + move.from;
      const std::uint8_t* const end = first + move.bytes;
      const std::uint8_t* const place = std::mismatch(first, end, other).first;
      if (place == end) continue;
      const std::uint64_t element = (move.to + static_cast<std::uint64_t>(place - first)) / TypeBytes(step.type);
      const std::uint64_t in_run = element * TypeBytes(step.type) - move.to;
      throw application_runtime_error("AssumeEqualAcrossReplicas: element " + std::to_string(element) + " of " +
                                      step.text + " is " + ElementText(first + in_run, step.type) +
                                      " on replica 0 and " + ElementText(other + in_run, step.type) + " on replica " +
                                      std::to_string(replica) + ".");
    }
  }
}

void Machine::RunCycleCount(const Step& step, Replicas on) {
  const std::vector<std::uint64_t> before = step.children.empty() ? std::vector<std::uint64_t>() : profile->runs();
  for (const auto& child : step.children) RunStep(*child, on);
  const std::uint64_t cycles = profile->CyclesSince(before);
  const auto* const words = reinterpret_cast<const std::uint8_t*>(&cycles);  // The low word first.
  for (unsigned replica = on.begin; replica < on.end; ++replica) Scatter(step, replica, words);
}

}  // namespace detail
}  // namespace ipu_tf
}  // namespace poplar
