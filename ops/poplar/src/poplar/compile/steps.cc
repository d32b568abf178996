// Programs as steps: addresses instead of tensors.
#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include <poplar/exceptions.hpp>

#include "compiled.h"

namespace poplar {
inline namespace ipu_tf {
namespace detail {
namespace {

constexpr std::uint64_t kArgumentAlignment = 64;  // Of host functions: bytes.

void AddMove(std::vector<Move>* moves, const Move& move) {
  if (!moves->empty()) {
    Move& last = moves->back();
    if (last.from + last.bytes == move.from && last.to + last.bytes == move.to) {
      last.bytes += move.bytes;
      return;
    }
  }
  moves->push_back(move);
}

class StepMaker {
 public:
  explicit StepMaker(Compiled* result) : graph_(*result->graph), result_(result) {}

  void Make(ArrayRef<program::Program> programs) {
    for (const program::Program& one : graph_.functions)
      result_->functions.push_back(StepOf(*ProgramAccess::NodeOf(one)));
    for (const program::Program& one : programs) result_->programs.push_back(StepOf(*ProgramAccess::NodeOf(one)));
    for (const auto& [handle, access] : graph_.host_writes) result_->host_writes[handle] = Transfer(access.tensor);
    for (const auto& [handle, access] : graph_.host_reads) result_->host_reads[handle] = Transfer(access.tensor);
  }

 private:
  // The addresses of a tensor's elements, as moves to a buffer of the host.
  std::vector<Move> MovesOf(const Tensor& tensor) const {
    const std::uint64_t each = TypeBytes(tensor.elementType());
    std::vector<Move> moves;
    std::uint64_t at = 0;
    TensorAccess::ForRuns(tensor, [&](const Run& run) {
      AddMove(&moves, {result_->variables[run.variable] + run.begin * each, at, run.size * each});
      at += run.size * each;
    });
    return moves;
  }

  HostTransfer Transfer(const Tensor& tensor) const {
    return {MovesOf(tensor), tensor.numElements() * TypeBytes(tensor.elementType())};
  }

  std::uint64_t AddressOf(const Tensor& scalar) const {
    CheckGraph(graph_, scalar, "The predicate of a program");
    return MovesOf(scalar).front().from;
  }

  void CheckWriteable(const Tensor& tensor, const std::string& what) const {
    CheckGraph(graph_, tensor, what);
    if (tensor.containsConstant()) {
      throw control_program_error(what + " writes " + tensor.getDebugStr() + ", which has constants.");
    }
    if (tensor.containsAliases()) {
      throw control_program_error(what + " writes " + tensor.getDebugStr() +
                                  ", which has elements twice. Copy to a tensor that has each element once.");
    }
  }

  void Copy(const ProgramNode& node, Step* step) const {
    CheckGraph(graph_, node.first, "Copy");
    CheckWriteable(node.second, "Copy");
    const std::vector<Move> from = MovesOf(node.first);
    const std::vector<Move> to = MovesOf(node.second);
    std::size_t i = 0;
    std::size_t j = 0;
    std::uint64_t at = 0;
    while (i < from.size() && j < to.size()) {
      const std::uint64_t from_end = from[i].to + from[i].bytes;
      const std::uint64_t to_end = to[j].to + to[j].bytes;
      const std::uint64_t end = std::min(from_end, to_end);
      AddMove(&step->moves, {from[i].from + (at - from[i].to), to[j].from + (at - to[j].to), end - at});
      at = end;
      if (from_end == end) ++i;
      if (to_end == end) ++j;
    }
    step->bytes = at;
    step->is_staged = node.first.intersectsWith(node.second);
  }

  void HostCopy(const ProgramNode& node, Step* step, bool writes_device, const std::string& what) const {
    if (writes_device) {
      CheckWriteable(node.first, what);
    } else {
      CheckGraph(graph_, node.first, what);
    }
    step->moves = MovesOf(node.first);
    step->type = node.first.elementType();
    step->shape = node.first.shape();
    step->bytes = node.first.numElements() * TypeBytes(step->type);
    if (!node.second.valid()) return;
    const Tensor rows = node.second.flatten();
    for (std::size_t i = 0; i < rows.numElements(); ++i) step->rows.push_back(AddressOf(rows[i]));
    if (!step->rows.empty()) step->bytes /= step->rows.size();
  }

  void CrossReplicaCopy(const ProgramNode& node, Step* step) const {
    const auto replicas = static_cast<std::int32_t>(graph_.replicas);
    std::vector<std::int32_t> receivers;
    for (std::size_t i = 0; i < node.cases.size(); ++i) {
      if (node.cases[i] < 0 || node.cases[i] >= replicas) {
        throw graph_replication_error("CrossReplicaCopy: there are replicas 0 to " + std::to_string(replicas - 1) +
                                      ". Received: " + std::to_string(static_cast<unsigned>(node.cases[i])) + ".");
      }
      if (i % 2 == 1) receivers.push_back(node.cases[i]);
    }
    std::sort(receivers.begin(), receivers.end());
    const auto twice = std::adjacent_find(receivers.begin(), receivers.end());
    if (twice != receivers.end()) {
      throw graph_replication_error("CrossReplicaCopy: two replicas send to replica " + std::to_string(*twice) +
                                    ". Let each replica receive from one.");
    }
    Copy(node, step);
    if (replicas == 1) step->kind = node.cases.empty() ? ProgramKind::kNothing : ProgramKind::kCopy;
  }

  // A call of a function of the host: copies of its inputs and outputs, of arguments at aligned places.
  void HostCall(const ProgramNode& node, Step* step) const {
    if (node.id >= graph_.host_functions.size()) throw control_program_error("Call: the host function is empty.");
    const HostSignature& function = graph_.host_functions[node.id];
    step->text = function.handle;
    AddArguments(node, function.inputs, ProgramKind::kCopyToStream, step);
    AddArguments(node, function.outputs, ProgramKind::kCopyFromStream, step);
  }

  void AddArguments(const ProgramNode& node, const std::vector<Graph::HostFunctionArgument>& expected, ProgramKind kind,
                    Step* step) const {
    const bool are_inputs = kind == ProgramKind::kCopyToStream;
    const std::vector<Tensor>& given = are_inputs ? node.inputs : node.outputs;
    const std::string argument = are_inputs ? "input" : "output";
    const std::string what = "Call of the host function '" + step->text + "'";
    if (given.size() != expected.size()) {
      throw control_program_error(what + ": the " + argument + "s must be " + std::to_string(expected.size()) +
                                  " tensors. Received: " + std::to_string(given.size()) + ".");
    }
    if (given.empty()) return;
    auto copy = std::make_unique<Step>();
    copy->kind = kind;
    copy->number = result_->steps++;
    copy->id = static_cast<std::uint32_t>(graph_.streams.size()) + node.id;  // Behind the streams of programs.
    std::vector<Run> written;
    for (std::size_t i = 0; i < given.size(); ++i) {
      const Tensor& tensor = given[i];
      CheckGraph(graph_, tensor, what);
      if (tensor.elementType() != expected[i].elementType || tensor.numElements() != expected[i].numElements) {
        throw control_program_error(what + ": " + argument + " " + std::to_string(i) + " is " +
                                    std::to_string(expected[i].numElements) + " elements of " +
                                    expected[i].elementType.toString() + ". Received: " + tensor.getDebugStr() + ".");
      }
      if (!are_inputs) CheckWriteable(tensor, what);
      if (!are_inputs) TensorAccess::ForRuns(tensor, [&](const Run& run) { written.push_back(run); });
      copy->places.push_back((copy->bytes + kArgumentAlignment - 1) / kArgumentAlignment * kArgumentAlignment);
      for (Move move : MovesOf(tensor)) {
        move.to += copy->places.back();
        copy->moves.push_back(move);
      }
      copy->bytes = copy->places.back() + tensor.numElements() * TypeBytes(tensor.elementType());
    }
    if (HasOverlap(written)) throw control_program_error(what + ": two outputs have an element in common.");
    step->children.push_back(std::move(copy));
  }

  // What of a step all replicas run together, for one that only some of them take.
  std::string TogetherOf(const Step& step) const {
    switch (step.kind) {
      case ProgramKind::kCopyFromStream:
      case ProgramKind::kCopyToStream:
        return "a copy of the stream '" + graph_.streams[step.id].handle() + "'";
      case ProgramKind::kCopyFromRemote:
      case ProgramKind::kCopyToRemote:
        return "a copy of the remote buffer '" + graph_.remote_buffers[step.id].handle() + "'";
      case ProgramKind::kHostFunction:
        return "a call of the host function '" + step.text + "'";
      case ProgramKind::kCrossReplicaCopy:
        return "a CrossReplicaCopy";
      case ProgramKind::kPrint:
        return "a PrintTensor";
      case ProgramKind::kNothing:
        return step.count == 0 ? "" : "a Sync of several IPUs";
      case ProgramKind::kCall:
        return step.function->together;
      default:
        for (const auto& child : step.children) {
          if (!child->together.empty()) return child->together;
        }
        return "";
    }
  }

  std::unique_ptr<Step> StepOf(const ProgramNode& node) const {
    auto step = std::make_unique<Step>();
    step->kind = node.kind;
    step->number = result_->steps++;
    step->id = node.id;
    step->count = node.count;
    step->cases = node.cases;
    step->text = node.text;
    for (const auto& child : node.children) step->children.push_back(StepOf(*child));
    switch (node.kind) {
      case ProgramKind::kExecute:
        if (node.id >= graph_.compute_sets.size()) throw control_program_error("Execute: the compute set is empty.");
        if (node.first.valid()) HostCopy(node, step.get(), true, "Execute");
        break;
      case ProgramKind::kCopy:
        Copy(node, step.get());
        break;
      case ProgramKind::kCopyFromStream:
      case ProgramKind::kCopyFromRemote:
        HostCopy(node, step.get(), true, "Copy");
        break;
      case ProgramKind::kCopyToStream:
      case ProgramKind::kCopyToRemote:
        HostCopy(node, step.get(), false, "Copy");
        break;
      case ProgramKind::kPrint:
        HostCopy(node, step.get(), false, "PrintTensor");
        break;
      case ProgramKind::kCycleCount:
        HostCopy(node, step.get(), true, "cycleCount");
        result_->reads_cycles = true;
        break;
      case ProgramKind::kCall:
        // Functions are made before the programs that call them.
        if (node.id >= result_->functions.size()) throw control_program_error("Call: the function is empty.");
        step->function = result_->functions[node.id].get();
        break;
      case ProgramKind::kCrossReplicaCopy:
        CrossReplicaCopy(node, step.get());
        break;
      case ProgramKind::kHostFunction:
        HostCall(node, step.get());
        break;
      case ProgramKind::kNothing:
        if (!node.first.valid() || graph_.replicas == 1) break;
        HostCopy(node, step.get(), false, "AssumeEqualAcrossReplicas");
        step->text = node.first.getDebugStr();
        break;
      case ProgramKind::kRepeatWhile:
      case ProgramKind::kIf:
      case ProgramKind::kSwitch:
      case ProgramKind::kAbortOnCondition:
        step->predicate = AddressOf(node.first);
        if (node.kind != ProgramKind::kAbortOnCondition) step->text = node.first.getDebugStr();
        step->predicate_type = node.first.elementType();
        break;
      case ProgramKind::kSequence:
      case ProgramKind::kRepeat:
      case ProgramKind::kAbort:
        break;
    }
    if (graph_.replicas > 1) step->together = TogetherOf(*step);
    return step;
  }

  const GraphState& graph_;
  Compiled* result_;
};

}  // namespace

void MakeSteps(ArrayRef<program::Program> programs, Compiled* result) { StepMaker(result).Make(programs); }

}  // namespace detail
}  // namespace ipu_tf
}  // namespace poplar
