// The functions of a custom op in a shared library of the user's, whatever level of the API it was written for.
#ifndef IPU_TF_POPLAR_USER_OP_FUNCTIONS_H_
#define IPU_TF_POPLAR_USER_OP_FUNCTIONS_H_

#include <cstdint>
#include <string>
#include <vector>

#include <poplar/Graph.hpp>
#include <poplar/Program.hpp>
#include <poplar/Tensor.hpp>
#include <poplar/exceptions.hpp>

namespace poplar {
inline namespace ipu_tf {
namespace user_op {

// The library is not that of a custom op, or the op does not do what it says.
struct Error : poplar_error {
  explicit Error(const std::string& message) : poplar_error(message, "user_op_error") {}
};

// What the function NAME_metadata says; all of it is optional.
struct Metadata {
  std::vector<std::int64_t> allocating;  // Inputs that NAME_allocator makes.
  bool is_stateless = false;
};

struct GradientTensors {
  std::vector<Tensor> gradients;
  std::vector<Tensor> inputs;
  std::vector<Tensor> outputs;
};

class Functions {
 public:
  // Opens the library and finds NAME and what belongs to it; raises Error where it cannot be called.
  Functions(const std::string& path, const std::string& name);

  Metadata MetadataOf(std::uint32_t inputs) const;
  bool HasAllocator() const { return allocator_ != nullptr; }
  Tensor Allocate(Graph& graph, std::uint32_t operand, Type type, const std::vector<std::size_t>& shape,
                  const std::string& attributes, const std::string& prefix) const;
  program::Program Build(Graph& graph, const std::vector<Tensor>& inputs, std::vector<Tensor>* outputs,
                         const std::string& attributes, const std::string& prefix) const;
  program::Program BuildGradient(Graph& graph, int input, const GradientTensors& tensors, std::vector<Tensor>* outputs,
                                 const std::string& attributes, const std::string& prefix) const;

 private:
  int level_ = 0;
  void* build_ = nullptr;
  void* metadata_ = nullptr;
  void* allocator_ = nullptr;
};

}  // namespace user_op
}  // namespace ipu_tf
}  // namespace poplar

#endif  // IPU_TF_POPLAR_USER_OP_FUNCTIONS_H_
