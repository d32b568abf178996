#include "codelet_runtime.h"

#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <csignal>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <mutex>
#include <thread>
#include <vector>

namespace poplar {
inline namespace ipu_tf {
namespace detail {
namespace {

// splitmix64.
constexpr std::uint64_t kRandomStep = 0x9e3779b97f4a7c15u;

std::uint64_t Mixed(std::uint64_t z) {
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

constexpr int kSignals[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};

std::int64_t NowMs() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::milliseconds>(now).count();
}

// The vertices of all threads. Never destroyed: threads may still run while the process exits.
struct Threads {
  std::mutex mutex;
  std::vector<RunningVertex*> running;
};

Threads& AllThreads() {
  static Threads* threads = new Threads;
  return *threads;
}

// A crash is named even where a codelet used up the stack of its thread.
struct SignalStack {
  std::vector<std::uint8_t> memory = std::vector<std::uint8_t>(64 * 1024);
  stack_t previous{};
  SignalStack() {
    stack_t stack{};
    stack.ss_sp = memory.data();
    stack.ss_size = memory.size();
    sigaltstack(&stack, &previous);
  }
  SignalStack(const SignalStack&) = delete;
  ~SignalStack() { sigaltstack(&previous, nullptr); }
};

struct Registered {
  RunningVertex vertex;
  SignalStack stack;
  Registered() {
    const std::lock_guard<std::mutex> lock(AllThreads().mutex);
    AllThreads().running.push_back(&vertex);
  }
  ~Registered() {
    const std::lock_guard<std::mutex> lock(AllThreads().mutex);
    for (RunningVertex*& one : AllThreads().running) {
      if (one == &vertex) one = nullptr;
    }
  }
};

void Say(const std::string& text) {
  std::size_t done = 0;
  while (done < text.size()) {
    const ssize_t now = write(2, text.data() + done, text.size() - done);
    if (now <= 0) return;
    done += static_cast<std::size_t>(now);
  }
}

struct sigaction previous[std::size(kSignals)];
struct sigaction previous_interrupt;
volatile std::sig_atomic_t is_interrupted = 0;

// Only the first waits for the end of the compute set.
void OnInterrupt(int) { is_interrupted = 1; }

// The process ends after this, so what is not safe in a handler can do no more harm.
void OnSignal(int signal) {
  for (std::size_t i = 0; i < std::size(kSignals); ++i) sigaction(kSignals[i], &previous[i], nullptr);
  const RunningVertex& running = Running();
  if (const GraphState* graph = running.graph) {
    if (running.text != nullptr) Say(*running.text);
    Say("error: a codelet crashed (" + std::string(strsignal(signal)) + "): " + graph->VertexText(running.vertex) +
        graph->ReplicaText(running.replica) + ". Check that it stays inside of its fields.\n");
  }
  raise(signal);
}

std::mutex watch_mutex;
int watches = 0;
double timeout_s = 0;
bool has_watcher = false;

// Looks at the vertices twice a second for as long as the process lives.
void WatchVertices() {
  while (true) {
    std::this_thread::sleep_for(std::chrono::milliseconds(500));
    double limit_ms = 0;
    {
      const std::lock_guard<std::mutex> lock(watch_mutex);
      if (watches == 0) continue;
      limit_ms = timeout_s * 1e3;
    }
    const std::lock_guard<std::mutex> lock(AllThreads().mutex);
    for (const RunningVertex* one : AllThreads().running) {
      if (one == nullptr) continue;
      const GraphState* graph = one->graph;
      const std::int64_t since = one->since_ms;
      if (graph == nullptr || static_cast<double>(NowMs() - since) < limit_ms) continue;
      Say("error: a codelet ran for more than " + SecondsText(timeout_s) +
          " seconds: " + graph->VertexText(one->vertex) + graph->ReplicaText(one->replica) +
          ". If it does end, set the option target.hostSyncTimeout to more seconds.\n");
      _exit(1);
    }
  }
}

}  // namespace

RunningVertex& Running() {
  thread_local Registered registered;
  return registered.vertex;
}

std::string SecondsText(double seconds) {
  char text[32];
  std::snprintf(text, sizeof text, "%g", seconds);
  return text;
}

// Mixed: starts a step apart would give each tile the numbers of its neighbour, one later.
std::uint64_t RandomStart(std::uint32_t tile) { return Mixed(kRandomStep * (std::uint64_t{tile} + 1)); }

Watch::Watch(double timeout_seconds) {
  const std::lock_guard<std::mutex> lock(watch_mutex);
  timeout_s = timeout_seconds;
  is_first_ = watches++ == 0;
  if (is_first_) {
    struct sigaction action = {};
    action.sa_handler = OnSignal;
    sigemptyset(&action.sa_mask);
    action.sa_flags = SA_NODEFER | SA_ONSTACK;
    for (std::size_t i = 0; i < std::size(kSignals); ++i) sigaction(kSignals[i], &action, &previous[i]);
    sigaction(SIGINT, nullptr, &previous_interrupt);
    // A program with a handler of its own, or that ignores Ctrl-C, keeps to that.
    if (previous_interrupt.sa_handler == SIG_DFL) {
      action.sa_handler = OnInterrupt;
      action.sa_flags = static_cast<int>(SA_RESETHAND);
      sigaction(SIGINT, &action, nullptr);
    }
  }
  if (!has_watcher) {
    has_watcher = true;
    std::thread(WatchVertices).detach();
  }
}

Watch::~Watch() {
  const std::lock_guard<std::mutex> lock(watch_mutex);
  if (--watches > 0) return;
  for (std::size_t i = 0; i < std::size(kSignals); ++i) sigaction(kSignals[i], &previous[i], nullptr);
  sigaction(SIGINT, &previous_interrupt, nullptr);
}

void EndIfInterrupted() {
  if (is_interrupted == 0) return;
  std::cout << std::flush;
  std::fflush(nullptr);
  Say("error: interrupted (Ctrl-C), between two steps of the program.\n");
  signal(SIGINT, SIG_DFL);
  raise(SIGINT);
}

}  // namespace detail
}  // namespace ipu_tf
}  // namespace poplar

extern "C" {

// The state is that of the tile.
unsigned ipu_tf_codelet_random(void) {
  std::uint64_t* state = poplar::detail::Running().random;
  if (state == nullptr) return 0;
  return static_cast<unsigned>(poplar::detail::Mixed(*state += poplar::detail::kRandomStep) >> 32);
}

void ipu_tf_codelet_seed(unsigned long long seed) {
  std::uint64_t* state = poplar::detail::Running().random;
  if (state != nullptr) *state = seed;
}

unsigned ipu_tf_codelet_tile(void) {
  const poplar::detail::RunningVertex& running = poplar::detail::Running();
  const poplar::detail::GraphState* const graph = running.graph;
  return graph == nullptr ? 0 : graph->vertices[running.vertex].tile;
}

// A worker issues in one cycle of as many as there are workers.
unsigned long ipu_tf_codelet_cycles(unsigned long slots) {
  const poplar::detail::RunningVertex& running = poplar::detail::Running();
  const poplar::detail::GraphState* const graph = running.graph;
  return running.cycles + slots * (graph == nullptr ? 1 : graph->target.getNumWorkerContexts());
}

int ipu_tf_codelet_printf(const char* format, ...) {
  char text[4096];
  va_list arguments;
  va_start(arguments, format);
  const int length = std::vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  if (std::string* buffer = poplar::detail::Running().text) *buffer += text;
  return length;
}
}
