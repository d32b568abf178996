#include "machine.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <new>

#include <poplar/exceptions.hpp>

#include "codelet_runtime.h"
#include "print_tensor.h"
#include "profile.h"

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

Machine::Machine(std::shared_ptr<const Compiled> compiled)
    : print_stream(&std::cerr),
      print_tensor_stream(&std::cerr),
      compiled_(std::move(compiled)),
      streams_(compiled_->graph->streams.size()),
      nanoseconds_(compiled_->sets.size(), 0),
      timeout_s_(TimeoutOf(compiled_->options)) {
  for (const RemoteBuffer& one : compiled_->graph->remote_buffers) {
    remote_.emplace_back(one.numElements() * one.getRepeats() * TypeBytes(one.elementType()));
  }
}

void Machine::Load(const Target& target) {
  if (target.getNumTiles() != compiled_->graph->target.getNumTiles()) {
    throw poplar_error("Engine::load: the graph is for " + std::to_string(compiled_->graph->target.getNumTiles()) +
                       " tiles, the device has " + std::to_string(target.getNumTiles()) + ".");
  }
  memory_.reset(static_cast<std::uint8_t*>(std::calloc(compiled_->bytes / 64 + 2, 64)));
  if (memory_ == nullptr) throw std::bad_alloc();
  std::uint8_t* const memory = memory_.get();
  for (std::size_t i = 0; i < compiled_->variables.size(); ++i) {
    const std::vector<std::uint8_t>& bytes = compiled_->graph->variables[i].bytes;
    if (!bytes.empty()) std::memcpy(memory + compiled_->variables[i], bytes.data(), bytes.size());
  }
  if (!compiled_->image.empty())
    std::memcpy(memory + compiled_->states, compiled_->image.data(), compiled_->image.size());
  for (const std::uint64_t at : compiled_->pointers) {
    std::uint64_t address;
    std::memcpy(&address, memory + at, sizeof address);
    address += reinterpret_cast<std::uintptr_t>(memory);
    std::memcpy(memory + at, &address, sizeof address);
  }
  random_.resize(compiled_->graph->target.getNumTiles());
  for (std::uint32_t tile = 0; tile < random_.size(); ++tile) random_[tile] = RandomStart(tile);
  is_loaded_ = true;
}

void Machine::Run(unsigned program) {
  if (!is_loaded_) throw poplar_error("Engine::run: no device is loaded. Call Engine::load first.");
  if (program >= compiled_->programs.size()) {
    throw poplar_error("Engine::run: the engine has programs 0 to " + std::to_string(compiled_->programs.size() - 1) +
                       ". Received: " + std::to_string(program) + ".");
  }
  const Watch watch(timeout_s_);
  RunStep(*compiled_->programs[program]);
  EndIfInterrupted();
}

void Machine::RunStep(const Step& step) {
  EndIfInterrupted();
  profile->Ran(step);
  switch (step.kind) {
    case ProgramKind::kSequence:
      for (const auto& child : step.children) RunStep(*child);
      break;
    case ProgramKind::kExecute:
      if (profile->reads_cycles()) set_cycles_ = profile->CyclesUntil(step);
      RunSet(step.id);
      break;
    case ProgramKind::kCopy:
      RunCopy(step);
      break;
    case ProgramKind::kCopyFromStream:
      RunFromStream(step);
      break;
    case ProgramKind::kCopyToStream:
      RunToStream(step);
      break;
    case ProgramKind::kCopyFromRemote:
    case ProgramKind::kCopyToRemote:
      RunRemote(step);
      break;
    case ProgramKind::kRepeat:
      for (std::uint64_t i = 0; i < step.count; ++i) RunStep(*step.children[0]);
      break;
    case ProgramKind::kRepeatWhile:
      RunWhile(step);
      break;
    case ProgramKind::kIf:
      RunStep(*step.children[Predicate(step) != 0 ? 0 : 1]);
      break;
    case ProgramKind::kSwitch:
      RunSwitch(step);
      break;
    case ProgramKind::kCall:
      RunStep(*step.function);
      break;
    case ProgramKind::kPrint:
      RunPrint(step);
      break;
    case ProgramKind::kAbortOnCondition:
      if (Predicate(step) == 0) break;
      [[fallthrough]];
    case ProgramKind::kAbort:
      throw application_runtime_error(step.text.empty() ? "The program ended itself (Abort)." : step.text);
    case ProgramKind::kCycleCount:
      RunCycleCount(step);
      break;
    case ProgramKind::kNothing:
      break;
  }
}

void Machine::RunSet(std::uint32_t number) {
  const CompiledSet& set = compiled_->sets[number];
  const std::int64_t start = NowNs();
  const bool is_worth_threads = nanoseconds_[number] > kWorthThreadsNs;
  const std::size_t parts = is_worth_threads ? std::min(set.parts.size(), kPartsPerThread * pool_.threads()) : 1;
  std::vector<PartResult> results(parts);
  const auto work = [&](std::size_t part) { RunPart(set, part, parts, &results[part]); };
  if (parts == 1) {
    work(0);
  } else {
    pool_.Run(parts, work);
  }
  for (const PartResult& one : results) {
    *print_stream << one.text;
    if (!one.fault.empty()) throw application_runtime_error(one.fault);
  }
  nanoseconds_[number] = NowNs() - start;
}

// Parts are tiles in a row, so that what a tile prints and its random numbers do not depend on threads.
void Machine::RunPart(const CompiledSet& set, std::size_t part, std::size_t parts, PartResult* result) {
  const auto bound = [&](std::size_t p) {
    const std::size_t place = p * set.parts.size() / parts;
    return place == set.parts.size() ? set.calls.size() : set.parts[place];
  };
  std::uint8_t* const memory = memory_.get();
  RunningVertex& running = Running();
  running.text = &result->text;
  running.since_ms = NowNs() / 1'000'000;
  running.graph = compiled_->graph.get();
  running.cycles = set_cycles_;
  const bool is_counting = profile->is_counting();
  const std::size_t end = set.calls.empty() ? 0 : bound(part + 1);
  for (std::size_t i = set.calls.empty() ? 0 : bound(part); i < end; ++i) {
    const VertexCall& call = set.calls[i];
    running.vertex.store(call.vertex, std::memory_order_relaxed);
    running.random = &random_[call.tile];
    for (std::uint32_t m = 0; m < call.gathers; ++m) MoveBytes(memory, set.gathers[call.first_gather + m]);
    if (!set.first_guard.empty()) FillGuards(set, i, memory);
    is_counting ? profile->Compute(call, memory + call.state) : call.compute(memory + call.state);
    if (!set.first_guard.empty()) result->fault = GuardFault(set, i, *compiled_->graph, memory);
    if (!result->fault.empty()) break;
    for (std::uint32_t m = 0; m < call.scatters; ++m) MoveBytes(memory, set.scatters[call.first_scatter + m]);
    if (i % 64 == 0) running.since_ms.store(NowNs() / 1'000'000, std::memory_order_relaxed);
  }
  running.graph = nullptr;
  running.text = nullptr;
}

void Machine::RunCopy(const Step& step) {
  std::uint8_t* const memory = memory_.get();
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

Machine::Stream& Machine::StreamOf(std::uint32_t id) {
  Stream& stream = streams_[id];
  if (stream.begin == nullptr && !stream.callback) {
    throw stream_connection_error("The stream '" + compiled_->graph->streams[id].handle() +
                                  "' is used, but not connected. Call Engine::connectStream before the program runs.");
  }
  return stream;
}

// Calls work(place in memory, place in the stream's buffer, bytes) for each piece of a copy, and goes on in the ring.
template <typename Work>
void Machine::ForPieces(const Step& step, Stream* stream, const Work& work) {
  const std::uint64_t size = stream->bytes == 0 ? step.bytes : stream->bytes;
  for (const Move& move : step.moves) {
    for (std::uint64_t done = 0; done < move.bytes;) {
      const std::uint64_t place = (stream->at + move.to + done) % size;
      const std::uint64_t now = std::min(move.bytes - done, size - place);
      work(memory_.get() + move.from + done, stream->begin + place, now);
      done += now;
    }
  }
  if (size > 0) stream->at = (stream->at + step.bytes) % size;
}

void Machine::RunFromStream(const Step& step) {
  Stream& stream = StreamOf(step.id);
  if (stream.callback) {
    buffer_.resize(step.bytes);
    (*stream.callback)->fetch(buffer_.data());
    for (const Move& move : step.moves) std::memcpy(memory_.get() + move.from, buffer_.data() + move.to, move.bytes);
    (*stream.callback)->complete();
    return;
  }
  ForPieces(step, &stream, [](std::uint8_t* memory, const std::uint8_t* host, std::uint64_t bytes) {
    std::memcpy(memory, host, bytes);
  });
}

void Machine::RunToStream(const Step& step) {
  Stream& stream = StreamOf(step.id);
  if (stream.callback) {
    buffer_.resize(step.bytes);
    for (const Move& move : step.moves) std::memcpy(buffer_.data() + move.to, memory_.get() + move.from, move.bytes);
    (*stream.callback)->fetch(buffer_.data());
    (*stream.callback)->complete();
    return;
  }
  ForPieces(step, &stream, [](const std::uint8_t* memory, std::uint8_t* host, std::uint64_t bytes) {
    std::memcpy(host, memory, bytes);
  });
}

std::uint8_t* Machine::RemoteRow(std::uint32_t id, std::int64_t row) {
  const RemoteBuffer& buffer = compiled_->graph->remote_buffers[id];
  if (row < 0 || static_cast<std::uint64_t>(row) >= buffer.getRepeats()) {
    throw application_runtime_error("The remote buffer '" + buffer.handle() + "' has rows 0 to " +
                                    std::to_string(buffer.getRepeats() - 1) + ". Received: " + std::to_string(row) +
                                    ".");
  }
  return remote_[id].data() + static_cast<std::uint64_t>(row) * buffer.numElements() * TypeBytes(buffer.elementType());
}

void Machine::RunRemote(const Step& step) {
  std::uint8_t* const memory = memory_.get();
  const bool from_remote = step.kind == ProgramKind::kCopyFromRemote;
  std::vector<std::uint8_t*> rows;
  for (const std::uint64_t at : step.rows) {
    std::int32_t row;
    std::memcpy(&row, memory + at, sizeof row);
    rows.push_back(RemoteRow(step.id, row));
  }
  if (rows.empty()) rows.push_back(RemoteRow(step.id, 0));
  for (const Move& move : step.moves) {
    for (std::uint64_t done = 0; done < move.bytes;) {
      const std::uint64_t place = move.to + done;
      const std::uint64_t inside = place % step.bytes;
      const std::uint64_t now = std::min(move.bytes - done, step.bytes - inside);
      std::uint8_t* const remote = rows[place / step.bytes] + inside;
      std::memcpy(from_remote ? memory + move.from + done : remote, from_remote ? remote : memory + move.from + done,
                  now);
      done += now;
    }
  }
}

std::int64_t Machine::Predicate(const Step& step) const {
  return ElementInteger(memory_.get() + step.predicate, step.predicate_type);
}

void Machine::RunWhile(const Step& step) {
  const std::int64_t start = NowNs();
  while (true) {
    RunStep(*step.children[0]);
    if ((Predicate(step) != 0) != (step.count != 0)) return;
    RunStep(*step.children[1]);
    if (static_cast<double>(NowNs() - start) * 1e-9 > timeout_s_) {
      throw application_runtime_error(
          "A loop (RepeatWhile) ran for more than " + SecondsText(timeout_s_) +
          " seconds. If it does end, set the option target.hostSyncTimeout to more seconds.");
    }
  }
}

void Machine::RunSwitch(const Step& step) {
  const auto found = std::find(step.cases.begin(), step.cases.end(), static_cast<std::int32_t>(Predicate(step)));
  RunStep(*step.children[static_cast<std::size_t>(found - step.cases.begin())]);
}

void Machine::RunPrint(const Step& step) {
  buffer_.resize(step.bytes);
  for (const Move& move : step.moves) std::memcpy(buffer_.data() + move.to, memory_.get() + move.from, move.bytes);
  *print_tensor_stream << PrintedTensor(step.text, buffer_.data(), step.type, step.shape) << std::flush;
}

void Machine::RunCycleCount(const Step& step) {
  const std::vector<std::uint64_t> before = step.children.empty() ? std::vector<std::uint64_t>() : profile->runs();
  for (const auto& child : step.children) RunStep(*child);
  const std::uint64_t cycles = profile->CyclesSince(before);
  const auto* const words = reinterpret_cast<const std::uint8_t*>(&cycles);  // The low word first.
  for (const Move& move : step.moves) std::memcpy(memory_.get() + move.from, words + move.to, move.bytes);
}

Machine::Stream& Machine::StreamOf(const std::string& handle, std::uint64_t* bytes) {
  for (const DataStream& one : compiled_->graph->streams) {
    if (one.handle() != handle) continue;
    *bytes = one.numElements() * TypeBytes(one.elementType());
    return streams_[one.getId()];
  }
  std::string known;
  for (const DataStream& one : compiled_->graph->streams) known += (known.empty() ? "" : ", ") + one.handle();
  throw stream_connection_error("Engine: there is no stream '" + handle +
                                "'. The streams of the graph are: " + (known.empty() ? "none" : known) + ".");
}

void Machine::ConnectRing(const std::string& handle, std::uint8_t* begin, std::uint64_t bytes) {
  std::uint64_t needed = 0;
  Stream& stream = StreamOf(handle, &needed);
  if (bytes < needed) {
    throw stream_connection_error("Engine::connectStream: a copy of the stream '" + handle + "' has " +
                                  std::to_string(needed) + " bytes. Received: a buffer of " + std::to_string(bytes) +
                                  ".");
  }
  stream = {begin, bytes, 0, {}};
}

void Machine::ConnectOne(const std::string& handle, std::uint8_t* begin) {
  std::uint64_t needed = 0;
  Stream& stream = StreamOf(handle, &needed);
  stream = {begin, 0, 0, {}};
}

void Machine::ConnectCallback(const std::string& handle, StreamCallbackHandle callback) {
  std::uint64_t needed = 0;
  Stream& stream = StreamOf(handle, &needed);
  stream = {nullptr, 0, 0, std::move(callback)};
}

namespace {

const HostTransfer& TransferOf(const std::map<std::string, HostTransfer>& known, const std::string& handle,
                               std::uint64_t bytes, const std::string& call) {
  const auto found = known.find(handle);
  if (found == known.end()) {
    std::string names;
    for (const auto& one : known) names += (names.empty() ? "" : ", ") + one.first;
    throw stream_connection_error("Engine::" + call + ": there is no handle '" + handle +
                                  "'. The handles are: " + (names.empty() ? "none" : names) + ".");
  }
  if (bytes != kWholeTensor && found->second.bytes != bytes) {
    throw stream_connection_error("Engine::" + call + ": the tensor of '" + handle + "' has " +
                                  std::to_string(found->second.bytes) + " bytes. Received: " + std::to_string(bytes) +
                                  ".");
  }
  return found->second;
}

}  // namespace

void Machine::Write(const std::string& handle, const std::uint8_t* begin, std::uint64_t bytes) {
  if (!is_loaded_) throw poplar_error("Engine::writeTensor: no device is loaded. Call Engine::load first.");
  for (const Move& move : TransferOf(compiled_->host_writes, handle, bytes, "writeTensor").moves) {
    std::memcpy(memory_.get() + move.from, begin + move.to, move.bytes);
  }
}

void Machine::Read(const std::string& handle, std::uint8_t* begin, std::uint64_t bytes) const {
  if (!is_loaded_) throw poplar_error("Engine::readTensor: no device is loaded. Call Engine::load first.");
  for (const Move& move : TransferOf(compiled_->host_reads, handle, bytes, "readTensor").moves) {
    std::memcpy(begin + move.to, memory_.get() + move.from, move.bytes);
  }
}

std::uint8_t* Machine::RemoteRow(const std::string& handle, std::int64_t row, std::uint64_t* bytes) {
  for (const RemoteBuffer& one : compiled_->graph->remote_buffers) {
    if (one.handle() != handle) continue;
    *bytes = one.numElements() * TypeBytes(one.elementType());
    return RemoteRow(one.getId(), row);
  }
  throw stream_connection_error("Engine: there is no remote buffer '" + handle + "'.");
}

}  // namespace detail
}  // namespace ipu_tf
}  // namespace poplar
