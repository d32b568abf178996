#include "tiled_matmul.h"

#include "../plan/tile_interpreter.h"
#include "../scratch.h"
#include "einsum.h"

namespace ipu_tf {
namespace {

class MatMulTiles : public TiledOp {
 public:
  MatMulTiles(const MatMulShape& shape, const MatMulPlan& plan, const float* a, const float* b, float* c)
      : TiledOp(Splits({{shape.batch(), plan.batch, 1}, {shape.rows, plan.rows, 1}, {shape.columns, plan.columns, 1}}),
                Splits({{shape.depth, plan.reduction, plan.grain}}), shape.a_k_stride, shape.b_k_stride),
        shape_(shape),
        a_(a),
        b_(b),
        c_(c) {}

  std::vector<float*> OutputRows(const std::vector<Range>& block) const override {
    std::vector<float*> rows;
    for (int64_t g = block[0].begin; g < block[0].end; ++g) {
      for (int64_t r = block[1].begin; r < block[1].end; ++r) {
        rows.push_back(c_ + shape_.c_at[g] + r * shape_.c_row_stride + block[2].begin);
      }
    }
    return rows;
  }

  int64_t Runs(const std::vector<Range>& /*part*/) const override { return 1; }

  int64_t FillRun(const std::vector<Range>& block, const std::vector<Range>& part, int64_t /*run*/,
                  RunRow* rows) const override {
    const Range k = part[0];
    for (int64_t g = block[0].begin; g < block[0].end; ++g) {
      const float* b = b_ + shape_.b_at[g] + k.begin * shape_.b_k_stride + block[2].begin;
      for (int64_t r = block[1].begin; r < block[1].end; ++r) {
        const float* a = a_ + shape_.a_at[g] + r * shape_.a_row_stride + k.begin * shape_.a_k_stride;
        *rows++ = {a, b, 0, k.size()};
      }
    }
    return k.size();
  }

 private:
  const MatMulShape& shape_;
  const float *a_, *b_;
  float* c_;
};

}  // namespace

void TiledMatMul(const MatMulShape& shape, const MatMulPlan& plan, const Numerics& numerics, const float* a,
                 const float* b, float* c, const Parallel& parallel) {
  if (shape.b_n_stride == 1) {
    return InterpretTiles(MatMulTiles(shape, plan, a, b, c), plan.grain, numerics, parallel);
  }
  // The interpreter reads adjoining columns.
  MatMulShape dense = shape;
  dense.b_k_stride = shape.columns;
  dense.b_n_stride = 1;
  const int64_t floats = shape.depth * shape.columns;
  Scratch copy(shape.batch() * floats);
  for (int64_t g = 0; g < shape.batch(); ++g) {
    CopyStrided(b + shape.b_at[g], {{shape.depth, shape.b_k_stride}, {shape.columns, shape.b_n_stride}},
                copy.data() + g * floats);
    dense.b_at[g] = g * floats;
  }
  InterpretTiles(MatMulTiles(dense, plan, a, copy.data(), c), plan.grain, numerics, parallel);
}

}  // namespace ipu_tf
