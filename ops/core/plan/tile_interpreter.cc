#include "tile_interpreter.h"

#include <algorithm>
#include <cstring>

#include "../elements/random.h"
#include "../elements/rounding.h"

namespace ipu_tf {
namespace {

// One output block: all tiles that reduce into it, then their sum.
class Block {
 public:
  Block(const TiledOp& op, int64_t grain, const Numerics& numerics, int64_t index)
      : op_(op),
        grain_(grain),
        numerics_(numerics),
        index_(index),
        ranges_(op.output().At(index)),
        rows_(op.OutputRows(ranges_)),
        columns_(ranges_.back().size()),
        partial_(rows_.size() * columns_),
        runs_(rows_.size()) {}

  void Compute() {
    const int64_t parts = op_.reduction().count();
    std::vector<float> sum;
    for (int64_t part = 0; part < parts; ++part) {
      ComputeTile(part, index_ * parts + part);
      if (part == 0) {
        sum = partial_;
      } else {
        for (size_t i = 0; i < sum.size(); ++i) sum[i] += partial_[i];
      }
    }
    if (!numerics_.half_partials || parts > 1) {
      const int64_t tiles = op_.output().count() * parts;
      Random16 random(numerics_.random, static_cast<uint64_t>(tiles + index_));
      RoundStochastic(sum.data(), static_cast<int64_t>(sum.size()), numerics_.nanoo, &random);
    }
    for (size_t r = 0; r < rows_.size(); ++r) {
      std::memcpy(rows_[r], sum.data() + r * columns_, columns_ * sizeof(float));
    }
  }

 private:
  void ComputeTile(int64_t part, int64_t tile) {
    Random16 random(numerics_.random, static_cast<uint64_t>(tile));
    const std::vector<Range> ranges = op_.reduction().At(part);
    std::fill(partial_.begin(), partial_.end(), 0.0f);
    const int64_t runs = op_.Runs(ranges);
    for (int64_t run = 0; run < runs; ++run) {
      const int64_t length = op_.FillRun(ranges_, ranges, run, runs_.data());
      const int64_t pass = numerics_.half_partials ? grain_ : length;
      for (int64_t k = 0; k < length; k += pass) {
        Accumulate(k, std::min(length, k + pass));
        if (!numerics_.half_partials) continue;
        RoundStochastic(partial_.data(), static_cast<int64_t>(partial_.size()), numerics_.nanoo, &random);
      }
    }
  }

  void Accumulate(int64_t begin, int64_t end) {
    for (size_t r = 0; r < rows_.size(); ++r) {
      const RunRow& row = runs_[r];
      float* to = partial_.data() + r * columns_;
      const int64_t last = std::min(end, row.end);
      for (int64_t k = std::max(begin, row.begin); k < last; ++k) {
        const float a = row.a[k * op_.a_step()];
        const float* b = row.b + k * op_.b_step();
        for (int64_t n = 0; n < columns_; ++n) to[n] += a * b[n];
      }
    }
  }

  const TiledOp& op_;
  const int64_t grain_;
  const Numerics& numerics_;
  const int64_t index_;
  const std::vector<Range> ranges_;
  const std::vector<float*> rows_;
  const int64_t columns_;
  std::vector<float> partial_;
  std::vector<RunRow> runs_;
};

}  // namespace

int64_t Splits::count() const {
  int64_t count = 1;
  for (const Partition& partition : partitions_) count *= partition.parts;
  return count;
}

std::vector<Range> Splits::At(int64_t index) const {
  std::vector<Range> ranges(partitions_.size());
  for (size_t i = partitions_.size(); i-- > 0;) {
    const Partition& partition = partitions_[i];
    const int64_t part = index % partition.parts;
    index /= partition.parts;
    ranges[i] = {partition.begin(part), partition.end(part)};
  }
  return ranges;
}

void InterpretTiles(const TiledOp& op, int64_t grain, const Numerics& numerics, const Parallel& parallel) {
  parallel(op.output().count(), [&](int64_t index) { Block(op, grain, numerics, index).Compute(); });
}

}  // namespace ipu_tf
