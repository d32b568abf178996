// What the tests compare the core with: the plainest code for the same numbers.
#ifndef IPU_TF_TESTS_CPP_REFERENCE_H_
#define IPU_TF_TESTS_CPP_REFERENCE_H_

#include <cstdint>
#include <functional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "../../ops/core/convolutions/conv.h"
#include "../../ops/core/kernels/kernels.h"
#include "../../ops/core/plan/plan.h"
#include "core/deal.h"
#include "core/parallel.h"

namespace ipu_tf::testing {

// The tables of kernels that this machine can run.
std::vector<const Kernels*> KernelTables();

using Task = std::function<void()>;

// A pool of as many threads as there are tasks.
struct IdlePool {
  std::vector<std::thread> threads;
  Schedule Scheduler() {
    return [this](Task task) { threads.emplace_back(std::move(task)); };
  }
  ~IdlePool() {
    for (std::thread& thread : threads) thread.join();
  }
};

// The calling thread and new ones for every call, which share items as those of the ops do.
Parallel ThreadedParallel(int threads);

// Numbers in [-1, 1), the same for the same seed.
std::vector<float> Numbers(int64_t count, uint32_t seed);
// The same as float16 has them.
std::vector<float> HalfNumbers(int64_t count, uint32_t seed);

// What `write` writes to memory that begins at a line of the cache, and one float later: past the caches, if there are
// many floats, and through them.
struct Written {
  std::vector<float> past, through;
};
Written WriteBothWays(int64_t floats, const std::function<void(float*)>& write);

// `round16` of docs/numerics.md. `random`: 16 bits of a stochastic rounding.
float RoundNearest(float value, bool nanoo);
float RoundRandom(float value, uint16_t random, bool nanoo);

// The number that the bits of a float16 stand for.
float FromHalfBits(uint16_t bits);

// A sum in double precision, and what its float32 twin may be wrong by.
struct Sums {
  explicit Sums(size_t count) : value(count), magnitude(count) {}
  void Add(int64_t index, double product) {
    value[index] += product;
    magnitude[index] += product < 0 ? -product : product;
  }
  std::vector<double> Tolerance(double relative) const;

  std::vector<double> value, magnitude;
};

// The shape of a convolution whose padding below and to the right of the image is given with the rest.
ConvShape MakeConvShape(int64_t batch, int64_t in_rows, int64_t in_columns, int64_t in_channels, int64_t out_channels,
                        int64_t groups, int64_t kernel_rows, int64_t kernel_columns, int64_t stride, int64_t dilation,
                        int64_t padding);
std::string ToText(const ConvShape& shape);

// Calls visit(index in x, index in w, index in y) for every product of a convolution.
void ForEachProduct(const ConvShape& shape, const std::function<void(int64_t, int64_t, int64_t)>& visit);

}  // namespace ipu_tf::testing

#endif  // IPU_TF_TESTS_CPP_REFERENCE_H_
