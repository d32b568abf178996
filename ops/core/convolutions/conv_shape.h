// The shape of a convolution, and its passes.
#ifndef IPU_TF_OPS_CORE_CONV_SHAPE_H_
#define IPU_TF_OPS_CORE_CONV_SHAPE_H_

#include <cstdint>

namespace ipu_tf {

// Shape of the forward convolution that a call belongs to; channels count all groups.
struct ConvShape {
  int64_t batch = 0;
  int64_t in_rows = 0, in_columns = 0, in_channels = 0;
  int64_t out_rows = 0, out_columns = 0, out_channels = 0;
  int64_t groups = 1;
  int64_t kernel_rows = 0, kernel_columns = 0;
  int64_t stride_rows = 1, stride_columns = 1;
  int64_t dilation_rows = 1, dilation_columns = 1;
  int64_t pad_top = 0, pad_left = 0;
  // Of the filter, where these are more than the image's of a group, which are then some of them; 0: they are those.
  int64_t filter_channels = 0;

  int64_t group_in_channels() const { return in_channels / groups; }
  int64_t group_out_channels() const { return out_channels / groups; }
  // One channel in and out for every group.
  bool plain_depthwise() const { return groups > 1 && groups == in_channels && groups == out_channels; }
  int64_t multiplications() const { return batch * out_rows * out_columns * filter_floats(); }
  // From one position of the filter to the next.
  int64_t tap_floats() const { return (filter_channels > 0 ? filter_channels : group_in_channels()) * out_channels; }
  int64_t filter_floats() const { return kernel_rows * kernel_columns * group_in_channels() * out_channels; }
};

enum class ConvPass { kForward, kInputGradient, kFilterGradient };

}  // namespace ipu_tf

#endif  // IPU_TF_OPS_CORE_CONV_SHAPE_H_
