#include <poplar/Engine.hpp>

#include <cstring>
#include <ostream>
#include <string>
#include <utility>

#include "../base/environment.h"
#include "../profile/profile.h"
#include "machine.h"

namespace poplar {
inline namespace ipu_tf {

Executable compileGraph(const Graph& graph, ArrayRef<program::Program> programs, const OptionFlags& options,
                        ProgressFunc progress, const DebugContext&) {
  Executable executable;
  const auto started = std::chrono::steady_clock::now();
  const auto state = detail::GraphAccess::Shared(graph);
  const OptionFlags all = detail::EngineOptions(options);
  executable.compiled_ = detail::Compile(state, programs, all);
  if (!detail::IsTrue(all, "debug.allowOutOfMemory")) detail::CheckWholeMemory(executable.compiled_);
  detail::LogTime("compiled a graph of " + std::to_string(state->variables.size()) + " variables, " +
                      std::to_string(state->vertices.size()) + " vertices and " + std::to_string(state->edges.size()) +
                      " edges",
                  started);
  if (progress) progress(1, 1);
  return executable;
}

Engine::Engine(const Graph& graph, const program::Program& program, const OptionFlags& options, ProgressFunc progress,
               const DebugContext& debugContext)
    : Engine(compileGraph(graph, {program}, options, std::move(progress), debugContext)) {}

Engine::Engine(const Graph& graph, ArrayRef<program::Program> programs, const OptionFlags& options,
               ProgressFunc progress, const DebugContext& debugContext)
    : Engine(compileGraph(graph, programs, options, std::move(progress), debugContext)) {}

Engine::Engine(Executable executable, const OptionFlags& options) {
  if (executable.compiled_ == nullptr) throw poplar_error("Engine: the executable is empty.");
  OptionFlags all = executable.compiled_->options;
  for (const auto& [name, value] : options) all.set(name, value);
  all = detail::EngineOptions(all);
  profile_ = std::make_unique<detail::Profile>(executable.compiled_);
  profile_->Start(all);
  machine_ = std::make_unique<detail::Machine>(std::move(executable.compiled_), all);
  machine_->profile = profile_.get();
}

Engine::Engine(Engine&&) noexcept = default;
Engine& Engine::operator=(Engine&&) noexcept = default;
Engine::~Engine() = default;

void Engine::load(const Device& device) { machine_->Load(device.getTarget()); }

void Engine::run(unsigned program, const std::string&) {
  const auto started = getTimeStamp();
  machine_->Run(program);
  detail::LogTime("ran program " + std::to_string(program), started);
}

void Engine::loadAndRun(const Device& device, unsigned program, const std::string& debugName) {
  load(device);
  run(program, debugName);
}

void Engine::connectStream(StringRef handle, void* begin, void* end) {
  machine_->ConnectRing(std::string(handle), static_cast<std::uint8_t*>(begin),
                        static_cast<std::uint64_t>(static_cast<char*>(end) - static_cast<char*>(begin)));
}

void Engine::connectStream(StringRef handle, void* begin) {
  machine_->ConnectOne(std::string(handle), static_cast<std::uint8_t*>(begin));
}

void Engine::connectStreamToCallback(StringRef handle, StreamCallbackHandle callback) {
  machine_->ConnectCallback(std::string(handle), callback);
}

void Engine::connectStreamToCallback(StringRef handle, unsigned index, StreamCallbackHandle callback) {
  machine_->ConnectCallback(std::string(handle), index, std::move(callback));
}

void Engine::connectHostFunction(StringRef handle, unsigned index, HostCallbackHandle callback) {
  machine_->ConnectFunction(std::string(handle), index, std::move(callback));
}

void Engine::writeTensor(StringRef handle, const void* begin, const void* end) {
  machine_->Write(std::string(handle), static_cast<const std::uint8_t*>(begin),
                  static_cast<std::uint64_t>(static_cast<const char*>(end) - static_cast<const char*>(begin)));
}

void Engine::readTensor(StringRef handle, void* begin, void* end) {
  machine_->Read(std::string(handle), static_cast<std::uint8_t*>(begin),
                 static_cast<std::uint64_t>(static_cast<char*>(end) - static_cast<char*>(begin)));
}

void Engine::writeTensor(StringRef handle, const void* begin) {
  machine_->Write(std::string(handle), static_cast<const std::uint8_t*>(begin), detail::kWholeTensor);
}

void Engine::readTensor(StringRef handle, void* begin) {
  machine_->Read(std::string(handle), static_cast<std::uint8_t*>(begin), detail::kWholeTensor);
}

void Engine::copyToRemoteBuffer(const void* source, std::string handle, int repeatIndex, unsigned replicationIndex) {
  std::memcpy(machine_->RemoteRow(handle, repeatIndex, replicationIndex), source, machine_->RemoteRowBytes(handle));
}

void Engine::copyFromRemoteBuffer(std::string handle, void* destination, int repeatIndex, unsigned replicationIndex) {
  std::memcpy(destination, machine_->RemoteRow(handle, repeatIndex, replicationIndex),
              machine_->RemoteRowBytes(handle));
}

void Engine::CheckRow(const std::string& handle, std::size_t bytes) const {
  const std::uint64_t row = machine_->RemoteRowBytes(handle);
  if (row == bytes) return;
  throw stream_connection_error("Engine: a row of the remote buffer '" + handle + "' has " + std::to_string(row) +
                                " bytes. Received: a list of " + std::to_string(bytes) + ".");
}

void Engine::setPrintStream(std::ostream& stream) { machine_->print_stream = &stream; }
void Engine::setPrintTensorStream(std::ostream& stream) { machine_->print_tensor_stream = &stream; }

void Engine::printProfileSummary(std::ostream& stream, const OptionFlags& options) {
  stream << profile_->Summary(options) << std::flush;
}

ProfileValue Engine::getGraphProfile(const OptionFlags&) { return ProfileValue(profile_->Json()); }
ProfileValue Engine::getExecutionProfile(const OptionFlags&) { return ProfileValue(profile_->Json()); }
void serializeToJSON(std::ostream& out, const ProfileValue& value, bool) { out << value.json(); }

void Engine::enableExecutionProfiling() { profile_->is_on = true; }
void Engine::disableExecutionProfiling() { profile_->is_on = false; }
void Engine::resetExecutionProfile() { profile_->Reset(); }

void Engine::reportTiming(const TimerTimePoint& start, const TimerTimePoint& end, std::ostream& stream) {
  stream << std::chrono::duration<double>(end - start).count() << " s\n";
}

}  // namespace ipu_tf
}  // namespace poplar
