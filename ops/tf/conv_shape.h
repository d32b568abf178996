// The attributes that all convolution ops share, and the shape of a call.
#ifndef IPU_TF_OPS_TF_CONV_SHAPE_H_
#define IPU_TF_OPS_TF_CONV_SHAPE_H_

#include <string>
#include <vector>

#include "../core/convolutions/conv.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace ipu_tf {

struct ConvAttributes {
  std::vector<int32_t> strides, dilations;
  std::vector<int64_t> explicit_paddings;
  std::string padding, data_format;

  absl::Status Read(tensorflow::OpKernelConstruction* context);
  // Returns what is wrong with the attributes, or "".
  std::string Check() const;
};

// Fills `shape` for a convolution of `input` with `filter`; `depthwise` filters are [rows, columns, channels,
// multiplier]. Returns an error, or "".
std::string MakeConvShape(const ConvAttributes& attributes, const tensorflow::TensorShape& input,
                          const tensorflow::TensorShape& filter, bool depthwise, ConvShape* shape);

// Returns the error of a gradient whose shape is not that of the forward output, or "".
std::string CheckOutBackprop(const ConvShape& shape, const tensorflow::TensorShape& dy);

tensorflow::TensorShape OutputShape(const ConvShape& shape);

// Reads a shape from an int32 vector tensor. Returns an error, or "".
std::string ReadShape(const tensorflow::Tensor& sizes, const char* name, tensorflow::TensorShape* shape);

}  // namespace ipu_tf

#endif  // IPU_TF_OPS_TF_CONV_SHAPE_H_
