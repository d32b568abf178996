// The instruction-set specific inner loops, behind a table of function pointers.
//
// kernels.inc is compiled twice (kernels_avx2.cc, kernels_avx512.cc); isa.cc picks a table at run time.
// Every output element is one chain of fused multiply-adds in the order of the reduction, so a result
// never depends on the instruction set, on the blocking or on the number of threads.
#ifndef IPU_TF_OPS_CORE_KERNELS_H_
#define IPU_TF_OPS_CORE_KERNELS_H_

#include <cstdint>

namespace ipu_tf {

// How partial sums are rounded to float16 after each pass; `grain` 0 keeps them in float32.
struct PassRounding {
  int64_t grain = 0;
  bool nanoo = false;
};

// What is read later, and fetched into the second cache meanwhile: so many lines of it at a time.
struct Ahead {
  const float* begin = nullptr;
  int64_t floats = 0;
  int64_t lines_at_once = 0;
};

// What a block asks for beside its products, some lines with each piece of its reduction: a core waits for no more than
// some twenty lines at a time, and operands that it needs now would queue behind the others.
struct Fetch {
  Ahead ahead;                // What later blocks read, some of it with each piece.
  int64_t rows_of_piece = 0;  // Rows, at a time, that the sums meet in the end,
  bool results = false;       // and those of `c`.
};

// A block of output rows, each reduced over taps (filter positions) times a run of channels.
struct IndirectBlock {
  const float* const* a;  // a[tap * a_tap_stride + row]: channel 0 of the input row.
  int64_t a_tap_stride;
  const int64_t* a_tap;  // If not null: tap t of a row lies a_tap[t] floats after a[row].
  const float* b;        // Weights at the block's first column.
  const int64_t* b_tap;  // Floats from `b` to channel 0 of each tap.
  int64_t ldb;           // Floats from one channel of `b` to the next.
  float* const* c;       // Output rows,
  int64_t c_offset = 0;  // of which the block's first column lies so many floats on.
  int64_t taps;
  int64_t k_begin;  // The channels of a run: [k_begin, k_end).
  int64_t k_end;
  int rows;
  int columns;
  bool load;  // Continue from the values in `c` (else from +0).
  bool add;   // Add the sum to `c` (else overwrite).
  PassRounding rounding;
  // What is done to sums that are neither added nor rounded, each if not null, in this order:
  const float* bias = nullptr;           // Added to every row, from the block's first column on; then a ReLU if `relu`.
  const float* const* addend = nullptr;  // Rows that are added; as those of `c`, from `c_offset` on.
  const float* const* features = nullptr;  // So are those of what left the ReLU whose gradient the sums become.
  bool relu = false;
  // Whether sums that are not added leave the caches as they are written. Then all columns of a panel are there, and
  // rows of `c` begin at lines of the cache; before other threads read them the writer needs a fence (StreamFence).
  bool stream = false;
  // If not null: where the weights of the one tap are copied as they are read, from `k_begin` on, as a packed panel.
  // Then sums are not rounded.
  float* panel = nullptr;
  const Fetch* fetch = nullptr;
};

// A stretch of the reduction whose elements lie `a_step` and `ldb` floats apart.
struct TransposedRun {
  const float* a;
  const float* b;
  int64_t length;
  int64_t first;  // Elements up to the end of the first pass.
};

// A block of output rows whose input rows lie next to each other in memory.
struct TransposedBlock {
  const TransposedRun* runs;
  int64_t run_count;
  int64_t a_offset = 0;  // Floats added to every run's `a`: the block's first row.
  int64_t b_offset = 0;  // Floats added to every run's `b`: the block's first column.
  int64_t a_step;
  bool fetches_ahead = false;  // Asks for `a` of later pixels beside the products: where it is read in place.
  int64_t ldb;
  float* const* c;
  int64_t c_offset = 0;  // As of an IndirectBlock; of `weights`, too.
  int rows;
  int columns;
  bool load = false;
  bool add = false;
  PassRounding rounding;
  bool stream = false;  // As of an IndirectBlock.
  // Rows of weights; if not null, `c` becomes each less the sum times `rate`. Then the sum is neither added nor
  // rounded.
  const float* const* weights = nullptr;
  float rate = 0;
  const Fetch* fetch = nullptr;
};

constexpr int kDenseVectors = 3;

// A block of a product whose operands are given by strides; the columns of `b` adjoin.
struct DenseBlock {
  const float* a;
  int64_t a_row_stride;
  int64_t a_k_stride;
  const float* b;
  int64_t ldb;
  float* c;
  int64_t c_row_stride;
  int64_t depth;
  int rows;     // At most dense_rows[vectors - 1] for as many vectors as the columns take.
  int columns;  // At most kDenseVectors vectors.
};

// Output pixels along a line, and the input of each tap.
struct DepthwiseRun {
  const float* const* x;  // x[tap]: the first pixel's, channel 0; nullptr: outside of the image.
  int64_t at;             // Floats to the first pixel of the output.
  int64_t pixels;
  int64_t x_step;  // Floats from one pixel's input to the next one's,
  int64_t y_step;  // and from output to output.
  bool inside;     // No tap is outside.
};

// Pixels of a block of a depthwise convolution: as many sums as keep two units busy.
constexpr int kDepthwisePixels = 8;

// Runs of output pixels of a depthwise convolution of multiplier 1.
struct DepthwiseBlock {
  const DepthwiseRun* runs;
  int64_t run_count;
  const float* const* w;  // w[tap], channel 0.
  float* y;
  int64_t tap_begin;
  int64_t tap_end;
  int64_t channels;
  bool add;         // Add the sum to `y` (else overwrite).
  bool round_taps;  // Round to float16 after each tap.
  bool nanoo;
  Ahead ahead;  // Some with each block of pixels and vector of channels.
};

// What runs of output pixels add to the filter gradient of a depthwise convolution of multiplier 1.
struct DepthwiseGradientBlock {
  const DepthwiseRun* runs;
  int64_t run_count;
  const float* dy;
  float* const* dw;  // dw[tap], channel 0.
  int64_t taps;
  int64_t channel_begin;
  int64_t channel_end;
  bool load;      // Continue from the values in `dw` (else from +0).
  Ahead x_ahead;  // Some with each pixel and vector of channels.
  Ahead dy_ahead;
};

// What numbers of Philox4x32-10 are compared with, and where its counter starts.
struct PhiloxThreshold {
  uint64_t key;
  uint64_t counter[2];  // The low word first.
  int bits;             // The low bits of a number, which are compared; at most 23.
  uint32_t threshold;   // At most 2^bits.
};

// The gradient of one window of a max pooling.
struct PoolWindow {
  const float* const* x;  // x[tap], channel 0.
  float* const* dx;
  const float* y;
  const float* dy;
  int taps;
  int64_t channels;
  bool relu;  // `x` came out of a ReLU, and `dx` is the gradient of what went into it.
  bool add;   // Add to `dx` (else overwrite).
};

// The cross entropies of rows' softmax with labels.
struct LabelledRows {
  int64_t rows;
  int64_t columns;
  const float* x;
  const int64_t* labels;
  float* loss;
  float* dx;  // Its gradient.
};

// The vectors of the gradient of a normalized row, one value a channel.
struct NormGradientRow {
  const float* scale;
  const float* mean;
  const float* slope;
  const float* offset;
  int64_t channels;
};

// Columns of rows that are added up by segments.
struct SegmentRows {
  const float* x;
  int64_t row_floats;   // From one row of `x`, or of `sums`, to the next.
  const int32_t* from;  // Which row of `x` each is; nullptr: the rows themselves.
  const int32_t* kept;  // Rows of a negative number are left out; nullptr: none.
  const int32_t* id;    // The segment of each row; those of a negative number are left out.
  int64_t rows;
  int64_t segments;
  int64_t columns;
  float* sums;
};

// Rows of a softmax, and the dropout of it.
struct SoftmaxRows {
  int64_t rows;
  int64_t columns;
  const float* x;
  const uint8_t* kept;  // Whether dropout keeps an element; nullptr: there is none.
  float scale;          // Of elements that are kept.
  float* y;
  float* dropped;  // y after dropout.
};

// The gradient of such a row.
struct SoftmaxGradientRow {
  const float* y;
  const float* dy;      // The gradient of what dropout gives, where there is one.
  const uint8_t* kept;  // As in SoftmaxRows.
  float scale;
  float* dx;
  int64_t columns;
};

// Rows of `columns` that are each normalized by a mean and a variance of their own.
struct LayerNormRows {
  int64_t rows;
  int64_t columns;
  const float* x;
  const float* gamma;  // One a column, as `beta`.
  const float* beta;
  float epsilon;
  float* y;
  float* mean;     // One a row.
  float* inverse;  // 1 / sqrt(variance + epsilon), one a row.
};

// The gradients of such rows.
struct LayerNormGradientRows {
  int64_t rows;
  int64_t columns;
  const float* x;
  const float* dy;
  const float* gamma;
  const float* mean;
  const float* inverse;
  const float* const* added;  // Rows that are added to dx.
  int64_t added_count;
  float* dx;
  float* dgamma;  // Sums over these rows, one a column, as `dbeta`.
  float* dbeta;
};

// One step of a recurrent layer for one sample. `outer` and `inner` are the products of its inputs and of its state
// with the weights. The gates of an LSTM are i, f, g, o, of one bias each; a GRU has two biases, the second for
// `inner`.
struct RecurrentRow {
  const float* outer;
  const float* inner;
  const float* bias;
  const float* h_before;
  const float* c_before;  // Of an LSTM.
  float* gates;           // Four; those of an LSTM may be in the place of `outer`.
  float* h;
  float* c;  // Of an LSTM.
  int64_t units;
};

// The gradient of such a step.
struct RecurrentGradientRow {
  const float* gates;
  const float* h_before;
  const float* c_before;  // Of an LSTM.
  const float* c;         // Of an LSTM.
  const float* d_output;  // What reaches the output beside `dh`; nullptr: nothing.
  float* dh;              // The gradient of h; then that of h_before without what `d_inner` gives it.
  float* dc;              // The gradient of c; then that of c_before.
  float* d_outer;
  float* d_inner;  // Of a GRU; an LSTM has one gradient for both.
  int64_t units;
};

// What follows a sum: nothing, max(0, x), or min(max(0, x), 6).
enum class Activation { kNone, kRelu, kRelu6 };

// What float16 numbers stand for values beyond the largest.
enum class Overflow { kLargest, kNan, kInfinity };

struct Kernels {
  const char* name;
  int block_rows;                 // Rows of the register block.
  int block_columns;              // Columns of the register block, and of a packed panel.
  int lanes;                      // Floats of a vector.
  int piece_steps;                // Of a reduction, in a piece with which a block fetches its share.
  int dense_rows[kDenseVectors];  // Rows of a dense block of 1, 2, ... vectors of columns.
  void (*indirect)(const IndirectBlock& block);
  void (*transposed)(const TransposedBlock& block);
  void (*dense)(const DenseBlock& block);
  // to[k * ldt + n] = from[n * n_stride + k * k_stride] for n < columns, k < depth. `ldt` is a multiple of `lanes`;
  // columns up to the next multiple of it are overwritten.
  void (*transpose)(const float* from, int64_t n_stride, int64_t k_stride, int64_t columns, int64_t depth, float* to,
                    int64_t ldt);
  void (*depthwise)(const DepthwiseBlock& block);
  void (*depthwise_gradient)(const DepthwiseGradientBlock& block);
  // Panels `panel_floats` apart: panel[k][block_columns] = b[k * k_stride + n * n_stride], zero from `columns` on.
  void (*pack)(const float* b, int64_t k_stride, int64_t n_stride, int64_t depth, int64_t columns, float* panel,
               int64_t panel_floats);
  // to[pixel][block_rows] = from[pixel * stride + row] for row < rows <= block_rows; the rest is undefined.
  void (*pack_rows)(const float* from, int64_t stride, int64_t pixels, int64_t rows, float* to);
  void (*half_to_float)(const uint16_t* from, float* to, int64_t count);
  void (*float_to_half)(const float* from, uint16_t* to, int64_t count, Overflow overflow);
  void (*add)(const float* from, float* to, int64_t count);  // to += from.
  // to += bias, then negative values become 0 if `relu`.
  void (*add_bias)(const float* bias, bool relu, float* to, int64_t count);
  // sums[c] (+)= sum over rows of x[row * stride + c].
  void (*column_sums)(const float* x, int64_t stride, int64_t rows, int64_t columns, bool add, float* sums);
  // sums[id[r]] = the sum of the rows of this number, in their order, from zero.
  void (*segment_sums)(const SegmentRows& rows);
  // to *= 1 where x > 0, else 0.
  void (*relu_gradient)(const float* x, float* to, int64_t count);
  // Calls `first`, ... of the generator, each of which gives four numbers: kept[i] tells whether the low bits of
  // number i reach the threshold.
  void (*philox_at_least)(const PhiloxThreshold& random, uint64_t first, int64_t calls, uint8_t* kept);
  // y = x * scale where kept, else 0.
  void (*scale_kept)(const float* x, const uint8_t* kept, float scale, float* y, int64_t count);
  void (*max_pool_gradient)(const PoolWindow& window);
  void (*label_loss)(const LabelledRows& rows);
  // at[r] = the first column of row r where x is largest, of numbers; 0 if all are NaN or minus infinity. With
  // `signed_zeros`, -0 is less than 0, as if it were minus the smallest normal number.
  void (*arg_max)(const float* x, int64_t rows, int64_t columns, bool signed_zeros, int32_t* at);
  // sums[c] = sum over rows of (x[row * columns + c] - mean[c])^2.
  void (*column_squares)(const float* x, const float* mean, int64_t rows, int64_t columns, float* sums);
  // sums[c] = sum over rows of dy[row * columns + c], dots[c] = that of x * dy.
  void (*column_dots)(const float* x, const float* dy, int64_t rows, int64_t columns, float* sums, float* dots);
  // y = x * scale + shift, plus `addend` if it is not null, then the activation.
  void (*scale_shift)(const float* x, const float* scale, const float* shift, const float* addend,
                      Activation activation, float* y, int64_t count);
  // dx = dy * scale + (x - mean) * slope + offset.
  void (*norm_gradient)(const NormGradientRow& row, const float* dy, const float* x, float* dx);
  // y = exp(x - max(x)) / sum of that, and `dropped` = y * scale where kept, else 0.
  void (*softmax)(const SoftmaxRows& rows);
  // dx = (dy - sum(dy * y)) * y, where dy is 0 if not kept, else multiplied by the scale.
  void (*softmax_gradient)(const SoftmaxGradientRow& row);
  void (*layer_norm)(const LayerNormRows& rows);
  void (*layer_norm_gradient)(const LayerNormGradientRows& rows);
  // y = x * P(N < x) of a normal variable N; with `approximate`, by a tanh.
  void (*gelu)(const float* x, bool approximate, float* y, int64_t count);
  void (*gelu_gradient)(const float* x, const float* dy, bool approximate, float* dx, int64_t count);
  void (*lstm_step)(const RecurrentRow& row);
  void (*lstm_gradient)(const RecurrentGradientRow& row);
  void (*gru_step)(const RecurrentRow& row);
  void (*gru_gradient)(const RecurrentGradientRow& row);
};

const Kernels& Avx2Kernels();
const Kernels& Avx512Kernels();

// The table for this machine; the environment variable IPU_TF_ISA=avx2 forces AVX2.
const Kernels& ActiveKernels();

// How many rows a block of products reads in place, each `stride` floats after the one before: as many as a set of the
// first cache has lines, if all of them fall into one set. Else each product would wait for lines that the rows took
// from each other.
int RowsOfBlock(const Kernels& kernels, int64_t stride);

}  // namespace ipu_tf

#endif  // IPU_TF_OPS_CORE_KERNELS_H_
