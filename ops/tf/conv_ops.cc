// The convolution ops and their gradients: IpuConv2D*, IpuDepthwiseConv2dNative*.
#include "../core/conv.h"

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

// A depthwise convolution is a grouped one: its filter [rows, columns, C, multiplier] has the memory layout of a
// grouped filter [rows, columns, 1, C * multiplier].
template <bool Depthwise>
class ConvKernel : public TileKernel {
 public:
  explicit ConvKernel(OpKernelConstruction* context) : TileKernel(context) {
    OP_REQUIRES_OK(context, attributes_.Read(context));
    std::string error = attributes_.Check();
    if (error.empty()) error = ParsePlan(plan_, numerics_.type, &conv_plan_);
    OP_REQUIRES(context, error.empty(), Error(error));
  }

 protected:
  // Returns an error, or "" with the shape of the call.
  std::string Shape(ConvPass pass, const TensorShape& input, const TensorShape& filter, ConvShape* shape) const {
    const std::string error = MakeConvShape(attributes_, input, filter, Depthwise, shape);
    return error.empty() ? CheckPlan(pass, conv_plan_, *shape) : error;
  }

  ConvAttributes attributes_;
  ConvPlan conv_plan_;
};

template <bool Depthwise>
class ForwardKernel : public ConvKernel<Depthwise> {
 public:
  using ConvKernel<Depthwise>::ConvKernel;
  using ConvKernel<Depthwise>::Error;

  void Compute(OpKernelContext* context) override {
    const Tensor& input = context->input(0);
    const Tensor& filter = context->input(1);
    ConvShape shape;
    IPU_TF_CHECK(context, this->Shape(ConvPass::kForward, input.shape(), filter.shape(), &shape));
    Epilogue epilogue;
    if (context->num_inputs() == 3) {
      IPU_TF_CHECK(context, ReadBias(context->input(2), shape.out_channels, &epilogue.bias));
      epilogue.relu = relu_;
    }
    Tensor* output = nullptr;
    OP_REQUIRES_OK(context, context->allocate_output(0, OutputShape(shape), &output));
    const Kernels& kernels = ActiveKernels();
    const Parallel parallel = ParallelOf(context);
    const Operand x(input, kernels, parallel), w(filter, kernels, parallel);
    Result y(output);
    ConvForward(shape, this->conv_plan_, this->CallNumerics(), x.data(), w.data(), y.data(), kernels, parallel,
                epilogue);
    y.Round(this->numerics_.nanoo, kernels, parallel);
  }

 protected:
  bool relu_ = false;
};

// With a third input, the bias, and a ReLU if the attribute says so.
class BiasedForwardKernel : public ForwardKernel<false> {
 public:
  explicit BiasedForwardKernel(OpKernelConstruction* context) : ForwardKernel(context) {
    OP_REQUIRES_OK(context, context->GetAttr("relu", &relu_));
  }
};

// With a fourth input, the gradient of the ReLU that the image came out of.
template <bool Depthwise>
class InputGradientKernel : public ConvKernel<Depthwise> {
 public:
  using ConvKernel<Depthwise>::ConvKernel;
  using ConvKernel<Depthwise>::Error;

  void Compute(OpKernelContext* context) override {
    const Tensor& filter = context->input(1);
    const Tensor& out_backprop = context->input(2);
    TensorShape input;
    IPU_TF_CHECK(context, ReadShape(context->input(0), "input_sizes", &input));
    ConvShape shape;
    IPU_TF_CHECK(context, this->Shape(ConvPass::kInputGradient, input, filter.shape(), &shape));
    IPU_TF_CHECK(context, CheckOutBackprop(shape, out_backprop.shape()));
    Epilogue epilogue;
    if (context->num_inputs() == 4) {
      const Tensor& features = context->input(3);
      OP_REQUIRES(context, features.shape() == input,
                  Error("features must have the shape of the image, " + input.DebugString() +
                        ". Received: " + features.shape().DebugString()));
      epilogue.relu_output = features.flat<float>().data();
    }
    Tensor* output = nullptr;
    OP_REQUIRES_OK(context, context->allocate_output(0, input, &output));
    const Kernels& kernels = ActiveKernels();
    const Parallel parallel = ParallelOf(context);
    const Operand w(filter, kernels, parallel), dy(out_backprop, kernels, parallel);
    Result dx(output);
    ConvInputGradient(shape, this->conv_plan_, this->CallNumerics(), w.data(), dy.data(), dx.data(), kernels, parallel,
                      epilogue);
    dx.Round(this->numerics_.nanoo, kernels, parallel);
  }
};

template <bool Depthwise>
class FilterGradientKernel : public ConvKernel<Depthwise> {
 public:
  using ConvKernel<Depthwise>::ConvKernel;
  using ConvKernel<Depthwise>::Error;

  void Compute(OpKernelContext* context) override {
    const Tensor& input = context->input(0);
    const Tensor& out_backprop = context->input(2);
    TensorShape filter;
    IPU_TF_CHECK(context, ReadShape(context->input(1), "filter_sizes", &filter));
    ConvShape shape;
    IPU_TF_CHECK(context, this->Shape(ConvPass::kFilterGradient, input.shape(), filter, &shape));
    IPU_TF_CHECK(context, CheckOutBackprop(shape, out_backprop.shape()));
    Tensor* output = nullptr;
    OP_REQUIRES_OK(context, context->allocate_output(0, filter, &output));
    Tensor* bias = nullptr;
    if (context->num_outputs() == 2) {
      OP_REQUIRES_OK(context, context->allocate_output(1, TensorShape({shape.out_channels}), &bias));
    }
    const Kernels& kernels = ActiveKernels();
    const Parallel parallel = ParallelOf(context);
    const Operand x(input, kernels, parallel), dy(out_backprop, kernels, parallel);
    Result dw(output);
    ConvFilterGradient(shape, this->conv_plan_, this->CallNumerics(), x.data(), dy.data(), dw.data(), kernels, parallel,
                       bias == nullptr ? nullptr : bias->flat<float>().data());
    dw.Round(this->numerics_.nanoo, kernels, parallel);
  }
};

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

REGISTER_OP("IpuConv2DBackpropInputRelu")
    .Input("input_sizes: int32")
    .Input("filter: T")
    .Input("out_backprop: T")
    .Input("features: T")
    .Output("output: T")
    .Attr("use_cudnn_on_gpu: bool = true")
    .IPU_TF_CONV_ATTRS.SetShapeFn(InputSizesShape);

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
REGISTER_KERNEL_BUILDER(Name("IpuConv2DBias").Device(DEVICE_CPU).TypeConstraint<float>("T"), BiasedForwardKernel);
REGISTER_KERNEL_BUILDER(Name("IpuConv2DBackpropInputRelu").Device(DEVICE_CPU).TypeConstraint<float>("T"),
                        InputGradientKernel<false>);
REGISTER_KERNEL_BUILDER(Name("IpuConv2DBackpropFilterWithBias").Device(DEVICE_CPU).TypeConstraint<float>("T"),
                        FilterGradientKernel<false>);

}  // namespace
}  // namespace ipu_tf
