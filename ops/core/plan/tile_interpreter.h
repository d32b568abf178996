// Executes a plan literally, one tile after the other, where random bits make the tile that computes a value
// matter: stochastic rounding. Every other call merges tiles (gemm.h, conv_filter.cc).
#ifndef IPU_TF_OPS_CORE_TILE_INTERPRETER_H_
#define IPU_TF_OPS_CORE_TILE_INTERPRETER_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "../parallel.h"
#include "plan.h"

namespace ipu_tf {

struct Range {
  int64_t begin, end;
  int64_t size() const { return end - begin; }
};

// Several partitions, their combinations of parts numbered lexicographically.
class Splits {
 public:
  explicit Splits(std::vector<Partition> partitions) : partitions_(std::move(partitions)) {}
  int64_t count() const;
  // The ranges of one combination.
  std::vector<Range> At(int64_t index) const;

 private:
  std::vector<Partition> partitions_;
};

// A run of the reduction as one output row sees it: elements [begin, end) of the run are formed, element k from
// a[k * a_step] and b[k * b_step + column].
struct RunRow {
  const float* a;
  const float* b;
  int64_t begin, end;
};

// An op cut into output blocks and parts of the reduction; a tile is one of each.
class TiledOp {
 public:
  TiledOp(Splits output, Splits reduction, int64_t a_step, int64_t b_step)
      : output_(std::move(output)), reduction_(std::move(reduction)), a_step_(a_step), b_step_(b_step) {}
  virtual ~TiledOp() = default;

  const Splits& output() const { return output_; }
  const Splits& reduction() const { return reduction_; }
  int64_t a_step() const { return a_step_; }
  int64_t b_step() const { return b_step_; }

  // The addresses of a block's output rows, in order; its columns are the last range of `block`.
  virtual std::vector<float*> OutputRows(const std::vector<Range>& block) const = 0;
  virtual int64_t Runs(const std::vector<Range>& part) const = 0;
  // Describes a run for every output row; returns its length.
  virtual int64_t FillRun(const std::vector<Range>& block, const std::vector<Range>& part, int64_t run,
                          RunRow* rows) const = 0;

 private:
  Splits output_, reduction_;
  int64_t a_step_, b_step_;
};

// Computes every tile of `op` in float16 arithmetic with stochastic rounding. `grain`: elements of a pass.
void InterpretTiles(const TiledOp& op, int64_t grain, const Numerics& numerics, const Parallel& parallel);

}  // namespace ipu_tf

#endif  // IPU_TF_OPS_CORE_TILE_INTERPRETER_H_
