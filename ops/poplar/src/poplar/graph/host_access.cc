// What a graph shares with its host: handles, streams, remote buffers and functions.
#include <string>

#include <poplar/Graph.hpp>
#include <poplar/Program.hpp>
#include <poplar/exceptions.hpp>

#include "graph_state.h"

namespace poplar {
inline namespace ipu_tf {

using detail::GraphState;

void Graph::createHostWrite(StringRef handle, const Tensor& tensor, bool) {
  detail::CheckGraph(*state_, tensor, "Graph::createHostWrite");
  if (!tensor.isParallelWriteable()) {
    throw poplar_error("Graph::createHostWrite: the host cannot write " + tensor.getDebugStr() +
                       ", which has constants or elements twice.");
  }
  if (!state_->host_writes.emplace(handle, detail::HostAccess{tensor, false}).second) {
    throw poplar_error("Graph::createHostWrite: the handle '" + std::string(handle) + "' is taken.");
  }
}

void Graph::createHostRead(StringRef handle, const Tensor& tensor, bool) {
  detail::CheckGraph(*state_, tensor, "Graph::createHostRead");
  if (!state_->host_reads.emplace(handle, detail::HostAccess{tensor, true}).second) {
    throw poplar_error("Graph::createHostRead: the handle '" + std::string(handle) + "' is taken.");
  }
}

namespace {

DataStream AddStream(GraphState* state, const std::string& handle, const Type& type, std::size_t elements,
                     bool to_device, ReplicatedStreamMode mode) {
  for (const DataStream& one : state->streams) {
    if (one.handle() == handle) throw poplar_error("Graph: the handle '" + handle + "' of a stream is taken.");
  }
  state->streams.emplace_back(static_cast<std::uint32_t>(state->streams.size()), handle, type, elements, to_device,
                              mode);
  return state->streams.back();
}

}  // namespace

DataStream Graph::addHostToDeviceFIFO(StringRef handle, const Type& elementType, std::size_t numElements,
                                      ReplicatedStreamMode replicatedMode, const OptionFlags&) {
  return AddStream(state_.get(), std::string(handle), elementType, numElements, true, replicatedMode);
}

DataStream Graph::addDeviceToHostFIFO(StringRef handle, const Type& elementType, std::size_t numElements,
                                      const OptionFlags&) {
  return AddStream(state_.get(), std::string(handle), elementType, numElements, false, ReplicatedStreamMode::REPLICATE);
}

RemoteBuffer Graph::addRemoteBuffer(StringRef handle, const Type& elementType, std::size_t numElements,
                                    std::size_t repeats, bool, bool) {
  for (const RemoteBuffer& one : state_->remote_buffers) {
    if (one.handle() == handle) {
      throw poplar_error("Graph: the handle '" + one.handle() + "' of a remote buffer is taken.");
    }
  }
  state_->remote_buffers.emplace_back(static_cast<std::uint32_t>(state_->remote_buffers.size()), std::string(handle),
                                      elementType, numElements, repeats);
  return state_->remote_buffers.back();
}

Function Graph::addFunction(const program::Program& program) {
  state_->functions.push_back(program);
  return Function(static_cast<std::uint32_t>(state_->functions.size() - 1));
}

HostFunction Graph::addHostFunction(StringRef handle, ArrayRef<HostFunctionArgument> inputs,
                                    ArrayRef<HostFunctionArgument> outputs) {
  for (const detail::HostSignature& one : state_->host_functions) {
    if (one.handle == std::string(handle)) {
      throw poplar_error("Graph: the handle '" + one.handle + "' of a host function is taken.");
    }
  }
  state_->host_functions.push_back({std::string(handle), inputs.cloneAsVector(), outputs.cloneAsVector()});
  return HostFunction(static_cast<std::uint32_t>(state_->host_functions.size() - 1));
}

}  // namespace ipu_tf
}  // namespace poplar
