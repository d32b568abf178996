// Buffers that outlive a call.
#include "core/scratch.h"

#include <thread>
#include <utility>

#include "check.h"

namespace ipu_tf::testing {
namespace {

TEST(ScratchIsAlignedAndAsLarge) {
  for (const int64_t floats : {1, 17, 4096, 4097, 1 << 20}) {
    const Scratch scratch(floats);
    CHECK(reinterpret_cast<uintptr_t>(scratch.data()) % 64 == 0);
    for (int64_t i = 0; i < floats; ++i) scratch.data()[i] = static_cast<float>(i);
    CHECK(scratch.data()[floats - 1] == static_cast<float>(floats - 1));
  }
  CHECK(Scratch(0).data() == nullptr);
}

TEST(ScratchIsGivenToTheNext) {
  float* first = nullptr;
  {
    const Scratch scratch(5000);
    first = scratch.data();
    const Scratch other(5000);
    CHECK(other.data() != first);
  }
  const Scratch a(5000), b(5000);
  CHECK(a.data() == first || b.data() == first);
}

TEST(ScratchMoves) {
  Scratch a(100);
  float* const data = a.data();
  Scratch b(std::move(a));
  CHECK(b.data() == data);
  Scratch c(100);
  c = std::move(b);
  CHECK(c.data() == data);
  c.Reserve(50);
  CHECK(c.data() == data);
  c.Reserve(1 << 22);
  c.data()[(1 << 22) - 1] = 1.0f;
}

TEST(ScratchIsSharedByThreads) {
  std::vector<std::thread> threads;
  std::vector<int> wrong(4);
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([t, &wrong] {
      for (int64_t floats = 1; floats < 200; ++floats) {
        Scratch scratch(floats * 100);
        for (int64_t i = 0; i < floats * 100; ++i) scratch.data()[i] = static_cast<float>(t);
        for (int64_t i = 0; i < floats * 100; ++i) wrong[t] += scratch.data()[i] != static_cast<float>(t);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK_SAME(wrong, std::vector<int>(4));
}

}  // namespace
}  // namespace ipu_tf::testing
