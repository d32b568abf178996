// Random bits of stochastic rounding (docs/numerics.md, "Random bits").
#ifndef IPU_TF_OPS_CORE_RANDOM_H_
#define IPU_TF_OPS_CORE_RANDOM_H_

#include <cstdint>
#include <initializer_list>
#include <map>
#include <unordered_map>
#include <vector>

namespace ipu_tf {

// Identifies an execution of an op: what the generators of its tiles are started from.
struct RandomKey {
  uint64_t seed = 0;
  uint64_t stream = 0;
  uint64_t call = 0;
};

// Sets the process seed and restarts the calls of every stream at 0.
void ResetSeed(uint64_t seed);

// Returns the key of the stream's next execution. Thread-safe.
RandomKey NextKey(uint64_t stream);

// So many streams are a group: those of one program, as the tracer numbers them (_STREAMS_PER_PROGRAM, tracer.py).
constexpr int64_t kStreamsOfGroup = int64_t{1} << 20;

// The calls of streams since the seed was set for the `seeds`th time, by group, then by stream.
struct StreamCalls {
  int64_t seeds = 0;
  std::map<int64_t, std::unordered_map<uint64_t, uint64_t>> calls;
};

// Returns the calls of groups of streams. Thread-safe.
StreamCalls CallsOf(const std::vector<int64_t>& groups);

// Sets the calls of groups of streams; of those that `calls` lacks to none. Thread-safe.
void SetCalls(const std::vector<int64_t>& groups, const StreamCalls& calls);

inline uint64_t SplitMix64(uint64_t* state) {
  uint64_t z = (*state += 0x9e3779b97f4a7c15u);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

// xoroshiro128+, dealt in pieces of 16 bits.
class Random16 {
 public:
  Random16(const RandomKey& key, uint64_t tile) {
    uint64_t state = key.seed;
    for (const uint64_t value : {key.stream, key.call, tile}) {
      state ^= value;
      state = SplitMix64(&state);
    }
    s0_ = SplitMix64(&state);
    s1_ = SplitMix64(&state);
    if (s0_ == 0 && s1_ == 0) s0_ = 1;
  }

  void Fill(uint16_t* bits, int64_t count) {
    for (; count > 0 && left_ > 0; --count) *bits++ = NextPiece();
    for (; count >= 4; count -= 4, bits += 4) {
      const uint64_t word = NextWord();
      bits[0] = static_cast<uint16_t>(word);
      bits[1] = static_cast<uint16_t>(word >> 16);
      bits[2] = static_cast<uint16_t>(word >> 32);
      bits[3] = static_cast<uint16_t>(word >> 48);
    }
    if (count == 0) return;
    word_ = NextWord();
    left_ = 4;
    while (count-- > 0) *bits++ = NextPiece();
  }

 private:
  static uint64_t Rotate(uint64_t x, int k) { return (x << k) | (x >> (64 - k)); }

  uint64_t NextWord() {
    const uint64_t result = s0_ + s1_, t = s0_ ^ s1_;
    s0_ = Rotate(s0_, 24) ^ t ^ (t << 16);
    s1_ = Rotate(t, 37);
    return result;
  }

  uint16_t NextPiece() {
    const uint16_t piece = static_cast<uint16_t>(word_);
    word_ >>= 16;
    --left_;
    return piece;
  }

  uint64_t s0_, s1_;
  uint64_t word_ = 0;
  int left_ = 0;
};

}  // namespace ipu_tf

#endif  // IPU_TF_OPS_CORE_RANDOM_H_
