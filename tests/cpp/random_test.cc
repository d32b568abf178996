// The random bits of stochastic rounding.
#include "../../ops/core/elements/random.h"
#include "../../ops/core/elements/replica_streams.h"

#include "check.h"

namespace ipu_tf::testing {
namespace {

uint64_t Rotate(uint64_t x, int k) { return (x << k) | (x >> (64 - k)); }

TEST(SplitMix64GivesItsKnownNumbers) {
  uint64_t state = 0;
  const std::vector<uint64_t> got = {SplitMix64(&state), SplitMix64(&state), SplitMix64(&state)};
  CHECK_SAME(got, (std::vector<uint64_t>{0xe220a8397b1dcdaf, 0x6e789e6aa1b965f4, 0x06c45d188009454f}));
}

TEST(Random16DealsOutXoroshiro) {
  uint64_t state = 11;
  for (const uint64_t value : {22, 33, 44}) {
    state ^= value;
    state = SplitMix64(&state);
  }
  uint64_t s0 = SplitMix64(&state), s1 = SplitMix64(&state);
  std::vector<uint16_t> wanted;
  for (int word = 0; word < 25; ++word) {
    const uint64_t sum = s0 + s1, t = s0 ^ s1;
    s0 = Rotate(s0, 24) ^ t ^ (t << 16);
    s1 = Rotate(t, 37);
    for (int piece = 0; piece < 4; ++piece) wanted.push_back(static_cast<uint16_t>(sum >> (16 * piece)));
  }
  for (const size_t stretch : {1, 3, 4, 7, 100}) {
    Random16 random({11, 22, 33}, 44);
    std::vector<uint16_t> got(100);
    for (size_t at = 0; at < got.size(); at += stretch) {
      random.Fill(&got[at], static_cast<int64_t>(std::min(stretch, got.size() - at)));
    }
    CHECK_SAME(got, wanted);
  }
}

TEST(RandomKeysCountTheCallsOfAStream) {
  ResetSeed(5);
  CHECK(NextKey(1).call == 0);
  CHECK(NextKey(1).call == 1);
  const RandomKey other = NextKey(2);
  CHECK(other.seed == 5 && other.stream == 2 && other.call == 0);
  ResetSeed(6);
  const RandomKey again = NextKey(1);
  CHECK(again.seed == 6 && again.call == 0);
}

TEST(CallsOfGroupsOfStreamsAreSetBack) {
  ResetSeed(5);
  const uint64_t stream = 7 * kStreamsOfGroup + 3;
  NextKey(stream);
  NextKey(1);
  const StreamCalls before = CallsOf({7});
  NextKey(stream);
  NextKey(stream + 1);
  const StreamCalls after = CallsOf({7});
  SetCalls({7}, before);
  CHECK(NextKey(stream).call == 1 && NextKey(stream + 1).call == 0 && NextKey(1).call == 1);
  SetCalls({7}, after);
  CHECK(NextKey(stream).call == 2 && NextKey(stream + 1).call == 1);
  SetCalls({7}, {});
  CHECK(NextKey(stream).call == 0);
  ResetSeed(6);
  CHECK(CallsOf({7}).seeds == after.seeds + 1);
}

TEST(IdenticalReplicasShareStreamsAndCountTheirOwnCalls) {
  SetIdenticalReplicas(true);
  ResetSeed(5);
  NextKey(3);
  const RandomKey first = NextKey(3 + kReplicaStride);
  CHECK(first.stream == 3 && first.call == 0);
  SetIdenticalReplicas(false);
  CHECK(NextKey(3 + kReplicaStride).stream == 3 + kReplicaStride);
}

}  // namespace
}  // namespace ipu_tf::testing
