// The convolution ops and their gradients: IpuConv2D*, IpuDepthwiseConv2dNative*.
#include "../core/convolutions/conv.h"

#include <algorithm>
#include <utility>

#include "conv_shape.h"
#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/op.h"
#include "tile_kernel.h"

namespace ipu_tf {
namespace {

using tensorflow::DEVICE_CPU;
using tensorflow::OpKernelConstruction;
using tensorflow::OpKernelContext;
using tensorflow::Tensor;
using tensorflow::TensorShape;

// One pass of a convolution. The inputs are the image (of the input gradient its shape), the filter (of the filter
// gradient its shape) and, of gradients, that of the output. A joined op may have what follows the product, too: a
// bias, and a ReLU if the attribute says so; a tensor that is added; what left the ReLU whose gradient it is. An input
// gradient may be that of some channels, a filter gradient may give that of the bias. A depthwise convolution is a
// grouped one: its filter [rows, columns, C, multiplier] has the memory layout of a grouped filter [rows, columns, 1,
// C * multiplier].
template <ConvPass Pass, bool Depthwise>
class ConvKernel : public TileKernel {
 public:
  explicit ConvKernel(OpKernelConstruction* context) : TileKernel(context) {
    OP_REQUIRES_OK(context, attributes_.Read(context));
    std::string error = attributes_.Check();
    if (error.empty()) error = ParsePlan(plan_, numerics_.type, &conv_plan_);
    OP_REQUIRES(context, error.empty(), Error(error));
    if (context->HasAttr("relu")) OP_REQUIRES_OK(context, context->GetAttr("relu", &relu_));
    if (context->HasAttr("channels")) {
      OP_REQUIRES_OK(context, context->GetAttr("first_channel", &first_channel_));
      OP_REQUIRES_OK(context, context->GetAttr("channels", &channels_));
    }
    bias_ = PlaceOf("bias");
    addend_ = PlaceOf("addend");
    features_ = PlaceOf("features");
  }

  void Compute(OpKernelContext* context) override {
    TensorShape input, filter;
    ConvShape shape;
    IPU_TF_CHECK(context, ReadShapes(context, &input, &filter));
    IPU_TF_CHECK(context, MakeConvShape(attributes_, input, filter, Depthwise, &shape));
    IPU_TF_CHECK(context, CheckPlan(Pass, conv_plan_, shape));
    if (Pass != ConvPass::kForward) IPU_TF_CHECK(context, CheckOutBackprop(shape, context->input(2).shape()));
    TensorShape result_shape = ResultShape(shape, input, filter);
    if (channels_ > 0) {
      IPU_TF_CHECK(context, CheckChannels(shape));
      result_shape.set_dim(3, channels_);
    }
    Epilogue epilogue;
    IPU_TF_CHECK(context, ReadEpilogue(context, result_shape, &epilogue));
    Tensor *output = nullptr, *bias = nullptr;
    OP_REQUIRES_OK(context, context->allocate_output(0, result_shape, &output));
    if (context->num_outputs() == 2) {
      OP_REQUIRES_OK(context, context->allocate_output(1, TensorShape({shape.out_channels}), &bias));
    }
    const Kernels& kernels = ActiveKernels();
    const Parallel parallel = ParallelOf(context);
    const Operand a(context->input(Pass == ConvPass::kInputGradient ? 1 : 0), kernels, parallel);
    const Operand b(context->input(Pass == ConvPass::kForward ? 1 : 2), kernels, parallel);
    Result result(output);
    const Numerics numerics = CallNumerics();
    if constexpr (Pass == ConvPass::kForward) {
      ConvForward(shape, conv_plan_, numerics, a.data(), b.data(), result.data(), kernels, parallel, epilogue);
    } else if constexpr (Pass == ConvPass::kInputGradient) {
      const float* w = a.data();
      ConvPlan plan = conv_plan_;
      if (channels_ > 0) {
        w += first_channel_ * shape.out_channels;
        shape.filter_channels = std::exchange(shape.in_channels, channels_);
        plan.out_channels = std::min<int64_t>(plan.out_channels, channels_);  // Parts of results, not of sums.
      }
      ConvInputGradient(shape, plan, numerics, w, b.data(), result.data(), kernels, parallel, epilogue);
    } else {
      ConvFilterGradient(shape, conv_plan_, numerics, a.data(), b.data(), result.data(), kernels, parallel,
                         bias == nullptr ? nullptr : bias->flat<float>().data());
    }
    result.Round(numerics.nanoo, kernels, parallel);
  }

 private:
  // Returns an error, or "" with the shapes of image and filter.
  static std::string ReadShapes(OpKernelContext* context, TensorShape* input, TensorShape* filter) {
    if (Pass == ConvPass::kInputGradient) {
      *filter = context->input(1).shape();
      return ReadShape(context->input(0), "input_sizes", input);
    }
    *input = context->input(0).shape();
    if (Pass == ConvPass::kFilterGradient) return ReadShape(context->input(1), "filter_sizes", filter);
    *filter = context->input(1).shape();
    return "";
  }

  static TensorShape ResultShape(const ConvShape& shape, const TensorShape& input, const TensorShape& filter) {
    return Pass == ConvPass::kForward ? OutputShape(shape) : Pass == ConvPass::kInputGradient ? input : filter;
  }

  // Returns an error, or "" if the image has the channels that are asked for.
  std::string CheckChannels(const ConvShape& shape) const {
    if (shape.groups == 1 && first_channel_ >= 0 && first_channel_ + channels_ <= shape.in_channels) return "";
    return "channels are those of an image in one group. Received: channels " + std::to_string(first_channel_) +
           " to " + std::to_string(first_channel_ + channels_) + " of " + std::to_string(shape.in_channels) + " in " +
           std::to_string(shape.groups) + " groups";
  }

  // Returns an error, or "" with what the inputs beside those of the stock op say.
  std::string ReadEpilogue(OpKernelContext* context, const TensorShape& result, Epilogue* epilogue) const {
    std::string error;
    if (bias_ >= 0) {
      epilogue->relu = relu_;
      error = ReadBias(context->input(bias_), result.dim_size(3), &epilogue->bias);
    }
    if (error.empty()) error = ReadLikeResult(context, "addend", addend_, result, &epilogue->addend);
    return error.empty() ? ReadLikeResult(context, "features", features_, result, &epilogue->relu_output) : error;
  }

  // The place of the input of this name, -1 if the op has none.
  int PlaceOf(const char* name) const {
    int place = 0, end = 0;
    return InputRange(name, &place, &end).ok() && place < end ? place : -1;
  }

  // Returns an error, or "" with the data of an input, if the op has it.
  static std::string ReadLikeResult(OpKernelContext* context, const char* name, int place, const TensorShape& result,
                                    const float** data) {
    if (place < 0) return "";
    const Tensor& tensor = context->input(place);
    if (tensor.shape() != result) {
      return name + (" must have the shape of the result, " + result.DebugString()) +
             ". Received: " + tensor.shape().DebugString();
    }
    *data = tensor.flat<float>().data();
    return "";
  }

  ConvAttributes attributes_;
  ConvPlan conv_plan_;
  bool relu_ = false;
  int64_t first_channel_ = 0, channels_ = 0;  // Of the result; 0: all.
  int bias_ = -1, addend_ = -1, features_ = -1;
};

template <bool Depthwise>
using ForwardKernel = ConvKernel<ConvPass::kForward, Depthwise>;
template <bool Depthwise>
using InputGradientKernel = ConvKernel<ConvPass::kInputGradient, Depthwise>;
template <bool Depthwise>
using FilterGradientKernel = ConvKernel<ConvPass::kFilterGradient, Depthwise>;

absl::Status FilterSizesShape(tensorflow::shape_inference::InferenceContext* c) {
  tensorflow::shape_inference::ShapeHandle shape;
  TF_RETURN_IF_ERROR(c->MakeShapeFromShapeTensor(1, &shape));
  TF_RETURN_IF_ERROR(c->WithRank(shape, 4, &shape));
  c->set_output(0, shape);
  return absl::OkStatus();
}

absl::Status InputSizesShape(tensorflow::shape_inference::InferenceContext* c) {
  tensorflow::shape_inference::ShapeHandle shape;
  TF_RETURN_IF_ERROR(c->MakeShapeFromShapeTensor(0, &shape));
  TF_RETURN_IF_ERROR(c->WithRank(shape, 4, &shape));
  c->set_output(0, shape);
  return absl::OkStatus();
}

// The attributes of every convolution, stock and ours.
#define IPU_TF_CONV_ATTRS                                                                                 \
  Attr("T: {half, float}")                                                                                \
      .Attr("strides: list(int)")                                                                         \
      .Attr("padding: {'SAME', 'VALID', 'EXPLICIT'}")                                                     \
      .Attr("explicit_paddings: list(int) = []")                                                          \
      .Attr("data_format: {'NHWC', 'NCHW'} = 'NHWC'")                                                     \
      .Attr("dilations: list(int) = [1, 1, 1, 1]")                                                        \
      .IPU_TF_TILE_ATTRS.Doc(                                                                             \
          "The stock op of this name without Ipu, computed tile by tile as `plan` says: [batch, groups, " \
          "field_rows, field_columns, out_channels, in_channels, kernel_rows, kernel_columns, grain].")

REGISTER_OP("IpuConv2D")
    .Input("input: T")
    .Input("filter: T")
    .Output("output: T")
    .Attr("use_cudnn_on_gpu: bool = true")
    .IPU_TF_CONV_ATTRS.SetShapeFn(tensorflow::shape_inference::Conv2DShapeWithExplicitPadding);

REGISTER_OP("IpuConv2DBackpropInput")
    .Input("input_sizes: int32")
    .Input("filter: T")
    .Input("out_backprop: T")
    .Output("output: T")
    .Attr("use_cudnn_on_gpu: bool = true")
    .IPU_TF_CONV_ATTRS.SetShapeFn(InputSizesShape);

REGISTER_OP("IpuConv2DBackpropInputFused")
    .Input("input_sizes: int32")
    .Input("filter: T")
    .Input("out_backprop: T")
    .Input("bias: biases * T")
    .Input("addend: addends * T")
    .Input("features: masks * T")
    .Output("output: T")
    .Attr("biases: int >= 0 = 0")
    .Attr("addends: int >= 0 = 0")
    .Attr("masks: int >= 0 = 0")
    .Attr("relu: bool = false")
    .Attr("first_channel: int >= 0 = 0")
    .Attr("channels: int >= 0 = 0")
    .Attr("use_cudnn_on_gpu: bool = true")
    .IPU_TF_CONV_ATTRS.SetShapeFn([](tensorflow::shape_inference::InferenceContext* c) {
      TF_RETURN_IF_ERROR(InputSizesShape(c));
      int64_t channels = 0;
      TF_RETURN_IF_ERROR(c->GetAttr("channels", &channels));
      tensorflow::shape_inference::ShapeHandle image = c->output(0);
      if (channels == 0) return absl::OkStatus();
      TF_RETURN_IF_ERROR(c->ReplaceDim(image, 3, c->MakeDim(channels), &image));
      c->set_output(0, image);
      return absl::OkStatus();
    });

REGISTER_OP("IpuConv2DBackpropFilter")
    .Input("input: T")
    .Input("filter_sizes: int32")
    .Input("out_backprop: T")
    .Output("output: T")
    .Attr("use_cudnn_on_gpu: bool = true")
    .IPU_TF_CONV_ATTRS.SetShapeFn(FilterSizesShape);

REGISTER_OP("IpuConv2DBias")
    .Input("input: T")
    .Input("filter: T")
    .Input("bias: T")
    .Output("output: T")
    .Attr("use_cudnn_on_gpu: bool = true")
    .Attr("relu: bool = false")
    .IPU_TF_CONV_ATTRS.SetShapeFn(tensorflow::shape_inference::Conv2DShapeWithExplicitPadding);

REGISTER_OP("IpuConv2DReluGrad")
    .Input("input: T")
    .Input("filter: T")
    .Input("features: T")
    .Output("output: T")
    .Attr("use_cudnn_on_gpu: bool = true")
    .IPU_TF_CONV_ATTRS.SetShapeFn(tensorflow::shape_inference::Conv2DShapeWithExplicitPadding);

REGISTER_OP("IpuConv2DBackpropFilterWithBias")
    .Input("input: T")
    .Input("filter_sizes: int32")
    .Input("out_backprop: T")
    .Output("output: T")
    .Output("bias: T")
    .Attr("use_cudnn_on_gpu: bool = true")
    .IPU_TF_CONV_ATTRS.SetShapeFn([](tensorflow::shape_inference::InferenceContext* c) {
      TF_RETURN_IF_ERROR(FilterSizesShape(c));
      c->set_output(1, c->Vector(c->Dim(c->output(0), 3)));
      return absl::OkStatus();
    });

REGISTER_OP("IpuDepthwiseConv2dNative")
    .Input("input: T")
    .Input("filter: T")
    .Output("output: T")
    .IPU_TF_CONV_ATTRS.SetShapeFn(tensorflow::shape_inference::DepthwiseConv2DNativeShapeWithExplicitPadding);

REGISTER_OP("IpuDepthwiseConv2dNativeBackpropInput")
    .Input("input_sizes: int32")
    .Input("filter: T")
    .Input("out_backprop: T")
    .Output("output: T")
    .IPU_TF_CONV_ATTRS.SetShapeFn(InputSizesShape);

REGISTER_OP("IpuDepthwiseConv2dNativeBackpropFilter")
    .Input("input: T")
    .Input("filter_sizes: int32")
    .Input("out_backprop: T")
    .Output("output: T")
    .IPU_TF_CONV_ATTRS.SetShapeFn(FilterSizesShape);

IPU_TF_REGISTER_TILE_KERNEL("IpuConv2D", ForwardKernel<false>);
IPU_TF_REGISTER_TILE_KERNEL("IpuConv2DBackpropInput", InputGradientKernel<false>);
IPU_TF_REGISTER_TILE_KERNEL("IpuConv2DBackpropFilter", FilterGradientKernel<false>);
IPU_TF_REGISTER_TILE_KERNEL("IpuDepthwiseConv2dNative", ForwardKernel<true>);
IPU_TF_REGISTER_TILE_KERNEL("IpuDepthwiseConv2dNativeBackpropInput", InputGradientKernel<true>);
IPU_TF_REGISTER_TILE_KERNEL("IpuDepthwiseConv2dNativeBackpropFilter", FilterGradientKernel<true>);

// Only float32: with float16 the sum is rounded before the bias is added.
REGISTER_KERNEL_BUILDER(Name("IpuConv2DBias").Device(DEVICE_CPU).TypeConstraint<float>("T"), ForwardKernel<false>);
REGISTER_KERNEL_BUILDER(Name("IpuConv2DReluGrad").Device(DEVICE_CPU).TypeConstraint<float>("T"), ForwardKernel<false>);
REGISTER_KERNEL_BUILDER(Name("IpuConv2DBackpropInputFused").Device(DEVICE_CPU).TypeConstraint<float>("T"),
                        InputGradientKernel<false>);
REGISTER_KERNEL_BUILDER(Name("IpuConv2DBackpropFilterWithBias").Device(DEVICE_CPU).TypeConstraint<float>("T"),
                        FilterGradientKernel<false>);

}  // namespace
}  // namespace ipu_tf
