// A checked and compiled graph with its programs.
#ifndef IPU_TF_POPLAR_EXECUTABLE_HPP_
#define IPU_TF_POPLAR_EXECUTABLE_HPP_

#include <functional>
#include <iosfwd>
#include <memory>
#include <string>
#include <utility>

#include <poplar/ArrayRef.hpp>
#include <poplar/DebugContext.hpp>
#include <poplar/Graph.hpp>
#include <poplar/OptionFlags.hpp>
#include <poplar/Program.hpp>

namespace poplar {
inline namespace ipu_tf {
class Executable;
namespace detail {
struct Compiled;
// What the model of cycles and memory reads: the number of arrays, and the arrays by name.
std::string GraphBytes(const Executable& executable);
}  // namespace detail

using ProgressFunc = std::function<void(int step, int steps)>;

class Executable {
 public:
  Executable() = default;
  // A file of this machine, with the codelets' code in it: deserialize only what you trust.
  void serialize(std::ostream& out) const;
  static Executable deserialize(std::istream& in);

 private:
  friend class Engine;
  friend std::string detail::GraphBytes(const Executable& executable);
  friend Executable compileGraph(const Graph&, ArrayRef<program::Program>, const OptionFlags&, ProgressFunc,
                                 const DebugContext&);

  std::shared_ptr<const detail::Compiled> compiled_;
};

// Checks the rules of the machine; raises their errors.
Executable compileGraph(const Graph& graph, ArrayRef<program::Program> programs, const OptionFlags& options = {},
                        ProgressFunc progress = {}, const DebugContext& debugContext = {});

}  // namespace ipu_tf
}  // namespace poplar

#endif  // IPU_TF_POPLAR_EXECUTABLE_HPP_
