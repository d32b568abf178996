// Memory that is read next is fetched into the caches while something else is computed.
#ifndef IPU_TF_OPS_CORE_FETCHING_H_
#define IPU_TF_OPS_CORE_FETCHING_H_

#include <algorithm>
#include <cstdint>

#include "kernels/kernels.h"
#include "parallel.h"
#include "streaming.h"

namespace ipu_tf {

// Asks for floats that are read soon.
inline void FetchToRead(const float* p, int64_t floats) {
  for (int64_t i = 0; i < floats; i += kCacheLineFloats) __builtin_prefetch(p + i);
}

// Asks for floats that are written soon.
inline void FetchToWrite(const float* p, int64_t floats) {
  for (int64_t i = 0; i < floats; i += kCacheLineFloats) __builtin_prefetch(p + i, 1);
}

// So many rows of a block are fetched with each of these pieces that all of them come in the first half.
inline int64_t RowsOfPiece(int64_t rows, int64_t pieces) { return CeilDivide(rows, std::max<int64_t>(1, pieces / 2)); }

// All of these floats, some of them each of so many times.
inline Ahead AheadOf(const float* begin, int64_t floats, int64_t times) {
  return {begin, floats, CeilDivide(CeilDivide(floats, kCacheLineFloats), times)};
}

// Floats that blocks of products fetch into the second cache, a stretch with each.
class Fetching {
 public:
  Fetching() = default;
  // All of them with so many blocks, whose reductions have so many pieces; where no tap is inside, these have none.
  Fetching(const float* begin, const float* end, int64_t blocks, int64_t pieces)
      : next_(begin),
        end_(end),
        floats_(AheadOf(begin, end - begin, blocks).lines_at_once * kCacheLineFloats),
        lines_of_piece_(CeilDivide(floats_ / kCacheLineFloats, std::max<int64_t>(1, pieces))) {}

  // Gives the next stretch to a block.
  void Next(Fetch* fetch) {
    fetch->ahead = {next_, std::min<int64_t>(floats_, end_ - next_), lines_of_piece_};
    next_ += fetch->ahead.floats;
  }

 private:
  const float *next_ = nullptr, *end_ = nullptr;
  int64_t floats_ = 0;  // Of a stretch: whole lines.
  int64_t lines_of_piece_ = 0;
};

}  // namespace ipu_tf

#endif  // IPU_TF_OPS_CORE_FETCHING_H_
