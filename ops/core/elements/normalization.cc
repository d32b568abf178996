#include "normalization.h"

#include <algorithm>
#include <vector>

namespace ipu_tf {
namespace {

// Floats of a block of rows, which stays in the cache from one column to the next.
constexpr int64_t kBlock = int64_t{1} << 14;

int64_t BlockRows(const ChannelRows& s) { return std::max<int64_t>(1, kBlock / std::max<int64_t>(1, s.channels)); }

// Calls work(block, first row, rows) for all blocks of rows.
template <typename Work>
void ForBlocks(const ChannelRows& s, const Parallel& parallel, const Work& work) {
  const int64_t rows = BlockRows(s);
  ForFloats(s.rows * s.channels, parallel)(CeilDivide(s.rows, rows), [&](int64_t block) {
    work(block, block * rows, std::min(rows, s.rows - block * rows));
  });
}

// Adds up the sums of blocks, of which each wrote `width` floats; the sums are multiplied by `factor`.
void AddBlocks(const std::vector<float>& partial, int64_t width, double factor, float* sums) {
  std::vector<double> total(width, 0.0);
  for (size_t i = 0; i < partial.size(); i += width) {
    for (int64_t c = 0; c < width; ++c) total[c] += static_cast<double>(partial[i + c]);
  }
  for (int64_t c = 0; c < width; ++c) sums[c] = static_cast<float>(total[c] * factor);
}

}  // namespace

// A block is read from memory once: its squares are those of distances from its own mean, while it is in the cache, and
// are moved to the mean of all rows by sum((x - m)^2) = sum((x - s)^2) + 2 * (s - m) * sum(x - s) + rows * (s - m)^2.
void ChannelMoments(const ChannelRows& s, const float* x, float* mean, float* variance, const Kernels& kernels,
                    const Parallel& parallel) {
  const int64_t block_rows = BlockRows(s), floats = CeilDivide(s.rows, block_rows) * s.channels;
  const double share = 1.0 / static_cast<double>(s.rows);
  std::vector<float> sums(floats), means(floats), squares(floats);
  ForBlocks(s, parallel, [&](int64_t block, int64_t row, int64_t rows) {
    const float* first = x + row * s.channels;
    const int64_t at = block * s.channels;
    kernels.column_sums(first, s.channels, rows, s.channels, false, &sums[at]);
    for (int64_t c = at; c < at + s.channels; ++c) means[c] = sums[c] / static_cast<float>(rows);
    kernels.column_squares(first, &means[at], rows, s.channels, &squares[at]);
  });
  AddBlocks(sums, s.channels, share, mean);
  std::vector<double> total(s.channels, 0.0);
  for (int64_t i = 0, row = 0; i < floats; i += s.channels, row += block_rows) {
    const auto rows = static_cast<double>(std::min(block_rows, s.rows - row));
    for (int64_t c = 0; c < s.channels; ++c) {
      const double of_block = means[i + c], further = of_block - static_cast<double>(mean[c]);
      total[c] += squares[i + c] + further * (2.0 * (sums[i + c] - rows * of_block) + rows * further);
    }
  }
  for (int64_t c = 0; c < s.channels; ++c) variance[c] = static_cast<float>(total[c] * share);
}

void ChannelDots(const ChannelRows& s, const float* x, const float* dy, float* sum, float* dot, const Kernels& kernels,
                 const Parallel& parallel) {
  const int64_t blocks = CeilDivide(s.rows, BlockRows(s));
  std::vector<float> sums(blocks * s.channels), dots(blocks * s.channels);
  ForBlocks(s, parallel, [&](int64_t block, int64_t row, int64_t rows) {
    const int64_t at = row * s.channels, to = block * s.channels;
    kernels.column_dots(x + at, dy + at, rows, s.channels, &sums[to], &dots[to]);
  });
  AddBlocks(sums, s.channels, 1.0, sum);
  AddBlocks(dots, s.channels, 1.0, dot);
}

void ScaleShift(const ChannelRows& s, const float* x, const float* scale, const float* shift, const float* addend,
                Activation activation, float* y, const Kernels& kernels, const Parallel& parallel) {
  ForBlocks(s, parallel, [&](int64_t, int64_t row, int64_t rows) {
    for (int64_t at = row * s.channels; at < (row + rows) * s.channels; at += s.channels) {
      const float* added = addend == nullptr ? nullptr : addend + at;
      kernels.scale_shift(x + at, scale, shift, added, activation, y + at, s.channels);
    }
  });
}

void NormGradient(const ChannelRows& s, const NormGradientVectors& v, const float* dy, const float* x, float* dx,
                  const Kernels& kernels, const Parallel& parallel) {
  const float rows_of_all = static_cast<float>(s.rows);
  std::vector<float> slope(s.channels), offset(s.channels);
  for (int64_t c = 0; c < s.channels; ++c) {
    slope[c] = 2.0f * (v.of_variance[c] / rows_of_all);
    offset[c] = v.of_mean[c] / rows_of_all;
  }
  const NormGradientRow row_of_all{v.scale, v.mean, slope.data(), offset.data(), s.channels};
  ForBlocks(s, parallel, [&](int64_t, int64_t row, int64_t rows) {
    for (int64_t at = row * s.channels; at < (row + rows) * s.channels; at += s.channels) {
      kernels.norm_gradient(row_of_all, dy + at, x + at, dx + at);
    }
  });
}

void LayerNorm(const LayerNormRows& all, const Kernels& kernels, const Parallel& parallel) {
  ForBlocks({all.rows, all.columns}, parallel, [&](int64_t, int64_t row, int64_t rows) {
    LayerNormRows block = all;
    block.rows = rows;
    block.x += row * all.columns;
    block.y += row * all.columns;
    block.mean += row;
    block.inverse += row;
    kernels.layer_norm(block);
  });
}

void LayerNormGradient(const LayerNormGradientRows& all, const Kernels& kernels, const Parallel& parallel) {
  const ChannelRows s{all.rows, all.columns};
  const int64_t blocks = CeilDivide(s.rows, BlockRows(s));
  std::vector<float> dgamma(blocks * s.channels), dbeta(blocks * s.channels);
  ForBlocks(s, parallel, [&](int64_t number, int64_t row, int64_t rows) {
    std::vector<const float*> added(all.added, all.added + all.added_count);
    for (const float*& tensor : added) tensor += row * s.channels;
    LayerNormGradientRows block = all;
    block.rows = rows;
    block.x += row * s.channels;
    block.dy += row * s.channels;
    block.dx += row * s.channels;
    block.mean += row;
    block.inverse += row;
    block.added = added.data();
    block.dgamma = &dgamma[number * s.channels];
    block.dbeta = &dbeta[number * s.channels];
    kernels.layer_norm_gradient(block);
  });
  AddBlocks(dgamma, s.channels, 1.0, all.dgamma);
  AddBlocks(dbeta, s.channels, 1.0, all.dbeta);
}

}  // namespace ipu_tf
