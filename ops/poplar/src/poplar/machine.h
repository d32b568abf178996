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

#include <poplar/StreamCallback.hpp>

#include "compiled.h"
#include "thread_pool.h"

namespace poplar {
inline namespace ipu_tf {
namespace detail {

// For Write and Read: as many bytes as the tensor has.
constexpr std::uint64_t kWholeTensor = ~std::uint64_t{0};

class Profile;

class Machine {
 public:
  explicit Machine(std::shared_ptr<const Compiled> compiled);

  const Compiled& compiled() const { return *compiled_; }
  bool is_loaded() const { return is_loaded_; }
  void Load(const Target& target);
  void Run(unsigned program);

  void ConnectRing(const std::string& handle, std::uint8_t* begin, std::uint64_t bytes);
  void ConnectOne(const std::string& handle, std::uint8_t* begin);
  void ConnectCallback(const std::string& handle, StreamCallbackHandle callback);
  void Write(const std::string& handle, const std::uint8_t* begin, std::uint64_t bytes);
  void Read(const std::string& handle, std::uint8_t* begin, std::uint64_t bytes) const;
  std::uint8_t* RemoteRow(const std::string& handle, std::int64_t row, std::uint64_t* bytes);

  std::ostream* print_stream;
  std::ostream* print_tensor_stream;
  Profile* profile = nullptr;  // Counts what runs.

 private:
  struct Stream {
    std::uint8_t* begin = nullptr;
    std::uint64_t bytes = 0;  // Of a ring; 0 for one buffer.
    std::uint64_t at = 0;
    std::optional<StreamCallbackHandle> callback;
  };

  void RunStep(const Step& step);
  void RunSet(std::uint32_t number);
  struct PartResult {
    std::string text;   // What its codelets print.
    std::string fault;  // What a codelet wrote outside of its fields.
  };
  void RunPart(const CompiledSet& set, std::size_t part, std::size_t parts, PartResult* result);
  void RunCopy(const Step& step);
  template <typename Work>
  void ForPieces(const Step& step, Stream* stream, const Work& work);
  void RunFromStream(const Step& step);
  void RunToStream(const Step& step);
  void RunRemote(const Step& step);
  void RunWhile(const Step& step);
  void RunSwitch(const Step& step);
  void RunPrint(const Step& step);
  void RunCycleCount(const Step& step);
  std::int64_t Predicate(const Step& step) const;
  Stream& StreamOf(std::uint32_t id);
  Stream& StreamOf(const std::string& handle, std::uint64_t* bytes);
  std::uint8_t* RemoteRow(std::uint32_t id, std::int64_t row);

  std::shared_ptr<const Compiled> compiled_;
  struct Free {
    void operator()(std::uint8_t* memory) const;
  };
  std::unique_ptr<std::uint8_t, Free> memory_;
  std::vector<Stream> streams_;
  std::vector<std::vector<std::uint8_t>> remote_;
  std::vector<std::uint64_t> random_;      // Of tiles.
  std::vector<std::int64_t> nanoseconds_;  // Of the last run of each compute set.
  std::vector<std::uint8_t> buffer_;
  ThreadPool pool_;
  std::uint64_t set_cycles_ = 0;  // Until the compute set that runs, if codelets ask.
  double timeout_s_ = 0;
  bool is_loaded_ = false;
};

}  // namespace detail
}  // namespace ipu_tf
}  // namespace poplar

#endif  // IPU_TF_POPLAR_MACHINE_H_
