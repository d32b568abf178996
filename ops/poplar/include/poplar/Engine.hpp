// Runs the programs of a graph on a device.
#ifndef IPU_TF_POPLAR_ENGINE_HPP_
#define IPU_TF_POPLAR_ENGINE_HPP_

#include <chrono>
#include <cstddef>
#include <iosfwd>
#include <memory>
#include <string>
#include <utility>

#include <poplar/ArrayRef.hpp>
#include <poplar/Device.hpp>
#include <poplar/Executable.hpp>
#include <poplar/Graph.hpp>
#include <poplar/HostFunctionCallback.hpp>
#include <poplar/OptionFlags.hpp>
#include <poplar/ProfileValue.hpp>
#include <poplar/Program.hpp>
#include <poplar/StreamCallback.hpp>
#include <poplar/exceptions.hpp>

namespace poplar {
inline namespace ipu_tf {
namespace detail {
class Machine;
class Profile;
}  // namespace detail

class Engine {
 public:
  using TimerTimePoint = std::chrono::steady_clock::time_point;

  Engine(const Graph& graph, const program::Program& program, const OptionFlags& options = {},
         ProgressFunc progress = {}, const DebugContext& debugContext = {});
  Engine(const Graph& graph, ArrayRef<program::Program> programs, const OptionFlags& options = {},
         ProgressFunc progress = {}, const DebugContext& debugContext = {});
  explicit Engine(Executable executable, const OptionFlags& options = {});
  Engine(Engine&&) noexcept;
  Engine& operator=(Engine&&) noexcept;
  ~Engine();

  // Puts the graph on a device: variables get their initial values, others zeros.
  void load(const Device& device);
  void prepare(const Device& device) { load(device); }
  void deploy() {}
  void run(unsigned program = 0, const std::string& debugName = "");
  void loadAndRun(const Device& device, unsigned program = 0, const std::string& debugName = "");

  // Streams read from, or write to, [begin, end) and start over at the end. The data of a copy are those of all
  // replicas, in order; of a broadcast, one for all.
  void connectStream(StringRef handle, void* begin, void* end);
  // Each copy reads or writes the same elements.
  void connectStream(StringRef handle, void* begin);
  // Called for each replica in turn; of a broadcast, once.
  void connectStreamToCallback(StringRef handle, StreamCallbackHandle callback);
  // For one replica.
  void connectStreamToCallback(StringRef handle, unsigned index, StreamCallbackHandle callback);
  // For one replica.
  void connectHostFunction(StringRef handle, unsigned index, HostCallbackHandle callback);
  // The tensors of all replicas, in order.
  void writeTensor(StringRef handle, const void* begin, const void* end);
  void readTensor(StringRef handle, void* begin, void* end);
  // The size is that of the tensors.
  void writeTensor(StringRef handle, const void* begin);
  void readTensor(StringRef handle, void* begin);
  void copyToRemoteBuffer(const void* source, std::string handle, int repeatIndex, unsigned replicationIndex = 0);
  void copyFromRemoteBuffer(std::string handle, void* destination, int repeatIndex, unsigned replicationIndex = 0);
  // A list such as std::vector, ArrayRef or a span, which has as many bytes as a row.
  template <typename List, typename = decltype(std::declval<const List&>().data()[0])>
  void copyToRemoteBuffer(const List& source, std::string handle, int repeatIndex, unsigned replicationIndex = 0) {
    CheckRow(handle, source.size() * sizeof(source.data()[0]));
    copyToRemoteBuffer(static_cast<const void*>(source.data()), std::move(handle), repeatIndex, replicationIndex);
  }
  template <typename List, typename = decltype(std::declval<List&>().data()[0])>
  void copyFromRemoteBuffer(std::string handle, List&& destination, int repeatIndex, unsigned replicationIndex = 0) {
    CheckRow(handle, destination.size() * sizeof(destination.data()[0]));
    copyFromRemoteBuffer(std::move(handle), static_cast<void*>(destination.data()), repeatIndex, replicationIndex);
  }

  void setPrintStream(std::ostream& stream);
  void setPrintTensorStream(std::ostream& stream);

  // Cycles and memory of the machine's model, for what ran since the engine was made, or since the last reset.
  void printProfileSummary(std::ostream& stream, const OptionFlags& options = {});
  ProfileValue getGraphProfile(const OptionFlags& options = {});
  ProfileValue getExecutionProfile(const OptionFlags& options = {});
  void enableExecutionProfiling();
  void disableExecutionProfiling();
  void resetExecutionProfile();

  // The time of the host.
  TimerTimePoint getTimeStamp() const { return std::chrono::steady_clock::now(); }
  static void reportTiming(const TimerTimePoint& start, const TimerTimePoint& end, std::ostream& stream);

 private:
  // Raises stream_connection_error if a row of a remote buffer has other bytes.
  void CheckRow(const std::string& handle, std::size_t bytes) const;

  std::unique_ptr<detail::Profile> profile_;
  std::unique_ptr<detail::Machine> machine_;
};

}  // namespace ipu_tf
}  // namespace poplar

#endif  // IPU_TF_POPLAR_ENGINE_HPP_
