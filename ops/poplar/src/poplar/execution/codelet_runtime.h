// What codelets call, and what is known of a codelet while it runs.
#ifndef IPU_TF_POPLAR_CODELET_RUNTIME_H_
#define IPU_TF_POPLAR_CODELET_RUNTIME_H_

#include <atomic>
#include <cstdint>
#include <string>

#include "../graph/graph_state.h"

namespace poplar {
inline namespace ipu_tf {
namespace detail {

// The vertex that a thread runs.
struct RunningVertex {
  std::atomic<const GraphState*> graph{nullptr};
  std::atomic<std::uint32_t> vertex{0};
  std::atomic<unsigned> replica{0};
  std::atomic<std::int64_t> since_ms{0};  // Of the first of a few calls, on the steady clock.
  std::uint64_t* random = nullptr;        // The state of the tile's generator.
  std::string* text = nullptr;            // What codelets print.
  std::uint64_t cycles = 0;               // Of the program until its compute set began.
};

// Of this thread.
RunningVertex& Running();

// The start of the generator of a tile.
std::uint64_t RandomStart(std::uint32_t tile);

// "300" or "0.5".
std::string SecondsText(double seconds);

// Ends the process, with its output written, if Ctrl-C was pressed while a Watch exists.
void EndIfInterrupted();

// While one exists, a crash or an endless loop in a codelet ends the process with the vertex's name.
class Watch {
 public:
  explicit Watch(double timeout_seconds);
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;
  ~Watch();

 private:
  bool is_first_ = false;
};

}  // namespace detail
}  // namespace ipu_tf
}  // namespace poplar

#endif  // IPU_TF_POPLAR_CODELET_RUNTIME_H_
