#include "conv_shape.h"

#include <algorithm>

namespace ipu_tf {
namespace {

using tensorflow::Tensor;
using tensorflow::TensorShape;

template <typename Values>
std::string Join(const Values& values) {
  std::string text = "[";
  for (size_t i = 0; i < values.size(); ++i) {
    text += (i == 0 ? "" : ", ") + std::to_string(values[i]);
  }
  return text + "]";
}

// One value for each dimension of NHWC, 1 for images and channels.
std::string CheckSteps(const char* name, const std::vector<int32_t>& steps) {
  const bool good = steps.size() == 4 && steps[0] == 1 && steps[3] == 1 && steps[1] > 0 && steps[2] > 0;
  return good ? "" : std::string(name) + " must be [1, rows, columns, 1], each at least 1. Received: " + Join(steps);
}

// The output extent and the padding before the image, in one direction.
std::string PlaceWindow(const ConvAttributes& attributes, int dimension, int64_t in, int64_t kernel, int64_t* out,
                        int64_t* before) {
  const int64_t stride = attributes.strides[dimension];
  const int64_t window = (kernel - 1) * attributes.dilations[dimension] + 1;
  int64_t after = 0;
  *before = 0;
  if (attributes.padding == "SAME") {
    *out = (in + stride - 1) / stride;
    *before = std::max<int64_t>(0, (*out - 1) * stride + window - in) / 2;
    return "";
  }
  if (attributes.padding == "EXPLICIT") {
    *before = attributes.explicit_paddings[2 * dimension];
    after = attributes.explicit_paddings[2 * dimension + 1];
  }
  const int64_t room = in + *before + after - window;
  *out = room < 0 ? 0 : room / stride + 1;
  if (*out > 0) return "";
  return std::string("the filter spans ") + std::to_string(window) + (dimension == 1 ? " rows" : " columns") +
         " but the padded image has only " + std::to_string(in + *before + after);
}

}  // namespace

absl::Status ConvAttributes::Read(tensorflow::OpKernelConstruction* context) {
  TF_RETURN_IF_ERROR(context->GetAttr("strides", &strides));
  TF_RETURN_IF_ERROR(context->GetAttr("dilations", &dilations));
  TF_RETURN_IF_ERROR(context->GetAttr("explicit_paddings", &explicit_paddings));
  TF_RETURN_IF_ERROR(context->GetAttr("padding", &padding));
  return context->GetAttr("data_format", &data_format);
}

std::string ConvAttributes::Check() const {
  if (data_format != "NHWC") {
    return "tile ops take data_format NHWC; transpose the image. Received: " + data_format;
  }
  std::string error = CheckSteps("strides", strides);
  if (error.empty()) error = CheckSteps("dilations", dilations);
  if (!error.empty()) return error;
  if (padding != "EXPLICIT") {
    return explicit_paddings.empty() ? "" : "explicit_paddings go with padding EXPLICIT. Received: " + padding;
  }
  const auto& p = explicit_paddings;
  const bool good = p.size() == 8 && p[0] == 0 && p[1] == 0 && p[6] == 0 && p[7] == 0 &&
                    std::all_of(p.begin(), p.end(), [](int64_t v) { return v >= 0; });
  return good ? ""
              : "explicit_paddings must be [0, 0, top, bottom, left, right, 0, 0], none negative. "
                "Received: " +
                    Join(p);
}

std::string MakeConvShape(const ConvAttributes& attributes, const TensorShape& input, const TensorShape& filter,
                          bool depthwise, ConvShape* shape) {
  if (input.dims() != 4 || filter.dims() != 4) {
    return "image and filter have four dimensions. Received: " + input.DebugString() + " and " + filter.DebugString();
  }
  if (input.num_elements() == 0 || filter.num_elements() == 0) {
    return "image and filter may not have a dimension of 0. Received: " + input.DebugString() + " and " +
           filter.DebugString();
  }
  shape->batch = input.dim_size(0);
  shape->in_rows = input.dim_size(1);
  shape->in_columns = input.dim_size(2);
  shape->in_channels = input.dim_size(3);
  shape->kernel_rows = filter.dim_size(0);
  shape->kernel_columns = filter.dim_size(1);
  const int64_t filter_in = filter.dim_size(2), filter_out = filter.dim_size(3);
  shape->out_channels = depthwise ? filter_in * filter_out : filter_out;
  shape->groups = shape->in_channels / (depthwise ? 1 : filter_in);
  const bool whole = depthwise ? filter_in == shape->in_channels
                               : shape->in_channels % filter_in == 0 && filter_out % shape->groups == 0;
  if (!whole) {
    return std::string("the image's channels do not fit the filter") + (depthwise ? "" : " in whole groups") +
           ". Received: image " + input.DebugString() + " and filter " + filter.DebugString();
  }
  shape->stride_rows = attributes.strides[1];
  shape->stride_columns = attributes.strides[2];
  shape->dilation_rows = attributes.dilations[1];
  shape->dilation_columns = attributes.dilations[2];
  const std::string error =
      PlaceWindow(attributes, 1, shape->in_rows, shape->kernel_rows, &shape->out_rows, &shape->pad_top);
  if (!error.empty()) return error;
  return PlaceWindow(attributes, 2, shape->in_columns, shape->kernel_columns, &shape->out_columns, &shape->pad_left);
}

TensorShape OutputShape(const ConvShape& shape) {
  return TensorShape({shape.batch, shape.out_rows, shape.out_columns, shape.out_channels});
}

std::string CheckOutBackprop(const ConvShape& shape, const TensorShape& dy) {
  const TensorShape expected = OutputShape(shape);
  if (dy == expected) return "";
  return "out_backprop must have the shape of the forward output, " + expected.DebugString() +
         ". Received: " + dy.DebugString();
}

std::string ReadShape(const Tensor& sizes, const char* name, TensorShape* shape) {
  if (sizes.dims() != 1 || sizes.NumElements() != 4) {
    return std::string(name) + " must be a vector of four sizes. Received a tensor of shape " +
           sizes.shape().DebugString();
  }
  const auto* values = static_cast<const int32_t*>(sizes.data());
  for (int i = 0; i < 4; ++i) {
    if (values[i] < 0) return std::string(name) + " must not be negative. Received: " + sizes.DebugString();
    if (!shape->AddDimWithStatus(values[i]).ok()) return std::string(name) + " is too large";
  }
  return "";
}

}  // namespace ipu_tf
