#include "recurrent.h"

#include <algorithm>
#include <mutex>
#include <vector>

#include "../scratch.h"
#include "gemm.h"
#include "matmul.h"

namespace ipu_tf {
namespace {

// The longest sum of products in one chain, as in matmul.cc.
constexpr int64_t kChain = 1024;

// A matrix of weights in panels of the register block's columns, packed once for all steps.
class Panels {
 public:
  Panels(const float* b, int64_t k_stride, int64_t n_stride, int64_t depth, int64_t columns, const Kernels& kernels)
      : kernels_(kernels), depth_(depth), columns_(columns), width_(kernels.block_columns) {
    data_.Reserve(CeilDivide(columns, width_) * depth * width_);
    kernels.pack(b, k_stride, n_stride, depth, columns, data_.data(), depth * width_);
  }

  // c = a * weights, whose rows have no gaps.
  void Multiply(const float* a, int64_t rows, float* c) const {
    const int64_t blocks = CeilDivide(rows, kernels_.block_rows);
    const int64_t fewest = rows / blocks, more = rows % blocks;  // Dealt evenly over the blocks.
    DenseBlock block{};
    block.depth = block.a_row_stride = depth_;
    block.a_k_stride = 1;
    block.ldb = width_;
    block.c_row_stride = columns_;
    for (int64_t n = 0; n < columns_; n += width_) {
      block.columns = static_cast<int>(std::min(width_, columns_ - n));
      block.b = data_.data() + n * depth_;
      block.a = a;
      block.c = c + n;
      for (int64_t i = 0; i < blocks; ++i) {
        block.rows = static_cast<int>(fewest + (i < more ? 1 : 0));
        kernels_.dense(block);
        block.a += block.rows * depth_;
        block.c += block.rows * columns_;
      }
    }
  }

 private:
  const Kernels& kernels_;
  int64_t depth_, columns_, width_;
  Scratch data_;
};

// The steps of several parts of the samples, in stretches that are run in order, but by any thread: one that comes late
// to its part finds that another has begun with it.
class Stretches {
 public:
  Stretches(int64_t parts, int64_t stretches) : parts_(parts), stretches_(stretches) {}

  // Runs one stretch, and those of threads that found all parts in progress: run(part, stretch). To be called as often
  // as there are stretches.
  template <typename Function>
  void RunNext(const Function& run) {
    std::unique_lock<std::mutex> lock(mutex_);
    for (++owed_; owed_ > 0; --owed_) {
      Part* free = nullptr;  // Of which the fewest were run, so that parts end together.
      for (Part& part : parts_) {
        const bool can_run = !part.runs && part.next < stretches_;
        if (can_run && (free == nullptr || part.next < free->next)) free = &part;
      }
      if (free == nullptr) return;
      free->runs = true;
      --owed_;
      lock.unlock();
      run(free - parts_.data(), free->next);
      lock.lock();
      ++owed_;
      ++free->next;
      free->runs = false;
    }
  }

 private:
  struct Part {
    bool runs = false;
    int64_t next = 0;
  };

  std::mutex mutex_;
  std::vector<Part> parts_;
  const int64_t stretches_;
  int64_t owed_ = 0;  // Stretches to be run by whoever finishes another.
};

// Shares out the samples, at least a few to a part, and their steps: work(first, count, begin, end) for steps
// [begin, end) of so many samples, of one after the other.
template <typename Work>
void ForSamples(const RecurrentShape& s, const Parallel& parallel, const Work& work) {
  constexpr int64_t kFewest = 4, kMostStretches = 16;
  const bool small = s.rows() * s.units * s.columns() < kSerialProducts;
  const int64_t threads = small ? 1 : std::max(1, parallel.threads);
  const int64_t parts = std::max<int64_t>(1, std::min(threads, s.batch / kFewest));
  if (parts == 1) return work(0, s.batch, 0, s.steps);
  const int64_t count = std::min(s.steps, kMostStretches);
  Stretches stretches(parts, count);
  parallel(parts * count, [&](int64_t) {
    stretches.RunNext([&](int64_t part, int64_t stretch) {
      const int64_t first = part * s.batch / parts, end = (part + 1) * s.batch / parts;
      work(first, end - first, stretch * s.steps / count, (stretch + 1) * s.steps / count);
    });
  });
}

struct Matrix {
  const float* data;
  bool transposed;
};

// c[rows, columns] = a * b, of row-major operands that may be transposed.
void Product(Matrix a, Matrix b, int64_t rows, int64_t columns, int64_t depth, float* c, const Kernels& kernels,
             const Parallel& parallel) {
  MatMulShape shape;
  shape.rows = rows;
  shape.columns = columns;
  shape.depth = depth;
  shape.a_row_stride = a.transposed ? 1 : depth;
  shape.a_k_stride = a.transposed ? rows : 1;
  shape.b_k_stride = b.transposed ? 1 : columns;
  shape.b_n_stride = b.transposed ? depth : 1;
  shape.c_row_stride = columns;
  shape.a_at = shape.b_at = shape.c_at = {0};
  MatMulPlan plan;
  plan.reduction = CeilDivide(depth, kChain);
  MatMul(shape, plan, Numerics{}, a.data, b.data, c, kernels, parallel);
}

void SumRows(const float* x, int64_t rows, int64_t columns, float* sums, const Kernels& kernels,
             const Parallel& parallel) {
  constexpr int64_t kColumns = 64;
  ForFloats(rows * columns, parallel)(CeilDivide(columns, kColumns), [&](int64_t item) {
    const int64_t at = item * kColumns, width = std::min(kColumns, columns - at);
    for (int64_t row = 0; row < rows; row += kChain) {
      const int64_t count = std::min(kChain, rows - row);
      kernels.column_sums(x + row * columns + at, columns, count, width, row != 0, sums + at);
    }
  });
}

}  // namespace

void RecurrentForward(const RecurrentShape& s, const RecurrentOperands& operands, const RecurrentStates& states,
                      const Kernels& kernels, const Parallel& parallel) {
  const int64_t columns = s.columns(), kept = kRecurrentGates * s.units;
  const Scratch products(s.is_lstm() ? 0 : s.rows() * columns);
  float* outer = s.is_lstm() ? states.gates : products.data();
  Product({operands.x, false}, {operands.kernel, false}, s.rows(), columns, s.inputs, outer, kernels, parallel);
  const Panels recurrent(operands.recurrent, columns, 1, s.units, columns, kernels);
  const auto step = s.is_lstm() ? kernels.lstm_step : kernels.gru_step;
  ForSamples(s, parallel, [&](int64_t first, int64_t count, int64_t begin, int64_t end) {
    const Scratch inner(count * columns);
    for (int64_t t = begin; t < end; ++t) {
      recurrent.Multiply(states.h + t * s.state() + first * s.units, count, inner.data());
      for (int64_t i = 0; i < count; ++i) {
        const int64_t sample = t * s.batch + first + i, before = sample * s.units, after = before + s.state();
        RecurrentRow row{};
        row.outer = outer + sample * columns;
        row.inner = inner.data() + i * columns;
        row.bias = operands.bias;
        row.h_before = states.h + before;
        row.gates = states.gates + sample * kept;
        row.h = states.h + after;
        if (s.is_lstm()) {
          row.c_before = states.c + before;
          row.c = states.c + after;
        }
        row.units = s.units;
        step(row);
      }
    }
  });
}

void RecurrentBackward(const RecurrentShape& s, const RecurrentOperands& operands, const RecurrentStates& states,
                       const RecurrentGradients& gradients, const Kernels& kernels, const Parallel& parallel) {
  const int64_t columns = s.columns(), kept = kRecurrentGates * s.units;
  const Scratch outer(s.rows() * columns), of_state(s.is_lstm() ? 0 : s.rows() * columns);
  float* inner = s.is_lstm() ? outer.data() : of_state.data();
  const Panels recurrent(operands.recurrent, 1, columns, columns, s.units, kernels);
  const auto step = s.is_lstm() ? kernels.lstm_gradient : kernels.gru_gradient;
  ForSamples(s, parallel, [&](int64_t first, int64_t count, int64_t begin, int64_t end) {
    const Scratch of_before(count * s.units);
    for (int64_t t = s.steps - 1 - begin; t >= s.steps - end; --t) {
      const bool has_output = !gradients.last_only || t == s.steps - 1;
      const int64_t output = gradients.last_only ? 0 : t * s.state();
      for (int64_t i = 0; i < count; ++i) {
        const int64_t sample = t * s.batch + first + i, before = sample * s.units, at = (first + i) * s.units;
        RecurrentGradientRow row{};
        row.gates = states.gates + sample * kept;
        row.h_before = states.h + before;
        row.d_output = has_output ? gradients.d_outputs + output + at : nullptr;
        row.dh = gradients.dh + at;
        row.d_outer = outer.data() + sample * columns;
        row.d_inner = inner + sample * columns;
        if (s.is_lstm()) {
          row.c_before = states.c + before;
          row.c = states.c + before + s.state();
          row.dc = gradients.dc + at;
        }
        row.units = s.units;
        step(row);
      }
      recurrent.Multiply(inner + (t * s.batch + first) * columns, count, of_before.data());
      kernels.add(of_before.data(), gradients.dh + first * s.units, count * s.units);
    }
  });
  const int64_t rows = s.rows();
  Product({outer.data(), false}, {operands.kernel, true}, rows, s.inputs, columns, gradients.dx, kernels, parallel);
  Product({operands.x, true}, {outer.data(), false}, s.inputs, columns, rows, gradients.d_kernel, kernels, parallel);
  Product({states.h, true}, {inner, false}, s.units, columns, rows, gradients.d_recurrent, kernels, parallel);
  SumRows(outer.data(), rows, columns, gradients.d_bias, kernels, parallel);
  if (!s.is_lstm()) SumRows(inner, rows, columns, gradients.d_bias + columns, kernels, parallel);
}

}  // namespace ipu_tf
