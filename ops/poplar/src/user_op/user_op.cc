#include "user_op.h"

#include <algorithm>
#include <utility>

#include <popops/codelets.hpp>
#include <poputil/TileMapping.hpp>

namespace poplar {
inline namespace ipu_tf {
namespace user_op {
namespace {

std::string ShapeText(const std::vector<std::size_t>& shape) {
  std::string text = "{";
  for (const std::size_t one : shape) text += (text.size() > 1 ? "," : "") + std::to_string(one);
  return text + "}";
}

std::string SpecText(const TensorSpec& spec) { return spec.type.toString() + ShapeText(spec.shape); }

bool IsIntegerOf32Bits(Type type) { return type == INT || type == UNSIGNED_INT; }

// TensorFlow's indices are signed, those of popops are not: an allocator may make either for the other.
Tensor WithSignOf(const Tensor& tensor, Type wanted) {
  const bool differs = tensor.elementType() != wanted;
  const bool may_differ = IsIntegerOf32Bits(tensor.elementType()) && IsIntegerOf32Bits(wanted);
  return differs && may_differ ? tensor.reinterpret(wanted) : tensor;
}

void CheckIs(const Tensor& tensor, const TensorSpec& wanted, const std::string& what) {
  const TensorSpec found{tensor.elementType(), tensor.shape()};
  if (found.type == wanted.type && found.shape == wanted.shape) return;
  throw Error(what + " must be " + SpecText(wanted) + ". Received: " + SpecText(found) + ".");
}

}  // namespace

UserOp::UserOp(const Request& request) : device_(request.machine.createDevice()) {
  const Functions functions(request.library, request.name);
  Graph graph(device_);
  popops::addCodelets(graph);  // Published ops rely on those of the program around them.
  if (!request.codelets.empty()) graph.addCodelets(request.codelets);
  const std::vector<Tensor> inputs = AddInputs(&graph, functions, request);
  std::vector<Tensor> outputs;
  program::Program program;
  if (request.is_gradient) {
    const auto begin = inputs.begin();
    const auto count = static_cast<std::ptrdiff_t>(request.forward_outputs);
    const GradientTensors tensors{
        {begin, begin + count}, {begin + 2 * count, inputs.end()}, {begin + count, begin + 2 * count}};
    program = functions.BuildGradient(graph, request.gradient_of, tensors, &outputs, request.attributes, request.label);
  } else {
    program = functions.Build(graph, inputs, &outputs, request.attributes, request.label);
  }
  AddOutputs(&graph, outputs, request);
  // The program of TensorFlow around the op says whether its tiles overflow.
  executable_ = compileGraph(graph, {program}, {{"debug.allowOutOfMemory", "true"}});
  idle_.push_back(Take());
}

std::vector<Tensor> UserOp::AddInputs(Graph* graph, const Functions& functions, const Request& request) {
  const std::vector<std::int64_t> allocating =
      functions.MetadataOf(static_cast<std::uint32_t>(request.inputs.size())).allocating;
  std::vector<Tensor> tensors;
  for (std::size_t i = 0; i < request.inputs.size(); ++i) {
    const TensorSpec& spec = request.inputs[i];
    const std::string name = request.label + "/input " + std::to_string(i);
    const bool is_allocated = functions.HasAllocator() && std::find(allocating.begin(), allocating.end(),
                                                                    static_cast<std::int64_t>(i)) != allocating.end();
    if (is_allocated) {
      const Tensor made =
          functions.Allocate(*graph, static_cast<std::uint32_t>(i), spec.type, spec.shape, request.attributes, name);
      tensors.push_back(WithSignOf(made, spec.type));
      CheckIs(tensors.back(), spec,
              "the tensor that `" + request.name + "_allocator` makes for input " + std::to_string(i));
    } else {
      tensors.push_back(graph->addVariable(spec.type, spec.shape, name));
      poputil::mapTensorLinearly(*graph, tensors.back());
    }
    inputs_.push_back("input " + std::to_string(i));
    graph->createHostWrite(inputs_.back(), tensors.back());
  }
  return tensors;
}

void UserOp::AddOutputs(Graph* graph, const std::vector<Tensor>& outputs, const Request& request) {
  if (outputs.size() != request.outputs.size()) {
    throw Error("`" + request.name + "` must add " + std::to_string(request.outputs.size()) +
                " tensors to its outputs. Received: " + std::to_string(outputs.size()) + ".");
  }
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    has_output_.push_back(outputs[i].valid());
    const std::string what = "output " + std::to_string(i) + " of `" + request.name + "`";
    if (!outputs[i].valid()) {
      if (request.is_gradient) continue;
      throw Error(what + " is no tensor. Assign it one of the graph.");
    }
    CheckIs(outputs[i], request.outputs[i], what);
    outputs_.push_back("output " + std::to_string(i));
    graph->createHostRead(outputs_.back(), outputs[i]);
  }
}

std::string UserOp::GraphRecords() const { return detail::GraphBytes(executable_); }

std::unique_ptr<Engine> UserOp::Take() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!idle_.empty()) {
      std::unique_ptr<Engine> engine = std::move(idle_.back());
      idle_.pop_back();
      return engine;
    }
  }
  auto engine = std::make_unique<Engine>(executable_);
  engine->load(device_);
  return engine;
}

// An engine that failed is not used again: what its variables hold is not known.
void UserOp::Run(const void* const* inputs, void* const* outputs) {
  std::unique_ptr<Engine> engine = Take();
  for (std::size_t i = 0; i < inputs_.size(); ++i) engine->writeTensor(inputs_[i], inputs[i]);
  engine->run();
  for (std::size_t i = 0; i < outputs_.size(); ++i) engine->readTensor(outputs_[i], outputs[i]);
  const std::lock_guard<std::mutex> lock(mutex_);
  idle_.push_back(std::move(engine));
}

}  // namespace user_op
}  // namespace ipu_tf
}  // namespace poplar
