// Recurrent layers over all steps: an LSTM, and a GRU whose reset gate follows the product of its state.
#ifndef IPU_TF_OPS_CORE_RECURRENT_H_
#define IPU_TF_OPS_CORE_RECURRENT_H_

#include <cstdint>

#include "../kernels/kernels.h"
#include "../parallel.h"

namespace ipu_tf {

enum class RecurrentCell { kLstm, kGru };

// How many values a step keeps for each unit, beside the state.
inline constexpr int64_t kRecurrentGates = 4;

struct RecurrentShape {
  RecurrentCell cell = RecurrentCell::kLstm;
  int64_t steps = 0, batch = 0, inputs = 0, units = 0;

  bool is_lstm() const { return cell == RecurrentCell::kLstm; }
  int64_t columns() const { return (is_lstm() ? 4 : 3) * units; }  // Of both matrices of weights.
  int64_t biases() const { return is_lstm() ? columns() : 2 * columns(); }
  int64_t rows() const { return steps * batch; }
  int64_t state() const { return batch * units; }
};

// The weights, and the inputs of all steps.
struct RecurrentOperands {
  const float* x;          // [steps, batch, inputs]
  const float* kernel;     // [inputs, columns]
  const float* recurrent;  // [units, columns]
  const float* bias;       // Not for the gradient.
};

// The states and gates of all steps; of a GRU without `c`.
struct RecurrentStates {
  float* h;      // [steps + 1, batch, units], the first is that before the first step.
  float* c;      // Likewise.
  float* gates;  // [steps, batch, 4, units]
};

// Computes all states but the first. Samples do not depend on each other: threads share them out.
void RecurrentForward(const RecurrentShape& shape, const RecurrentOperands& operands, const RecurrentStates& states,
                      const Kernels& kernels, const Parallel& parallel);

struct RecurrentGradients {
  const float* d_outputs;  // [steps, batch, units], or [1, batch, units] of the last step.
  bool last_only;
  float* dh;  // [batch, units], of the last state; becomes that of the first.
  float* dc;  // Likewise.
  float* dx;
  float* d_kernel;
  float* d_recurrent;
  float* d_bias;
};

void RecurrentBackward(const RecurrentShape& shape, const RecurrentOperands& operands, const RecurrentStates& states,
                       const RecurrentGradients& gradients, const Kernels& kernels, const Parallel& parallel);

}  // namespace ipu_tf

#endif  // IPU_TF_OPS_CORE_RECURRENT_H_
