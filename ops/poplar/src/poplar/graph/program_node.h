// A node of a control program.
#ifndef IPU_TF_POPLAR_PROGRAM_NODE_H_
#define IPU_TF_POPLAR_PROGRAM_NODE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <poplar/Program.hpp>

namespace poplar {
inline namespace ipu_tf {
namespace detail {

enum class ProgramKind {
  kSequence,
  kExecute,
  kCopy,
  kCopyFromStream,
  kCopyToStream,
  kCopyFromRemote,
  kCopyToRemote,
  kRepeat,
  kRepeatWhile,  // children: condition, body; `count` is the value of the predicate that goes on.
  kIf,           // children: true, false.
  kSwitch,       // children: cases in order, then the default.
  kCall,
  kPrint,
  kAbort,
  kAbortOnCondition,
  kNothing,
  kCycleCount,        // children: what is counted, or none for all cycles so far; first: the result.
  kCrossReplicaCopy,  // cases: pairs of a sender and its receiver.
  kHostFunction,      // As a step, children: the copy of the inputs to the host, that of the outputs from it.
};

struct ProgramNode {
  explicit ProgramNode(ProgramKind k) : kind(k) {}

  ProgramKind kind;
  std::vector<std::shared_ptr<const ProgramNode>> children;
  std::uint32_t id = 0;  // Of a compute set, stream, remote buffer, or function of the graph or the host.
  std::uint64_t count = 0;
  Tensor first;   // Source, predicate, or what is printed or assumed equal.
  Tensor second;  // Destination, or the row of a remote buffer.
  std::vector<std::int32_t> cases;
  std::vector<Tensor> inputs;   // Of a function of the host.
  std::vector<Tensor> outputs;  // The same.
  std::string text;
};

struct ProgramAccess {
  static std::shared_ptr<const ProgramNode> NodeOf(const program::Program& program) { return program.node_; }
};

}  // namespace detail
}  // namespace ipu_tf
}  // namespace poplar

#endif  // IPU_TF_POPLAR_PROGRAM_NODE_H_
