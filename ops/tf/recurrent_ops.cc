// Joined loops of recurrent layers: IpuLstm and IpuGru over all steps, and their gradients.
#include "../core/products/recurrent.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
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
using tensorflow::shape_inference::DimensionHandle;
using tensorflow::shape_inference::InferenceContext;
using tensorflow::shape_inference::ShapeHandle;

// Base of the kernels of both cells: attributes, and the shapes of operands and results.
template <RecurrentCell Cell>
class RecurrentKernel : public NamedKernel {
 public:
  explicit RecurrentKernel(OpKernelConstruction* context) : NamedKernel(context) {
    OP_REQUIRES_OK(context, context->GetAttr("steps", &steps_));
    OP_REQUIRES_OK(context, context->GetAttr("last_only", &last_only_));
  }

 protected:
  static constexpr bool kIsLstm = Cell == RecurrentCell::kLstm;
  static constexpr int kStates = kIsLstm ? 2 : 1;  // Tensors of a state: h, and c of an LSTM.

  // Returns an error, or "" with the extents that `x` and the matrix of weights of the state give.
  std::string SetShape(const Tensor& x, const Tensor& recurrent, RecurrentShape* s) const {
    if (x.dims() != 3 || recurrent.dims() != 2 || x.NumElements() == 0 || recurrent.NumElements() == 0) {
      return absl::StrCat("x must have steps, batch and features, and `recurrent` units and columns, none of them 0. ",
                          "Received the shapes ", x.shape().DebugString(), " and ", recurrent.shape().DebugString());
    }
    s->cell = Cell;
    s->steps = x.dim_size(0);
    s->batch = x.dim_size(1);
    s->inputs = x.dim_size(2);
    s->units = recurrent.dim_size(0);
    if (s->steps != steps_) return absl::StrCat("x must have ", steps_, " steps. Received: ", s->steps);
    return CheckShape("recurrent", recurrent, {s->units, s->columns()});
  }

  static std::string CheckShape(const char* name, const Tensor& tensor, const TensorShape& shape) {
    if (tensor.shape() == shape) return "";
    return absl::StrCat("`", name, "` must have the shape ", shape.DebugString(),
                        ". Received: ", tensor.shape().DebugString());
  }

  TensorShape Outputs(const RecurrentShape& s) const { return {last_only_ ? 1 : s.steps, s.batch, s.units}; }
  static TensorShape State(const RecurrentShape& s) { return {s.batch, s.units}; }
  static TensorShape States(const RecurrentShape& s) { return {s.steps + 1, s.batch, s.units}; }
  static TensorShape Gates(const RecurrentShape& s) { return {s.steps, s.batch, kRecurrentGates * s.units}; }
  static TensorShape Kernel(const RecurrentShape& s) { return {s.inputs, s.columns()}; }
  static TensorShape Bias(const RecurrentShape& s) {
    if (kIsLstm) return {s.columns()};
    return {2, s.columns()};
  }

  static const float* Read(OpKernelContext* context, int index) { return context->input(index).flat<float>().data(); }

  // Allocates an output; returns nullptr after an error.
  static float* Allocate(OpKernelContext* context, int index, const TensorShape& shape) {
    Tensor* tensor = nullptr;
    const absl::Status status = context->allocate_output(index, shape, &tensor);
    if (!status.ok()) {
      context->SetStatus(status);
      return nullptr;
    }
    return tensor->flat<float>().data();
  }

  int64_t steps_ = 0;
  bool last_only_ = false;
};

template <RecurrentCell Cell>
class Forward : public RecurrentKernel<Cell> {
  using Base = RecurrentKernel<Cell>;
  using Base::Error;
  using Base::kStates;

 public:
  using RecurrentKernel<Cell>::RecurrentKernel;

  void Compute(OpKernelContext* context) override {
    constexpr int kKernel = 1 + kStates;
    RecurrentShape s;
    IPU_TF_CHECK(context, this->SetShape(context->input(0), context->input(kKernel + 1), &s));
    IPU_TF_CHECK(context, this->CheckShape("kernel", context->input(kKernel), this->Kernel(s)));
    IPU_TF_CHECK(context, this->CheckShape("bias", context->input(kKernel + 2), this->Bias(s)));
    for (int i = 0; i < kStates; ++i) {
      IPU_TF_CHECK(context, this->CheckShape(i == 0 ? "h" : "c", context->input(1 + i), this->State(s)));
    }
    float* outputs = this->Allocate(context, 0, this->Outputs(s));
    float *last[2] = {}, *all[2] = {};
    for (int i = 0; i < kStates; ++i) {
      last[i] = this->Allocate(context, 1 + i, this->State(s));
      all[i] = this->Allocate(context, 1 + kStates + i, this->States(s));
    }
    float* gates = this->Allocate(context, 1 + 2 * kStates, this->Gates(s));
    if (!context->status().ok()) return;
    for (int i = 0; i < kStates; ++i) std::copy_n(this->Read(context, 1 + i), s.state(), all[i]);
    const RecurrentOperands operands{this->Read(context, 0), this->Read(context, kKernel),
                                     this->Read(context, kKernel + 1), this->Read(context, kKernel + 2)};
    RecurrentForward(s, operands, {all[0], all[1], gates}, ActiveKernels(), ParallelOf(context));
    for (int i = 0; i < kStates; ++i) std::copy_n(all[i] + s.steps * s.state(), s.state(), last[i]);
    const int64_t steps = this->last_only_ ? 1 : s.steps;
    std::copy_n(all[0] + (s.steps + 1 - steps) * s.state(), steps * s.state(), outputs);
  }
};

template <RecurrentCell Cell>
class Backward : public RecurrentKernel<Cell> {
  using Base = RecurrentKernel<Cell>;
  using Base::Error;
  using Base::kStates;

 public:
  using RecurrentKernel<Cell>::RecurrentKernel;

  void Compute(OpKernelContext* context) override {
    constexpr int kAll = 3, kGates = kAll + kStates, kOutputs = kGates + 1, kLast = kOutputs + 1;
    RecurrentShape s;
    IPU_TF_CHECK(context, this->SetShape(context->input(0), context->input(2), &s));
    IPU_TF_CHECK(context, this->CheckShape("kernel", context->input(1), this->Kernel(s)));
    IPU_TF_CHECK(context, this->CheckShape("gates", context->input(kGates), this->Gates(s)));
    IPU_TF_CHECK(context, this->CheckShape("d_outputs", context->input(kOutputs), this->Outputs(s)));
    for (int i = 0; i < kStates; ++i) {
      IPU_TF_CHECK(context, this->CheckShape("states", context->input(kAll + i), this->States(s)));
      IPU_TF_CHECK(context, this->CheckShape("d_last", context->input(kLast + i), this->State(s)));
    }
    float* states[2] = {};
    for (int i = 0; i < kStates; ++i) states[i] = const_cast<float*>(this->Read(context, kAll + i));
    const RecurrentStates known{states[0], states[1], const_cast<float*>(this->Read(context, kGates))};
    RecurrentGradients gradients{};
    gradients.d_outputs = this->Read(context, kOutputs);
    gradients.last_only = this->last_only_;
    gradients.dx = this->Allocate(context, 0, context->input(0).shape());
    float* of_state[2] = {};
    for (int i = 0; i < kStates; ++i) of_state[i] = this->Allocate(context, 1 + i, this->State(s));
    gradients.dh = of_state[0];
    gradients.dc = of_state[1];
    gradients.d_kernel = this->Allocate(context, 1 + kStates, this->Kernel(s));
    gradients.d_recurrent = this->Allocate(context, 2 + kStates, context->input(2).shape());
    gradients.d_bias = this->Allocate(context, 3 + kStates, this->Bias(s));
    if (!context->status().ok()) return;
    for (int i = 0; i < kStates; ++i) std::copy_n(this->Read(context, kLast + i), s.state(), of_state[i]);
    const RecurrentOperands operands{this->Read(context, 0), this->Read(context, 1), this->Read(context, 2), nullptr};
    RecurrentBackward(s, operands, known, gradients, ActiveKernels(), ParallelOf(context));
  }
};

// Shapes of the results: those of the first inputs, as far as these are known.
template <int States>
absl::Status ForwardShapes(InferenceContext* c) {
  ShapeHandle x, state, first;
  TF_RETURN_IF_ERROR(c->WithRank(c->input(0), 3, &x));
  TF_RETURN_IF_ERROR(c->WithRank(c->input(1), 2, &state));
  int64_t steps = 0;
  bool last_only = false;
  TF_RETURN_IF_ERROR(c->GetAttr("steps", &steps));
  TF_RETURN_IF_ERROR(c->GetAttr("last_only", &last_only));
  const auto stacked = [&](int64_t count) {
    return c->MakeShape({c->MakeDim(count), c->Dim(state, 0), c->Dim(state, 1)});
  };
  c->set_output(0, stacked(last_only ? 1 : steps));
  for (int i = 0; i < States; ++i) {
    c->set_output(1 + i, state);
    c->set_output(1 + States + i, stacked(steps + 1));
  }
  DimensionHandle gates;
  TF_RETURN_IF_ERROR(c->Multiply(c->Dim(state, 1), kRecurrentGates, &gates));
  c->set_output(1 + 2 * States, c->MakeShape({c->MakeDim(steps), c->Dim(state, 0), gates}));
  return absl::OkStatus();
}

template <int States>
absl::Status BackwardShapes(InferenceContext* c) {
  ShapeHandle kernel;
  TF_RETURN_IF_ERROR(c->WithRank(c->input(1), 2, &kernel));
  c->set_output(0, c->input(0));
  for (int i = 0; i < States; ++i) c->set_output(1 + i, c->input(5 + States + i));
  c->set_output(1 + States, kernel);
  c->set_output(2 + States, c->input(2));
  const DimensionHandle columns = c->Dim(kernel, 1);
  c->set_output(3 + States, States == 2 ? c->Vector(columns) : c->Matrix(2, columns));
  return absl::OkStatus();
}

REGISTER_OP("IpuLstm")
    .Input("x: T")
    .Input("h: T")
    .Input("c: T")
    .Input("kernel: T")
    .Input("recurrent: T")
    .Input("bias: T")
    .Output("outputs: T")
    .Output("last_h: T")
    .Output("last_c: T")
    .Output("all_h: T")
    .Output("all_c: T")
    .Output("gates: T")
    .Attr("T: {float}")
    .Attr("steps: int")
    .Attr("last_only: bool = false")
    .SetShapeFn(ForwardShapes<2>)
    .Doc("The loop of an LSTM over x of [steps, batch, features]; with `last_only` outputs has the last step alone.");

REGISTER_OP("IpuLstmGrad")
    .Input("x: T")
    .Input("kernel: T")
    .Input("recurrent: T")
    .Input("all_h: T")
    .Input("all_c: T")
    .Input("gates: T")
    .Input("d_outputs: T")
    .Input("d_last_h: T")
    .Input("d_last_c: T")
    .Output("dx: T")
    .Output("dh: T")
    .Output("dc: T")
    .Output("d_kernel: T")
    .Output("d_recurrent: T")
    .Output("d_bias: T")
    .Attr("T: {float}")
    .Attr("steps: int")
    .Attr("last_only: bool = false")
    .SetShapeFn(BackwardShapes<2>)
    .Doc("The loop of the gradient of IpuLstm.");

REGISTER_OP("IpuGru")
    .Input("x: T")
    .Input("h: T")
    .Input("kernel: T")
    .Input("recurrent: T")
    .Input("bias: T")
    .Output("outputs: T")
    .Output("last_h: T")
    .Output("all_h: T")
    .Output("gates: T")
    .Attr("T: {float}")
    .Attr("steps: int")
    .Attr("last_only: bool = false")
    .SetShapeFn(ForwardShapes<1>)
    .Doc("The loop of a GRU, reset after the product of its state, as that of IpuLstm; two rows of biases.");

REGISTER_OP("IpuGruGrad")
    .Input("x: T")
    .Input("kernel: T")
    .Input("recurrent: T")
    .Input("all_h: T")
    .Input("gates: T")
    .Input("d_outputs: T")
    .Input("d_last_h: T")
    .Output("dx: T")
    .Output("dh: T")
    .Output("d_kernel: T")
    .Output("d_recurrent: T")
    .Output("d_bias: T")
    .Attr("T: {float}")
    .Attr("steps: int")
    .Attr("last_only: bool = false")
    .SetShapeFn(BackwardShapes<1>)
    .Doc("The loop of the gradient of IpuGru.");

REGISTER_KERNEL_BUILDER(Name("IpuLstm").Device(DEVICE_CPU), Forward<RecurrentCell::kLstm>);
REGISTER_KERNEL_BUILDER(Name("IpuLstmGrad").Device(DEVICE_CPU), Backward<RecurrentCell::kLstm>);
REGISTER_KERNEL_BUILDER(Name("IpuGru").Device(DEVICE_CPU), Forward<RecurrentCell::kGru>);
REGISTER_KERNEL_BUILDER(Name("IpuGruGrad").Device(DEVICE_CPU), Backward<RecurrentCell::kGru>);

}  // namespace
}  // namespace ipu_tf
