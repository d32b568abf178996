// The pixels of a convolution along lines, as the depthwise kernels take them.
#ifndef IPU_TF_OPS_CORE_DEPTHWISE_RUNS_H_
#define IPU_TF_OPS_CORE_DEPTHWISE_RUNS_H_

#include <vector>

#include "../kernels/kernels.h"
#include "pixel_rows.h"

namespace ipu_tf {

// The runs of some lines of a grid: along each line, the pixels whose columns of taps are all inside; down the lines of
// an image whose rows of taps are, each other column. Other lines' other pixels are runs by themselves.
class DepthwiseRuns {
 public:
  DepthwiseRuns(const PixelRows::Grid& grid, std::vector<Tap> taps);

  // Holds the runs of lines [begin, end), counted over the rows of all images.
  void Take(int64_t begin, int64_t end);

  const DepthwiseRun* data() const { return runs_.data(); }
  int64_t size() const { return static_cast<int64_t>(runs_.size()); }

 private:
  enum class Direction { kAlong, kDown };

  void Add(int64_t image, int64_t row, int64_t column, Direction direction, int64_t pixels);

  const PixelRows::Grid grid_;
  const std::vector<Tap> taps_;
  const IndexRange inside_rows_, inside_columns_;  // All of whose taps lie inside the image.
  std::vector<DepthwiseRun> runs_;
  std::vector<const float*> x_;
};

}  // namespace ipu_tf

#endif  // IPU_TF_OPS_CORE_DEPTHWISE_RUNS_H_
