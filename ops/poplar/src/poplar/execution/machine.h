// Memory, threads and connections of a compiled graph that runs.
#ifndef IPU_TF_POPLAR_MACHINE_H_
#define IPU_TF_POPLAR_MACHINE_H_

#include <atomic>
#include <cstdint>
#include <iosfwd>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <poplar/HostFunctionCallback.hpp>
#include <poplar/StreamCallback.hpp>

#include "../compile/compiled.h"
#include "thread_pool.h"

namespace poplar {
inline namespace ipu_tf {
namespace detail {

// For Write and Read: as many bytes as the tensors of all replicas have.
constexpr std::uint64_t kWholeTensor = ~std::uint64_t{0};

class Profile;

// The replicas that run a step: all, or a single one.
struct Replicas {
  unsigned begin;
  unsigned end;
};

class Machine {
 public:
  Machine(std::shared_ptr<const Compiled> compiled, const OptionFlags& options);

  const Compiled& compiled() const { return *compiled_; }
  bool is_loaded() const { return !memory_.empty(); }
  void Load(const Target& target);
  void Run(unsigned program);

  void ConnectRing(const std::string& handle, std::uint8_t* begin, std::uint64_t bytes);
  void ConnectOne(const std::string& handle, std::uint8_t* begin);
  void ConnectCallback(const std::string& handle, const StreamCallbackHandle& callback);
  void ConnectCallback(const std::string& handle, unsigned replica, StreamCallbackHandle callback);
  void ConnectFunction(const std::string& handle, unsigned replica, HostCallbackHandle callback);
  void Write(const std::string& handle, const std::uint8_t* begin, std::uint64_t bytes);
  void Read(const std::string& handle, std::uint8_t* begin, std::uint64_t bytes) const;
  std::uint8_t* RemoteRow(const std::string& handle, std::int64_t row, unsigned replica);
  std::uint64_t RemoteRowBytes(const std::string& handle) const;

  std::ostream* print_stream;
  std::ostream* print_tensor_stream;
  Profile* profile = nullptr;  // Counts what runs.

 private:
  struct Stream {
    std::uint8_t* begin = nullptr;
    std::uint64_t bytes = 0;  // Of a ring; 0 for one buffer.
    std::uint64_t at = 0;
    std::vector<std::optional<StreamCallbackHandle>> callbacks;  // Of replicas; of a broadcast, one.
  };

  void RunStep(const Step& step, Replicas on);
  void RunSet(const Step& step, Replicas on);
  struct PartResult {
    bool status = true;  // Whether all vertices return true.
    std::string text;    // What its codelets print.
    std::string fault;   // What a codelet wrote outside of its fields.
  };
  void RunPart(const CompiledSet& set, std::size_t part, std::size_t parts, unsigned replica, PartResult* result);
  void RunCopy(const Step& step, std::uint8_t* memory);
  void RunCrossReplicaCopy(const Step& step);
  void RunStream(const Step& step);
  void RunCallback(const Step& step, StreamCallback* callback, Replicas of);
  void RunRing(const Step& step, Stream* stream, std::uint64_t ahead, Replicas of);
  void RunRemote(const Step& step, unsigned replica);
  void RunHostFunction(const Step& step, unsigned replica);
  void RunWhile(const Step& step, Replicas on, bool is_tested);
  void RunBranch(const Step& step, Replicas on);
  void RunPrint(const Step& step, unsigned replica);
  void RunCycleCount(const Step& step, Replicas on);
  void AbortIf(const Step& step, unsigned replica) const;
  void CheckEqual(const Step& step) const;
  std::int64_t Predicate(const Step& step, unsigned replica) const;
  std::size_t Chosen(const Step& step, unsigned replica) const;
  bool Agree(const Step& step, Replicas on) const;
  template <typename Work>
  void Apart(Replicas on, const Work& work);
  void Gather(const Step& step, unsigned replica, std::uint8_t* buffer) const;
  void Scatter(const Step& step, unsigned replica, const std::uint8_t* buffer);
  // How many of the replicas get data of their own from a stream.
  unsigned PartsOf(const DataStream& stream) const;
  Stream& StreamOf(const std::string& handle, const DataStream** found);
  const RemoteBuffer& RemoteOf(const std::string& handle) const;
  std::uint8_t* RemoteRow(std::uint32_t id, std::int64_t row, unsigned replica);

  std::shared_ptr<const Compiled> compiled_;
  const GraphState& graph_;
  struct Free {
    void operator()(std::uint8_t* memory) const;
  };
  std::vector<std::unique_ptr<std::uint8_t, Free>> memory_;  // Of replicas.
  std::vector<Stream> streams_;
  std::vector<std::vector<std::uint8_t>> remote_;                               // The rows of all replicas.
  std::vector<std::vector<std::optional<HostCallbackHandle>>> host_functions_;  // Of replicas.
  std::vector<std::uint64_t> random_;                                           // Of tiles, replica by replica.
  std::vector<std::int64_t> nanoseconds_;                                       // Of the last run of each compute set.
  std::vector<std::uint8_t> buffer_;
  ThreadPool pool_;
  std::uint64_t set_cycles_ = 0;  // Until the compute set that runs, if codelets ask.
  double timeout_s_ = 0;
};

}  // namespace detail
}  // namespace ipu_tf
}  // namespace poplar

#endif  // IPU_TF_POPLAR_MACHINE_H_
