// Loops of recurrent layers.
#include "../../ops/core/products/recurrent.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "check.h"
#include "reference.h"

namespace ipu_tf::testing {
namespace {

// All results of a loop and of its gradient.
std::vector<std::vector<float>> Results(const RecurrentShape& s, bool last_only, const Kernels& kernels,
                                        const Parallel& parallel) {
  const int64_t states = (s.steps + 1) * s.state();
  const auto x = Numbers(s.rows() * s.inputs, 1), kernel = Numbers(s.inputs * s.columns(), 2);
  const auto recurrent = Numbers(s.units * s.columns(), 3), bias = Numbers(s.biases(), 4);
  const auto d_outputs = Numbers((last_only ? 1 : s.steps) * s.state(), 5);
  std::vector<float> h(states, NAN), c(states, NAN), gates(s.rows() * kRecurrentGates * s.units, NAN);
  std::vector<float> dh = Numbers(s.state(), 6), dc = Numbers(s.state(), 7);
  std::vector<float> dx(x.size(), NAN), d_kernel(kernel.size(), NAN), d_recurrent(recurrent.size(), NAN),
      d_bias(bias.size(), NAN);
  for (std::vector<float>* first : {&h, &c}) {
    const auto numbers = Numbers(s.state(), 8);
    std::copy(numbers.begin(), numbers.end(), first->begin());
  }
  if (!s.is_lstm()) c.clear();
  const RecurrentOperands operands{x.data(), kernel.data(), recurrent.data(), bias.data()};
  RecurrentForward(s, operands, {h.data(), c.data(), gates.data()}, kernels, parallel);
  RecurrentBackward(s, operands, {h.data(), c.data(), gates.data()},
                    {d_outputs.data(), last_only, dh.data(), dc.data(), dx.data(), d_kernel.data(), d_recurrent.data(),
                     d_bias.data()},
                    kernels, parallel);
  return {h, c, gates, dh, dc, dx, d_kernel, d_recurrent, d_bias};
}

// Threads share out samples and stretches of steps.
TEST(RecurrentLoopsDoNotDependOnTheThreads) {
  for (const Kernels* kernels : KernelTables()) {
    for (const RecurrentCell cell : {RecurrentCell::kLstm, RecurrentCell::kGru}) {
      for (const int64_t steps : {1, 5, 16, 37}) {
        for (const int64_t batch : {1, 8, 19}) {
          const RecurrentShape shape{cell, steps, batch, 24, 40};
          const bool last_only = steps == 37;
          const Context context(std::string(kernels->name) + ": " + std::to_string(steps) + " steps of " +
                                std::to_string(batch) + " samples");
          const auto alone = Results(shape, last_only, *kernels, {});
          for (const int threads : {2, 3}) {
            const auto shared = Results(shape, last_only, *kernels, ThreadedParallel(threads));
            for (size_t i = 0; i < alone.size(); ++i) {
              for (const float value : alone[i]) CHECK(!std::isnan(value));
              CHECK_SAME(shared[i], alone[i]);
            }
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace ipu_tf::testing
