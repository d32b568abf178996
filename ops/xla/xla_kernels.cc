// How XLA compiles the tile ops: each becomes a custom call that runs the op's own CPU kernel, so that a jitted
// function computes the same bits as one that is not.
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "host_call.h"
#include "tensorflow/compiler/tf2xla/type_util.h"
#include "tensorflow/compiler/tf2xla/xla_compiler.h"
#include "tensorflow/compiler/tf2xla/xla_op_kernel.h"
#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/node_def.pb.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/shape_inference.h"
#include "tensorflow/core/platform/protobuf.h"
#include "tensorflow/core/public/version.h"
#include "xla/hlo/builder/xla_builder.h"
#include "xla/shape_util.h"

namespace ipu_tf {
namespace {

using tensorflow::NodeDef;
using tensorflow::PartialTensorShape;
using tensorflow::Tensor;
using tensorflow::TensorShape;
using tensorflow::TensorShapeProto;
using tensorflow::XlaOpKernelContext;
using tensorflow::shape_inference::InferenceContext;

// The device on which TensorFlow compiles for the host's CPU. The kernels are registered on it directly, because
// REGISTER_XLA_OP has no effect in a library that is loaded after the first function was jitted.
constexpr char kDevice[] = "XLA_CPU_JIT";

// The attribute dictionary of the call that runs `node`.
std::string CallAttributes(NodeDef node) {
  node.clear_device();
  node.clear_experimental_debug_info();
  tensorflow::protobuf::TextFormat::Printer printer;
  printer.SetSingleLineMode(true);
  std::string text;
  printer.PrintToString(node, &text);
  const std::string escaped = absl::StrReplaceAll(text, {{"\\", "\\\\"}, {"\"", "\\\""}});
  return std::string("{") + kHostCallNode + " = \"" + escaped + "\"}";
}

// An op whose results depend on more than its operands must not be merged with its like or moved out of a loop.
bool HasState(const NodeDef& node, const tensorflow::OpDef& op) {
  const auto rounding = node.attr().find("rounding");
  return op.is_stateful() || (rounding != node.attr().end() && rounding->second.s() == "stochastic");
}

// The operand of an op of one result whose memory the result takes: weights are updated where they lie. -1: none.
int OperandInPlace(const NodeDef& node) {
  const std::string& op = node.op();
  if (op == "IpuMatMulUpdate") return 2;
  if (op == "IpuAdamUpdate" || op == "IpuScaledUpdate") return 0;
  const auto add = node.attr().find("add");
  return op == "IpuScaledDifference" && add != node.attr().end() && add->second.b() ? 1 : -1;
}

class HostCallKernel : public tensorflow::XlaOpKernel {
 public:
  explicit HostCallKernel(tensorflow::OpKernelConstruction* context) : HostCallKernel(context, context->def()) {}

  void Compile(XlaOpKernelContext* context) override {
    std::vector<xla::XlaOp> operands;
    std::vector<xla::Shape> operand_shapes, result_shapes;
    for (int i = 0; i < context->num_inputs(); ++i) {
      operands.push_back(context->Input(i));
      OP_REQUIRES_VALUE(const xla::Shape shape, context, context->InputXlaShape(i));
      operand_shapes.push_back(xla::ShapeUtil::MakeShapeWithDescendingLayout(shape.element_type(), shape.dimensions()));
    }
    OP_REQUIRES_OK(context, ResultShapes(context, &result_shapes));

    const bool single = result_shapes.size() == 1;
    std::vector<std::pair<xla::ShapeIndex, std::pair<int64_t, xla::ShapeIndex>>> in_place;
    if (const int operand = OperandInPlace(node_); operand >= 0) in_place.push_back({{}, {operand, {}}});
    const xla::XlaOp call = xla::CustomCallWithLayout(
        context->builder(), kHostCallTarget, operands,
        single ? result_shapes[0] : xla::ShapeUtil::MakeTupleShape(result_shapes), operand_shapes,
        CallAttributes(node_), HasState(node_, op_->op_def), in_place, nullptr, xla::CustomCallSchedule::SCHEDULE_NONE,
        xla::CustomCallApiVersion::API_VERSION_TYPED_FFI);
    for (int i = 0; i < context->num_outputs(); ++i) {
      context->SetOutput(i, single ? call : xla::GetTupleElement(call, i));
    }
  }

 protected:
  // Runs `node`, which may be another than the one that is compiled, on its operands.
  HostCallKernel(tensorflow::OpKernelConstruction* context, const NodeDef& node) : XlaOpKernel(context), node_(node) {
    OP_REQUIRES_OK(context, tensorflow::OpRegistry::Global()->LookUp(node_.op(), &op_));
  }

 private:
  // What the op's shape function says, given the values of those inputs that are known now.
  absl::Status ResultShapes(XlaOpKernelContext* context, std::vector<xla::Shape>* shapes) const {
    const int count = context->num_inputs();
    std::vector<PartialTensorShape> inputs;
    std::vector<std::optional<Tensor>> values(count);
    std::vector<const Tensor*> known(count, nullptr);
    for (int i = 0; i < count; ++i) {
      TF_ASSIGN_OR_RETURN(const xla::Shape shape, context->InputXlaShape(i));
      inputs.emplace_back(shape.dimensions());
      const tensorflow::DataType type = context->input_type(i);
      if (type != tensorflow::DT_INT32 && type != tensorflow::DT_INT64) continue;  // Not a size.
      // XLA fails, instead of returning no value, if an input comes from a custom call. Where a shape needs the value,
      // the error below says so.
      const auto resolved = context->InputExpression(i).ResolveConstant(context->compiler()->client());
      if (resolved.ok()) values[i] = *resolved;
      if (values[i].has_value()) known[i] = &*values[i];
    }
    InferenceContext inference(TF_GRAPH_DEF_VERSION, node_, op_->op_def, inputs, known, {}, {});
    TF_RETURN_IF_ERROR(inference.construction_status());
    TF_RETURN_IF_ERROR(inference.Run(op_->shape_inference_fn));
    for (int i = 0; i < inference.num_outputs(); ++i) {
      TensorShapeProto proto;
      inference.ShapeHandleToProto(inference.output(i), &proto);
      TensorShape shape;
      if (!PartialTensorShape(proto).AsTensorShape(&shape)) {
        return absl::InvalidArgumentError(
            absl::StrCat(type_string(), " '", name(),
                         "': XLA needs the shape of the result when it compiles the op; give "
                         "sizes as constants. Received a result of shape ",
                         PartialTensorShape(proto).DebugString()));
      }
      xla::PrimitiveType type;
      TF_RETURN_IF_ERROR(tensorflow::DataTypeToPrimitiveType(output_type(i), &type));
      shapes->push_back(xla::ShapeUtil::MakeShapeWithDescendingLayout(type, shape.dim_sizes()));
    }
    return absl::OkStatus();
  }

  const NodeDef node_;
  const tensorflow::OpRegistrationData* op_;
};

REGISTER_OP("IpuHostKernel")
    .Input("operands: Tin")
    .Output("results: Tout")
    .Attr("Tin: list(type) >= 1")
    .Attr("Tout: list(type) >= 1")
    .Attr("node: string")
    .SetShapeFn(tensorflow::shape_inference::UnknownShape)
    .Doc(
        "Runs TensorFlow's CPU kernel of `node`, a serialized NodeDef, in a program that XLA compiles. Where XLA's own "
        "kernel gives other numbers, as for random ones, the program keeps those of a graph.");

class HostKernel : public HostCallKernel {
 public:
  explicit HostKernel(tensorflow::OpKernelConstruction* context) : HostCallKernel(context, InnerNode(context)) {}

 private:
  static NodeDef InnerNode(tensorflow::OpKernelConstruction* context) {
    std::string serialized;
    NodeDef node;
    if (const absl::Status status = context->GetAttr("node", &serialized); !status.ok()) context->CtxFailure(status);
    if (!node.ParseFromString(serialized)) {
      context->CtxFailure(absl::InvalidArgumentError("IpuHostKernel: `node` is not a serialized NodeDef."));
    }
    return node;
  }
};

#define IPU_TF_REGISTER_HOST_CALL(op) REGISTER_KERNEL_BUILDER(Name(op).Device(kDevice), HostCallKernel)

IPU_TF_REGISTER_HOST_CALL("IpuMatMul");
IPU_TF_REGISTER_HOST_CALL("IpuMatMulBias");
IPU_TF_REGISTER_HOST_CALL("IpuMatMulFused");
IPU_TF_REGISTER_HOST_CALL("IpuMatMulUpdate");
IPU_TF_REGISTER_HOST_CALL("IpuArgMax");
IPU_TF_REGISTER_HOST_CALL("IpuBatchMatMul");
IPU_TF_REGISTER_HOST_CALL("IpuBatchMatMulV3");
IPU_TF_REGISTER_HOST_CALL("IpuBiasAddGrad");
IPU_TF_REGISTER_HOST_CALL("IpuCast");
IPU_TF_REGISTER_HOST_CALL("IpuConv2D");
IPU_TF_REGISTER_HOST_CALL("IpuConv2DBias");
IPU_TF_REGISTER_HOST_CALL("IpuConv2DReluGrad");
IPU_TF_REGISTER_HOST_CALL("IpuConv2DBackpropInput");
IPU_TF_REGISTER_HOST_CALL("IpuConv2DBackpropInputFused");
IPU_TF_REGISTER_HOST_CALL("IpuConv2DBackpropFilter");
IPU_TF_REGISTER_HOST_CALL("IpuConv2DBackpropFilterWithBias");
IPU_TF_REGISTER_HOST_CALL("IpuDepthwiseConv2dNative");
IPU_TF_REGISTER_HOST_CALL("IpuDepthwiseConv2dNativeBackpropInput");
IPU_TF_REGISTER_HOST_CALL("IpuDepthwiseConv2dNativeBackpropFilter");
IPU_TF_REGISTER_HOST_CALL("IpuDequeue");
IPU_TF_REGISTER_HOST_CALL("IpuDropoutMask");
IPU_TF_REGISTER_HOST_CALL("IpuEinsum");
IPU_TF_REGISTER_HOST_CALL("IpuEnqueue");
IPU_TF_REGISTER_HOST_CALL("IpuFloatingPointCheck");
IPU_TF_REGISTER_HOST_CALL("IpuGatherRows");
IPU_TF_REGISTER_HOST_CALL("IpuGatherSegmentSum");
IPU_TF_REGISTER_HOST_CALL("IpuGelu");
IPU_TF_REGISTER_HOST_CALL("IpuGeluGrad");
IPU_TF_REGISTER_HOST_CALL("IpuRelu6Grad");
IPU_TF_REGISTER_HOST_CALL("IpuGru");
IPU_TF_REGISTER_HOST_CALL("IpuGruGrad");
IPU_TF_REGISTER_HOST_CALL("IpuIndexCheck");
IPU_TF_REGISTER_HOST_CALL("IpuLayerNorm");
IPU_TF_REGISTER_HOST_CALL("IpuLayerNormGrad");
IPU_TF_REGISTER_HOST_CALL("IpuLstm");
IPU_TF_REGISTER_HOST_CALL("IpuLstmGrad");
IPU_TF_REGISTER_HOST_CALL("IpuMaskedScale");
IPU_TF_REGISTER_HOST_CALL("IpuMaxPoolGrad");
IPU_TF_REGISTER_HOST_CALL("IpuColumnDots");
IPU_TF_REGISTER_HOST_CALL("IpuColumnSums");
IPU_TF_REGISTER_HOST_CALL("IpuMoments");
IPU_TF_REGISTER_HOST_CALL("IpuNonfiniteReplay");
IPU_TF_REGISTER_HOST_CALL("IpuNormGradient");
IPU_TF_REGISTER_HOST_CALL("IpuReshapedMatMulBias");
IPU_TF_REGISTER_HOST_CALL("IpuScaleShift");
IPU_TF_REGISTER_HOST_CALL("IpuScaleShiftAdd");
IPU_TF_REGISTER_HOST_CALL("IpuScaledDifference");
IPU_TF_REGISTER_HOST_CALL("IpuAdamStep");
IPU_TF_REGISTER_HOST_CALL("IpuAdamUpdate");
IPU_TF_REGISTER_HOST_CALL("IpuScaledUpdate");
IPU_TF_REGISTER_HOST_CALL("IpuSwapRows");
IPU_TF_REGISTER_HOST_CALL("IpuTreeSum");
IPU_TF_REGISTER_HOST_CALL("IpuSegmentSum");
IPU_TF_REGISTER_HOST_CALL("IpuSoftmax");
IPU_TF_REGISTER_HOST_CALL("IpuSoftmaxDropout");
IPU_TF_REGISTER_HOST_CALL("IpuSoftmaxDropoutGrad");
IPU_TF_REGISTER_HOST_CALL("IpuSoftmaxGrad");
IPU_TF_REGISTER_HOST_CALL("IpuTransposedMatMul");
IPU_TF_REGISTER_HOST_CALL("IpuSparseSoftmaxLoss");
IPU_TF_REGISTER_HOST_CALL("IpuStatefulDropoutMask");
IPU_TF_REGISTER_HOST_CALL("IpuStatelessUserOp");
IPU_TF_REGISTER_HOST_CALL("IpuUserOp");
REGISTER_KERNEL_BUILDER(Name("IpuHostKernel").Device(kDevice), HostKernel);

}  // namespace
}  // namespace ipu_tf
