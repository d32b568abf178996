#include <poplar/Program.hpp>

#include <utility>

#include <poplar/CycleCount.hpp>
#include <poplar/exceptions.hpp>

#include "program_node.h"

namespace poplar {
inline namespace ipu_tf {
namespace program {
namespace {

using detail::ProgramAccess;
using detail::ProgramKind;
using detail::ProgramNode;

std::shared_ptr<ProgramNode> Node(ProgramKind kind) { return std::make_shared<ProgramNode>(kind); }

void CheckSizes(std::size_t from, Type from_type, std::size_t to, Type to_type, const std::string& what) {
  if (from != to) {
    throw poplar_error("Copy " + what + ": both sides must have equally many elements. Received: " +
                       std::to_string(from) + " and " + std::to_string(to) + ".");
  }
  if (from_type != to_type) {
    throw type_error("Copy " + what + ": both sides must have one type. Received: " + from_type.toString() + " and " +
                     to_type.toString() + ".");
  }
}

std::shared_ptr<ProgramNode> StreamNode(const DataStream& stream, const Tensor& tensor, bool to_device) {
  const std::string what = to_device ? "from stream '" + stream.handle() + "' to " + tensor.getDebugStr()
                                     : "from " + tensor.getDebugStr() + " to stream '" + stream.handle() + "'";
  if (stream.isHostToDevice() != to_device) {
    throw poplar_error("Copy " + what + ": the stream goes the other way.");
  }
  CheckSizes(stream.numElements(), stream.elementType(), tensor.numElements(), tensor.elementType(), what);
  auto node = Node(to_device ? ProgramKind::kCopyFromStream : ProgramKind::kCopyToStream);
  node->id = stream.getId();
  node->first = tensor;
  return node;
}

std::shared_ptr<ProgramNode> RemoteNode(const RemoteBuffer& buffer, const Tensor& tensor, const Tensor& offset,
                                        ProgramKind kind) {
  const std::string what = "of remote buffer '" + buffer.handle() + "' and " + tensor.getDebugStr();
  const std::size_t rows = offset.valid() ? offset.numElements() : 1;
  CheckSizes(buffer.numElements() * rows, buffer.elementType(), tensor.numElements(), tensor.elementType(), what);
  if (offset.valid() && offset.elementType() != INT && offset.elementType() != UNSIGNED_INT) {
    throw type_error("Copy " + what +
                     ": the row must be INT or UNSIGNED_INT. Received: " + offset.elementType().toString() + ".");
  }
  if (!offset.valid() && buffer.getRepeats() != 1) {
    throw poplar_error("Copy " + what + ": the buffer has " + std::to_string(buffer.getRepeats()) +
                       " rows. Give the number of the row as a tensor.");
  }
  auto node = Node(kind);
  node->id = buffer.getId();
  node->first = tensor;
  node->second = offset;
  return node;
}

const Tensor& Predicate(const Tensor& tensor, const char* program, const std::string& what = "predicate") {
  if (!tensor.valid() || tensor.numElements() != 1) {
    throw control_program_error(std::string(program) + ": the " + what +
                                " must be one element. Received: " + tensor.getDebugStr() + ".");
  }
  if (tensor.elementType() == FLOAT || tensor.elementType() == HALF) {
    throw control_program_error(std::string(program) + ": the " + what +
                                " must be BOOL or an integer. Received: " + tensor.getDebugStr() + ".");
  }
  return tensor;
}

std::shared_ptr<ProgramNode> While(const Program& cond, const Tensor& predicate, const Program& body, bool goes_on,
                                   const char* name) {
  auto node = Node(ProgramKind::kRepeatWhile);
  node->first = Predicate(predicate, name);
  node->count = goes_on ? 1 : 0;
  node->children = {ProgramAccess::NodeOf(cond), ProgramAccess::NodeOf(body)};
  return node;
}

std::shared_ptr<ProgramNode> SwitchNode(const Tensor& control,
                                        const std::vector<std::pair<std::int32_t, Program>>& cases,
                                        const Program& default_body) {
  auto node = Node(ProgramKind::kSwitch);
  node->first = Predicate(control, "Switch");
  for (const auto& [value, body] : cases) {
    node->cases.push_back(value);
    node->children.push_back(ProgramAccess::NodeOf(body));
  }
  node->children.push_back(ProgramAccess::NodeOf(default_body));
  return node;
}

}  // namespace

Program::Program() : node_(Node(ProgramKind::kSequence)) {}

bool Program::isEmpty() const { return node_->kind == ProgramKind::kSequence && node_->children.empty(); }

Sequence::Sequence(const DebugContext&) {}

Sequence::Sequence(std::initializer_list<Program> programs, const DebugContext&) {
  for (const Program& one : programs) add(one);
}

Sequence::Sequence(const std::vector<Program>& programs, const DebugContext&) {
  for (const Program& one : programs) add(one);
}

void Sequence::add(const Program& program) {
  const auto added = ProgramAccess::NodeOf(program);
  // Another program that holds this one keeps what it got.
  if (node_.use_count() > 1) node_ = std::make_shared<ProgramNode>(*node_);
  node_->children.push_back(added);
}

Execute::Execute(ComputeSet computeSet, const DebugContext&) : Program(Node(ProgramKind::kExecute)) {
  node_->id = computeSet.getId();
}

Execute::Execute(ComputeSet computeSet, const Tensor& status, const DebugContext& debugContext)
    : Execute(computeSet, debugContext) {
  node_->first = Predicate(status, "Execute", "exit status");
}

Copy::Copy(const Tensor& src, const Tensor& dst, bool, const DebugContext&) : Program(Node(ProgramKind::kCopy)) {
  CheckSizes(src.numElements(), src.elementType(), dst.numElements(), dst.elementType(),
             "from " + src.getDebugStr() + " to " + dst.getDebugStr());
  node_->first = src;
  node_->second = dst;
}

Copy::Copy(const DataStream& stream, const Tensor& dst, bool, const DebugContext&)
    : Program(StreamNode(stream, dst, true)) {}
Copy::Copy(const Tensor& src, const DataStream& stream, bool, const DebugContext&)
    : Program(StreamNode(stream, src, false)) {}
Copy::Copy(const RemoteBuffer& buffer, const Tensor& dst, const DebugContext&)
    : Program(RemoteNode(buffer, dst, Tensor(), ProgramKind::kCopyFromRemote)) {}
Copy::Copy(const RemoteBuffer& buffer, const Tensor& dst, const Tensor& offset, const DebugContext&)
    : Program(RemoteNode(buffer, dst, offset, ProgramKind::kCopyFromRemote)) {}
Copy::Copy(const Tensor& src, const RemoteBuffer& buffer, const DebugContext&)
    : Program(RemoteNode(buffer, src, Tensor(), ProgramKind::kCopyToRemote)) {}
Copy::Copy(const Tensor& src, const RemoteBuffer& buffer, const Tensor& offset, const DebugContext&)
    : Program(RemoteNode(buffer, src, offset, ProgramKind::kCopyToRemote)) {}

CrossReplicaCopy::CrossReplicaCopy(const Tensor& src, const Tensor& dst, const std::map<unsigned, unsigned>& replicaMap,
                                   const DebugContext&)
    : Program(Node(ProgramKind::kCrossReplicaCopy)) {
  CheckSizes(src.numElements(), src.elementType(), dst.numElements(), dst.elementType(),
             "across replicas from " + src.getDebugStr() + " to " + dst.getDebugStr());
  node_->first = src;
  node_->second = dst;
  for (const auto& [sender, receiver] : replicaMap) {
    node_->cases.push_back(static_cast<std::int32_t>(sender));
    node_->cases.push_back(static_cast<std::int32_t>(receiver));
  }
}

Repeat::Repeat(unsigned count, const Program& program, const DebugContext&) : Program(Node(ProgramKind::kRepeat)) {
  node_->count = count;
  node_->children = {ProgramAccess::NodeOf(program)};
}

RepeatWhileTrue::RepeatWhileTrue(const Program& cond, const Tensor& predicate, const Program& body, const DebugContext&)
    : Program(While(cond, predicate, body, true, "RepeatWhileTrue")) {}

RepeatWhileFalse::RepeatWhileFalse(const Program& cond, const Tensor& predicate, const Program& body,
                                   const DebugContext&)
    : Program(While(cond, predicate, body, false, "RepeatWhileFalse")) {}

If::If(const Tensor& predicate, const Program& trueBody, const Program& falseBody, const DebugContext&)
    : Program(Node(ProgramKind::kIf)) {
  node_->first = Predicate(predicate, "If");
  node_->children = {ProgramAccess::NodeOf(trueBody), ProgramAccess::NodeOf(falseBody)};
}

Switch::Switch(const Tensor& control, const std::vector<std::pair<std::int32_t, Program>>& cases,
               const Program& defaultCaseBody, const DebugContext&)
    : Program(SwitchNode(control, cases, defaultCaseBody)) {}

Switch::Switch(const Tensor& control, const std::vector<std::pair<std::int32_t, Program>>& cases, const DebugContext&)
    : Program(SwitchNode(control, cases, Program())) {}

Switch Switch::switchWithUnreachableDefault(const Tensor& control, const DebugContext&) {
  return Switch(control, {}, Abort(std::string("Switch: the control value has no case")));
}

Switch Switch::switchWithBoundsChecking(const Tensor& control,
                                        const std::vector<std::pair<std::int32_t, Program>>& cases,
                                        const DebugContext&) {
  return Switch(control, cases, Abort(std::string("Switch: the control value has no case")));
}

Switch& Switch::add(std::int32_t value, const Program& body) {
  if (node_.use_count() > 1) node_ = std::make_shared<ProgramNode>(*node_);
  node_->cases.push_back(value);
  node_->children.insert(node_->children.end() - 1, ProgramAccess::NodeOf(body));
  return *this;
}

Call::Call(Function function, const DebugContext&) : Program(Node(ProgramKind::kCall)) { node_->id = function.getId(); }

Call::Call(HostFunction function, ArrayRef<Tensor> inputs, ArrayRef<Tensor> outputs, const DebugContext&)
    : Program(Node(ProgramKind::kHostFunction)) {
  node_->id = function.getId();
  node_->inputs = inputs.cloneAsVector();
  node_->outputs = outputs.cloneAsVector();
}

PrintTensor::PrintTensor(const Tensor& tensor, const DebugContext& context)
    : PrintTensor(context.getPathName(), tensor) {}

PrintTensor::PrintTensor(StringRef title, const Tensor& tensor, const DebugContext&)
    : Program(Node(ProgramKind::kPrint)) {
  node_->first = tensor;
  node_->text = std::string(title);
}

Sync::Sync(SyncType type, const DebugContext&) : Program(Node(ProgramKind::kNothing)) {
  node_->count = type == SyncType::INTERNAL ? 0 : 1;  // Whether replicas wait for each other.
}
WriteUndef::WriteUndef(const Tensor&, const DebugContext&) : Program(Node(ProgramKind::kNothing)) {}
AssumeEqualAcrossReplicas::AssumeEqualAcrossReplicas(const Tensor& tensor, const DebugContext&)
    : Program(Node(ProgramKind::kNothing)) {
  node_->first = tensor;
}

Abort::Abort(const DebugContext&) : Program(Node(ProgramKind::kAbort)) {}
Abort::Abort(const std::string& message, const DebugContext&) : Abort(DebugContext()) { node_->text = message; }

AbortOnCondition::AbortOnCondition(const Tensor& predicate, const DebugContext&)
    : AbortOnCondition(predicate, std::string()) {}
AbortOnCondition::AbortOnCondition(const Tensor& predicate, const std::string& message, const DebugContext&)
    : Program(Node(ProgramKind::kAbortOnCondition)) {
  node_->first = Predicate(predicate, "AbortOnCondition");
  node_->text = message;
}

ErrorProgram::ErrorProgram(StringRef message, const Tensor&, const DebugContext&) : Program(Node(ProgramKind::kAbort)) {
  node_->text = std::string(message);
}

}  // namespace program

namespace {

class Counted : public program::Program {
 public:
  // The cycles of a program, or all cycles so far where there is none.
  Counted(const Tensor& result, const program::Program* counted)
      : Program(std::make_shared<detail::ProgramNode>(detail::ProgramKind::kCycleCount)) {
    node_->first = result;
    if (counted != nullptr) node_->children = {detail::ProgramAccess::NodeOf(*counted)};
  }
};

// The result, mapped to its tile.
Tensor CycleResult(Graph* graph, unsigned tile, const DebugContext& context) {
  const Tensor result = graph->addVariable(UNSIGNED_INT, {2}, context);
  graph->setTileMapping(result, tile);
  return result;
}

}  // namespace

Tensor cycleCount(Graph& graph, program::Sequence& prog, unsigned tile, SyncType, const DebugContext& debugContext) {
  const Tensor result = CycleResult(&graph, tile, debugContext);
  const Counted counted(result, &prog);
  prog = program::Sequence();
  prog.add(counted);
  return result;
}

Tensor cycleCount(Graph& graph, program::Sequence& prog, unsigned tile, const DebugContext& debugContext) {
  return cycleCount(graph, prog, tile, SyncType::INTERNAL, debugContext);
}

Tensor cycleStamp(Graph& graph, program::Sequence& prog, unsigned tile, SyncType, const DebugContext& debugContext) {
  const Tensor result = CycleResult(&graph, tile, debugContext);
  prog.add(Counted(result, nullptr));
  return result;
}

std::vector<Tensor> cycleStamp(Graph& graph, program::Sequence& prog, const std::vector<unsigned>& tiles,
                               SyncType syncType, const DebugContext& debugContext) {
  std::vector<Tensor> stamps;
  for (const unsigned tile : tiles) stamps.push_back(cycleStamp(graph, prog, tile, syncType, debugContext));
  return stamps;
}

Tensor cycleStamp(Graph& graph, program::Sequence& prog, unsigned tile, const DebugContext& debugContext) {
  return cycleStamp(graph, prog, tile, SyncType::INTERNAL, debugContext);
}

}  // namespace ipu_tf
}  // namespace poplar
