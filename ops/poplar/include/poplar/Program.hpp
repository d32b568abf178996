// Control programs: what a device does, in order.
#ifndef IPU_TF_POPLAR_PROGRAM_HPP_
#define IPU_TF_POPLAR_PROGRAM_HPP_

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <poplar/ArrayRef.hpp>
#include <poplar/DataStream.hpp>
#include <poplar/DebugContext.hpp>
#include <poplar/GraphElements.hpp>
#include <poplar/SyncType.hpp>
#include <poplar/Tensor.hpp>

namespace poplar {
inline namespace ipu_tf {
namespace detail {
struct ProgramNode;
struct ProgramAccess;
}  // namespace detail

namespace program {

// A tree of steps; a copy of a program does not change with it.
class Program {
 public:
  // Nothing to do.
  Program();
  bool isEmpty() const;

 protected:
  friend struct detail::ProgramAccess;
  explicit Program(std::shared_ptr<detail::ProgramNode> node) : node_(std::move(node)) {}

  std::shared_ptr<detail::ProgramNode> node_;
};

// Programs, one after the other.
class Sequence : public Program {
 public:
  Sequence(const DebugContext& debugContext = {});
  Sequence(std::initializer_list<Program> programs, const DebugContext& debugContext = {});
  Sequence(const std::vector<Program>& programs, const DebugContext& debugContext = {});
  template <typename... More, std::enable_if_t<(std::is_base_of<Program, More>::value && ...), int> = 0>
  explicit Sequence(const Program& first, const More&... more)
      : Sequence(std::initializer_list<Program>{first, more...}) {}

  void add(const Program& program);
};

// One superstep: the vertices of a compute set.
class Execute : public Program {
 public:
  explicit Execute(ComputeSet computeSet, const DebugContext& debugContext = {});
  // Writes to one element, BOOL or an integer, whether compute() of all vertices returns true; what returns nothing
  // counts as true.
  Execute(ComputeSet computeSet, const Tensor& status, const DebugContext& debugContext = {});
};

// Elements of a tensor, stream or remote buffer to another; sizes and types are equal.
class Copy : public Program {
 public:
  Copy(const Tensor& src, const Tensor& dst, bool dontOutline = false, const DebugContext& debugContext = {});
  Copy(const DataStream& stream, const Tensor& dst, bool optimiseMemory = false, const DebugContext& debugContext = {});
  Copy(const Tensor& src, const DataStream& stream, bool optimiseMemory = false, const DebugContext& debugContext = {});
  Copy(const RemoteBuffer& buffer, const Tensor& dst, const DebugContext& debugContext = {});
  // The offset is the number of the row, an integer on the device; with several, one row each.
  Copy(const RemoteBuffer& buffer, const Tensor& dst, const Tensor& offset, const DebugContext& debugContext = {});
  Copy(const Tensor& src, const RemoteBuffer& buffer, const DebugContext& debugContext = {});
  Copy(const Tensor& src, const RemoteBuffer& buffer, const Tensor& offset, const DebugContext& debugContext = {});
};

// Elements of a tensor to a tensor of other replicas: each key of the map sends to its value. All send before any
// receives; replicas that are no value keep what they have.
class CrossReplicaCopy : public Program {
 public:
  CrossReplicaCopy(const Tensor& src, const Tensor& dst, const std::map<unsigned, unsigned>& replicaMap,
                   const DebugContext& debugContext = {});
};

class Repeat : public Program {
 public:
  Repeat(unsigned count, const Program& program, const DebugContext& debugContext = {});
};

// `cond` runs, the predicate is read, and `body` runs if it holds; then all over again.
class RepeatWhileTrue : public Program {
 public:
  RepeatWhileTrue(const Program& cond, const Tensor& predicate, const Program& body,
                  const DebugContext& debugContext = {});
};

class RepeatWhileFalse : public Program {
 public:
  RepeatWhileFalse(const Program& cond, const Tensor& predicate, const Program& body,
                   const DebugContext& debugContext = {});
};

class If : public Program {
 public:
  If(const Tensor& predicate, const Program& trueBody, const Program& falseBody, const DebugContext& debugContext = {});
};

class Switch : public Program {
 public:
  Switch(const Tensor& control, const std::vector<std::pair<std::int32_t, Program>>& cases,
         const Program& defaultCaseBody, const DebugContext& debugContext = {});
  Switch(const Tensor& control, const std::vector<std::pair<std::int32_t, Program>>& cases,
         const DebugContext& debugContext = {});
  static Switch switchWithUnreachableDefault(const Tensor& control, const DebugContext& debugContext = {});
  static Switch switchWithBoundsChecking(const Tensor& control,
                                         const std::vector<std::pair<std::int32_t, Program>>& cases,
                                         const DebugContext& debugContext = {});

  Switch& add(std::int32_t value, const Program& body);
};

// A function of the graph, or of the host.
class Call : public Program {
 public:
  explicit Call(Function function, const DebugContext& debugContext = {});
  // The host's function reads the inputs, and writes all elements of the outputs.
  Call(HostFunction function, ArrayRef<Tensor> inputs, ArrayRef<Tensor> outputs, const DebugContext& debugContext = {});
};

// The elements, as text on the error output or on the stream of Engine::setPrintTensorStream.
class PrintTensor : public Program {
 public:
  explicit PrintTensor(const Tensor& tensor, const DebugContext& debugContext = {});
  PrintTensor(StringRef title, const Tensor& tensor, const DebugContext& debugContext = {});
};

// Hints about time and memory; they change no number.
class Sync : public Program {
 public:
  explicit Sync(SyncType type, const DebugContext& debugContext = {});
};

class WriteUndef : public Program {
 public:
  explicit WriteUndef(const Tensor& tensor, const DebugContext& debugContext = {});
};

// The elements are the same on all replicas; the run ends with an application_runtime_error if they are not.
class AssumeEqualAcrossReplicas : public Program {
 public:
  explicit AssumeEqualAcrossReplicas(const Tensor& tensor, const DebugContext& debugContext = {});
};

// Ends the run with an application_runtime_error.
class Abort : public Program {
 public:
  explicit Abort(const DebugContext& debugContext = {});
  explicit Abort(const std::string& message, const DebugContext& debugContext = {});
};

class AbortOnCondition : public Program {
 public:
  explicit AbortOnCondition(const Tensor& predicate, const DebugContext& debugContext = {});
  AbortOnCondition(const Tensor& predicate, const std::string& message, const DebugContext& debugContext = {});
};

class ErrorProgram : public Program {
 public:
  ErrorProgram(StringRef message, const Tensor& tensor, const DebugContext& debugContext = {});
};

}  // namespace program
}  // namespace ipu_tf
}  // namespace poplar

#endif  // IPU_TF_POPLAR_PROGRAM_HPP_
