// A custom op for given shapes: its program, and engines that run it.
#ifndef IPU_TF_POPLAR_USER_OP_USER_OP_H_
#define IPU_TF_POPLAR_USER_OP_USER_OP_H_

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include <poplar/Engine.hpp>
#include <poplar/Graph.hpp>
#include <poplar/IPUModel.hpp>

#include "functions.h"

namespace poplar {
inline namespace ipu_tf {
namespace user_op {

struct TensorSpec {
  Type type;
  std::vector<std::size_t> shape;
};

struct Request {
  std::string library;
  std::string codelets;  // A .gp or .cpp file; empty for none.
  std::string name;      // Of its function.
  std::string label;     // Of the op in TensorFlow.
  std::string attributes;
  // Of a gradient: the outputs of the forward op, and the input whose gradient is built. Its inputs are the gradients
  // of these outputs, then the outputs, then the inputs of the forward op.
  bool is_gradient = false;
  std::size_t forward_outputs = 0;
  int gradient_of = 0;
  std::vector<TensorSpec> inputs;
  std::vector<TensorSpec> outputs;
  IPUModel machine;
};

class UserOp {
 public:
  // Builds and compiles the op; raises what its functions raise, and Error where its outputs are not those wanted.
  explicit UserOp(const Request& request);

  // Whether the op gives an output: a gradient may leave out those of inputs that have none.
  const std::vector<bool>& has_output() const { return has_output_; }
  // The records of its graph, for the model of cycles and memory.
  std::string GraphRecords() const;
  // Calls may run side by side, each on an engine of its own. `outputs` are those that the op has.
  void Run(const void* const* inputs, void* const* outputs);

 private:
  std::vector<Tensor> AddInputs(Graph* graph, const Functions& functions, const Request& request);
  void AddOutputs(Graph* graph, const std::vector<Tensor>& outputs, const Request& request);
  std::unique_ptr<Engine> Take();

  Device device_;
  Executable executable_;
  std::vector<std::string> inputs_;   // Handles.
  std::vector<std::string> outputs_;  // The same, of those that it has.
  std::vector<bool> has_output_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<Engine>> idle_;
};

}  // namespace user_op
}  // namespace ipu_tf
}  // namespace poplar

#endif  // IPU_TF_POPLAR_USER_OP_USER_OP_H_
