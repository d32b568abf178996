// What a machine exchanges with the host: streams, remote buffers, functions, and tensors by handle.
#include <algorithm>
#include <cstring>
#include <iostream>
#include <utility>

#include <poplar/exceptions.hpp>

#include "../base/values.h"
#include "machine.h"

namespace poplar {
inline namespace ipu_tf {
namespace detail {
namespace {

template <typename Items, typename Name>
std::string Names(const Items& items, const Name& name) {
  std::string names;
  for (const auto& one : items) names += (names.empty() ? "" : ", ") + name(one);
  return names.empty() ? "none" : names;
}

void CheckReplica(const std::string& call, const std::string& what, unsigned replica, unsigned replicas) {
  if (replica < replicas) return;
  throw stream_connection_error("Engine::" + call + ": " + what + " has replicas 0 to " + std::to_string(replicas - 1) +
                                ". Received: " + std::to_string(replica) + ".");
}

// Calls work(place in memory, block, place in the block, bytes) for each piece of a copy, whose bytes for the host are
// in blocks, from the byte `ahead` on.
template <typename Work>
void ForPieces(const std::vector<Move>& moves, std::uint64_t ahead, std::uint64_t block, const Work& work) {
  for (const Move& move : moves) {
    for (std::uint64_t done = 0; done < move.bytes;) {
      const std::uint64_t place = ahead + move.to + done;
      const std::uint64_t now = std::min(move.bytes - done, block - place % block);
      work(move.from + done, place / block, place % block, now);
      done += now;
    }
  }
}

void CopyBytes(bool to_device, std::uint8_t* device, std::uint8_t* host, std::uint64_t bytes) {
  std::memcpy(to_device ? device : host, to_device ? host : device, bytes);
}

}  // namespace

void Machine::Gather(const Step& step, unsigned replica, std::uint8_t* buffer) const {
  const std::uint8_t* const memory = memory_[replica].get();
  for (const Move& move : step.moves) std::memcpy(buffer + move.to, memory + move.from, move.bytes);
}

void Machine::Scatter(const Step& step, unsigned replica, const std::uint8_t* buffer) {
  std::uint8_t* const memory = memory_[replica].get();
  for (const Move& move : step.moves) std::memcpy(memory + move.from, buffer + move.to, move.bytes);
}

unsigned Machine::PartsOf(const DataStream& stream) const {
  return stream.replicatedMode() == ReplicatedStreamMode::BROADCAST ? 1 : graph_.replicas;
}

// Each replica's data in turn, or the same for all.
void Machine::RunStream(const Step& step) {
  Stream& stream = streams_[step.id];
  const auto parts = static_cast<unsigned>(stream.callbacks.size());
  for (unsigned part = 0; part < parts; ++part) {
    const Replicas of = parts == 1 ? Replicas{0, graph_.replicas} : Replicas{part, part + 1};
    if (stream.begin != nullptr) {
      RunRing(step, &stream, part * step.bytes, of);
    } else if (stream.callbacks[part]) {
      RunCallback(step, stream.callbacks[part]->operator->(), of);
    } else {
      throw stream_connection_error("The stream '" + graph_.streams[step.id].handle() + "' is used, but not connected" +
                                    graph_.ReplicaText(part) + ". Call Engine::connectStream before the program runs.");
    }
  }
  const std::uint64_t size = stream.bytes == 0 ? parts * step.bytes : stream.bytes;
  if (size > 0) stream.at = (stream.at + parts * step.bytes) % size;
}

void Machine::RunCallback(const Step& step, StreamCallback* callback, Replicas of) {
  buffer_.resize(step.bytes);
  if (step.kind == ProgramKind::kCopyToStream) Gather(step, of.begin, buffer_.data());
  callback->fetch(buffer_.data());
  if (step.kind == ProgramKind::kCopyFromStream) {
    for (unsigned replica = of.begin; replica < of.end; ++replica) Scatter(step, replica, buffer_.data());
  }
  callback->complete();
}

// `ahead`: bytes from the place where the copy begins in the ring.
void Machine::RunRing(const Step& step, Stream* stream, std::uint64_t ahead, Replicas of) {
  const bool from_host = step.kind == ProgramKind::kCopyFromStream;
  const std::uint64_t size = stream->bytes == 0 ? stream->callbacks.size() * step.bytes : stream->bytes;
  for (unsigned replica = of.begin; replica < of.end; ++replica) {
    std::uint8_t* const memory = memory_[replica].get();
    ForPieces(step.moves, stream->at + ahead, size,
              [&](std::uint64_t from, std::uint64_t, std::uint64_t place, std::uint64_t bytes) {
                CopyBytes(from_host, memory + from, stream->begin + place, bytes);
              });
  }
}

std::uint8_t* Machine::RemoteRow(std::uint32_t id, std::int64_t row, unsigned replica) {
  const RemoteBuffer& buffer = graph_.remote_buffers[id];
  if (row < 0 || static_cast<std::uint64_t>(row) >= buffer.getRepeats()) {
    throw application_runtime_error("The remote buffer '" + buffer.handle() + "' has rows 0 to " +
                                    std::to_string(buffer.getRepeats() - 1) + ". Received: " + std::to_string(row) +
                                    graph_.ReplicaText(replica) + ".");
  }
  const std::uint64_t place = replica * buffer.getRepeats() + static_cast<std::uint64_t>(row);
  return remote_[id].data() + place * buffer.numElements() * TypeBytes(buffer.elementType());
}

void Machine::RunRemote(const Step& step, unsigned replica) {
  std::uint8_t* const memory = memory_[replica].get();
  const bool from_remote = step.kind == ProgramKind::kCopyFromRemote;
  std::vector<std::uint8_t*> rows;
  for (const std::uint64_t at : step.rows) {
    std::int32_t row;
    std::memcpy(&row, memory + at, sizeof row);
    rows.push_back(RemoteRow(step.id, row, replica));
  }
  if (rows.empty()) rows.push_back(RemoteRow(step.id, 0, replica));
  ForPieces(step.moves, 0, step.bytes,
            [&](std::uint64_t from, std::uint64_t row, std::uint64_t place, std::uint64_t bytes) {
              CopyBytes(from_remote, memory + from, rows[row] + place, bytes);
            });
}

void Machine::RunHostFunction(const Step& step, unsigned replica) {
  const std::optional<HostCallbackHandle>& callback = host_functions_[step.id][replica];
  if (!callback) {
    throw stream_connection_error("The host function '" + step.text + "' is called, but not connected" +
                                  graph_.ReplicaText(replica) +
                                  ". Call Engine::connectHostFunction before the program runs.");
  }
  std::vector<std::vector<std::uint8_t>> buffers;
  std::vector<const void*> inputs;
  std::vector<void*> outputs;
  for (const auto& copy : step.children) {
    buffers.emplace_back(copy->bytes);
    std::uint8_t* const buffer = buffers.back().data();
    const bool are_inputs = copy->kind == ProgramKind::kCopyToStream;
    if (are_inputs) Gather(*copy, replica, buffer);
    for (const std::uint64_t place : copy->places) {
      are_inputs ? inputs.push_back(buffer + place) : outputs.push_back(buffer + place);
    }
  }
  callback->call(inputs, outputs);
  if (!outputs.empty()) Scatter(*step.children.back(), replica, buffers.back().data());
}

void Machine::RunPrint(const Step& step, unsigned replica) {
  buffer_.resize(step.bytes);
  Gather(step, replica, buffer_.data());
  const std::string title = step.text.empty() && graph_.replicas > 1 ? "replica " + std::to_string(replica)
                                                                     : step.text + graph_.ReplicaText(replica);
  *print_tensor_stream << PrintedTensor(title, buffer_.data(), step.type, step.shape) << std::flush;
}

Machine::Stream& Machine::StreamOf(const std::string& handle, const DataStream** found) {
  for (const DataStream& one : graph_.streams) {
    if (one.handle() != handle) continue;
    *found = &one;
    return streams_[one.getId()];
  }
  throw stream_connection_error("Engine: there is no stream '" + handle + "'. The streams of the graph are: " +
                                Names(graph_.streams, [](const DataStream& one) { return one.handle(); }) + ".");
}

void Machine::ConnectRing(const std::string& handle, std::uint8_t* begin, std::uint64_t bytes) {
  const DataStream* found = nullptr;
  Stream& stream = StreamOf(handle, &found);
  const std::uint64_t needed = found->numElements() * TypeBytes(found->elementType()) * stream.callbacks.size();
  if (bytes < needed) {
    const std::string of = stream.callbacks.size() == 1 ? "" : " for all replicas";
    throw stream_connection_error("Engine::connectStream: a copy of the stream '" + handle + "' has " +
                                  std::to_string(needed) + " bytes" + of + ". Received: a buffer of " +
                                  std::to_string(bytes) + ".");
  }
  stream.begin = begin;
  stream.bytes = bytes;
  stream.at = 0;
}

void Machine::ConnectOne(const std::string& handle, std::uint8_t* begin) {
  const DataStream* found = nullptr;
  Stream& stream = StreamOf(handle, &found);
  stream.begin = begin;
  stream.bytes = 0;
  stream.at = 0;
}

void Machine::ConnectCallback(const std::string& handle, const StreamCallbackHandle& callback) {
  const DataStream* found = nullptr;
  for (unsigned part = 0; part < StreamOf(handle, &found).callbacks.size(); ++part) {
    ConnectCallback(handle, part, callback);
  }
}

void Machine::ConnectCallback(const std::string& handle, unsigned replica, StreamCallbackHandle callback) {
  const DataStream* found = nullptr;
  Stream& stream = StreamOf(handle, &found);
  const bool is_broadcast = stream.callbacks.size() < graph_.replicas;
  CheckReplica("connectStreamToCallback",
               "the stream '" + handle + "'" + (is_broadcast ? ", which is one for all replicas," : ""), replica,
               static_cast<unsigned>(stream.callbacks.size()));
  stream.begin = nullptr;
  stream.callbacks[replica] = std::move(callback);
}

void Machine::ConnectFunction(const std::string& handle, unsigned replica, HostCallbackHandle callback) {
  for (std::size_t i = 0; i < graph_.host_functions.size(); ++i) {
    if (graph_.host_functions[i].handle != handle) continue;
    CheckReplica("connectHostFunction", "the host function '" + handle + "'", replica, graph_.replicas);
    host_functions_[i][replica] = std::move(callback);
    return;
  }
  throw stream_connection_error(
      "Engine::connectHostFunction: there is no host function '" + handle + "'. The host functions of the graph are: " +
      Names(graph_.host_functions, [](const HostSignature& one) { return one.handle; }) + ".");
}

namespace {

const HostTransfer& TransferOf(const std::map<std::string, HostTransfer>& known, const std::string& handle,
                               std::uint64_t bytes, unsigned replicas, const std::string& call) {
  const auto found = known.find(handle);
  if (found == known.end()) {
    throw stream_connection_error("Engine::" + call + ": there is no handle '" + handle + "'. The handles are: " +
                                  Names(known, [](const auto& one) { return one.first; }) + ".");
  }
  if (bytes != kWholeTensor && found->second.bytes * replicas != bytes) {
    throw stream_connection_error("Engine::" + call + ": the tensor of '" + handle + "' has " +
                                  std::to_string(found->second.bytes) + " bytes" +
                                  (replicas == 1 ? "" : " on each of " + std::to_string(replicas) + " replicas") +
                                  ". Received: " + std::to_string(bytes) + ".");
  }
  return found->second;
}

}  // namespace

void Machine::Write(const std::string& handle, const std::uint8_t* begin, std::uint64_t bytes) {
  if (!is_loaded()) throw poplar_error("Engine::writeTensor: no device is loaded. Call Engine::load first.");
  const HostTransfer& transfer = TransferOf(compiled_->host_writes, handle, bytes, graph_.replicas, "writeTensor");
  for (const auto& memory : memory_) {
    for (const Move& move : transfer.moves) std::memcpy(memory.get() + move.from, begin + move.to, move.bytes);
    begin += transfer.bytes;
  }
}

void Machine::Read(const std::string& handle, std::uint8_t* begin, std::uint64_t bytes) const {
  if (!is_loaded()) throw poplar_error("Engine::readTensor: no device is loaded. Call Engine::load first.");
  const HostTransfer& transfer = TransferOf(compiled_->host_reads, handle, bytes, graph_.replicas, "readTensor");
  for (const auto& memory : memory_) {
    for (const Move& move : transfer.moves) std::memcpy(begin + move.to, memory.get() + move.from, move.bytes);
    begin += transfer.bytes;
  }
}

const RemoteBuffer& Machine::RemoteOf(const std::string& handle) const {
  for (const RemoteBuffer& one : graph_.remote_buffers) {
    if (one.handle() == handle) return one;
  }
  throw stream_connection_error("Engine: there is no remote buffer '" + handle + "'. The remote buffers are: " +
                                Names(graph_.remote_buffers, [](const RemoteBuffer& one) { return one.handle(); }) +
                                ".");
}

std::uint64_t Machine::RemoteRowBytes(const std::string& handle) const {
  const RemoteBuffer& buffer = RemoteOf(handle);
  return buffer.numElements() * TypeBytes(buffer.elementType());
}

std::uint8_t* Machine::RemoteRow(const std::string& handle, std::int64_t row, unsigned replica) {
  CheckReplica("copyToRemoteBuffer or copyFromRemoteBuffer", "the remote buffer '" + handle + "'", replica,
               graph_.replicas);
  return RemoteRow(RemoteOf(handle).getId(), row, replica);
}

}  // namespace detail
}  // namespace ipu_tf
}  // namespace poplar
