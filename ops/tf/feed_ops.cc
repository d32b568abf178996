// IpuDequeue and IpuEnqueue, the feeds' ends on the device; IpuOutfeedTake, the outfeed's end on the host;
// IpuCheckFeed, the error of a deletion.
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "feeds.h"
#include "output_shapes.h"
#include "tensorflow/core/framework/cancellation.h"
#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/shape_inference.h"
#include "tensorflow/core/framework/tensor_util.h"

namespace ipu_tf {
namespace {

using tensorflow::AsyncOpKernel;
using tensorflow::DEVICE_CPU;
using tensorflow::OpInputList;
using tensorflow::OpKernel;
using tensorflow::OpKernelConstruction;
using tensorflow::OpKernelContext;
using tensorflow::Tensor;
using tensorflow::TensorShape;
using tensorflow::shape_inference::InferenceContext;

// Copies tensors whose memory may be XLA's, which changes after the call.
Element CopyOf(const OpInputList& tensors) {
  Element element;
  element.reserve(tensors.size());
  for (const Tensor& tensor : tensors) element.push_back(tensorflow::tensor::DeepCopy(tensor));
  return element;
}

absl::Status NoQueue(const char* kind, int64_t number) {
  return absl::NotFoundError(absl::StrCat(kind, " with id=", number, " does not exist: it was deleted."));
}

// A scalar input; a number of a queue or of a replica.
int64_t Scalar(OpKernelContext* context, int input) { return context->input(input).scalar<int32_t>()(); }

class IpuDequeue : public AsyncOpKernel {
 public:
  explicit IpuDequeue(OpKernelConstruction* context) : AsyncOpKernel(context) {
    OP_REQUIRES_OK(context, context->GetAttr("replicas", &replicas_));
    OP_REQUIRES_OK(context, context->GetAttr("output_shapes", &shapes_));
  }

  void ComputeAsync(OpKernelContext* context, DoneCallback done) override {
    const std::shared_ptr<Infeed> infeed = FindInfeed(Scalar(context, 0));
    OP_REQUIRES_ASYNC(context, infeed != nullptr, NoQueue("Infeed", Scalar(context, 0)), done);
    const int64_t replica = Scalar(context, 1);
    OP_REQUIRES_ASYNC(
        context, 0 <= replica && replica < replicas_,
        absl::InvalidArgumentError(absl::StrCat("A program of ", replicas_, " replicas has no replica ", replica, ".")),
        done);
    tensorflow::CancellationManager* manager = context->cancellation_manager();  // None in XLA's programs.
    const auto token = manager == nullptr ? 0 : manager->get_cancellation_token();
    const int64_t take = infeed->NumberOfTake();
    if (manager != nullptr) {
      const bool runs = manager->RegisterCallback(token, [infeed, take] { infeed->Cancel(take); });
      OP_REQUIRES_ASYNC(context, runs, absl::CancelledError("The program was cancelled."), done);
    }
    infeed->Take(take, static_cast<int>(replica), replicas_,
                 [this, context, manager, token, done](absl::StatusOr<Element> element) {
                   if (manager != nullptr) manager->TryDeregisterCallback(token);
                   const absl::Status status = element.ok() ? Give(context, *element) : element.status();
                   if (!status.ok()) context->SetStatus(status);
                   done();
                 });
  }

 private:
  absl::Status Give(OpKernelContext* context, const Element& element) const {
    for (int i = 0; i < context->num_outputs(); ++i) {
      if (i >= static_cast<int>(element.size()) || element[i].shape() != shapes_[i]) {
        return absl::InvalidArgumentError(absl::StrCat(
            "Component ", i, " of an element of the infeed should have shape ", shapes_[i].DebugString(),
            ". Received: ", i < static_cast<int>(element.size()) ? element[i].shape().DebugString() : "nothing", "."));
      }
      context->set_output(i, element[i]);
    }
    return absl::OkStatus();
  }

  int replicas_ = 1;
  std::vector<TensorShape> shapes_;
};

class IpuEnqueue : public OpKernel {
 public:
  explicit IpuEnqueue(OpKernelConstruction* context) : OpKernel(context) {
    OP_REQUIRES_OK(context, context->GetAttr("replicas", &replicas_));
  }

  void Compute(OpKernelContext* context) override {
    OpInputList tensors;
    OP_REQUIRES_OK(context, context->input_list("tensors", &tensors));
    const std::shared_ptr<Outfeed> outfeed = FindOutfeed(Scalar(context, 0));
    OP_REQUIRES(context, outfeed != nullptr, NoQueue("Outfeed", Scalar(context, 0)));
    const int64_t replica = Scalar(context, 1);
    OP_REQUIRES(context, -1 <= replica && replica < replicas_,
                absl::InvalidArgumentError(
                    absl::StrCat("A program of ", replicas_, " replicas has no replica ", replica, ".")));
    OP_REQUIRES_OK(context, outfeed->Add(static_cast<int>(replica), replicas_, CopyOf(tensors)));
  }

 private:
  int replicas_ = 1;
};

class IpuOutfeedTake : public OpKernel {
 public:
  explicit IpuOutfeedTake(OpKernelConstruction* context) : OpKernel(context) {
    OP_REQUIRES_OK(context, context->GetAttr("limit", &limit_));
    OP_REQUIRES_OK(context, context->GetAttr("stacked", &stacked_));
    OP_REQUIRES_OK(context, context->GetAttr("shapes", &shapes_));
  }

  void Compute(OpKernelContext* context) override {
    const std::shared_ptr<Outfeed> outfeed = FindOutfeed(context->input(0).scalar<int64_t>()());
    OP_REQUIRES(context, outfeed != nullptr, NoQueue("Outfeed", context->input(0).scalar<int64_t>()()));
    const std::vector<std::vector<Element>> rows = outfeed->Take(limit_);
    OP_REQUIRES(context, stacked_ || !rows.empty(),
                absl::FailedPreconditionError("Trying to get the last value from an empty outfeed queue."));
    const int64_t replicas = rows.empty() ? outfeed->replicas() : static_cast<int64_t>(rows[0].size());
    for (int i = 0; i < context->num_outputs(); ++i) {
      const TensorShape element = rows.empty() ? shapes_[i] : rows[0][0][i].shape();
      TensorShape shape;
      if (stacked_) shape.AddDim(static_cast<int64_t>(rows.size()));
      if (replicas > 1) shape.AddDim(replicas);
      shape.AppendShape(element);
      Tensor* result = nullptr;
      OP_REQUIRES_OK(context, context->allocate_output(i, shape, &result));
      char* place = static_cast<char*>(result->data());
      for (const std::vector<Element>& row : rows) {
        for (const Element& one : row) {
          const Tensor& part = one[i];
          OP_REQUIRES(context, part.shape() == element && part.dtype() == result->dtype(),
                      absl::FailedPreconditionError(absl::StrCat(
                          "The elements of the outfeed differ in shape or type: ", element.DebugString(), " and ",
                          part.shape().DebugString(), ". Dequeue before a program that enqueues others runs.")));
          std::memcpy(place, part.data(), part.TotalBytes());
          place += part.TotalBytes();
        }
      }
    }
  }

 private:
  int64_t limit_ = -1;
  bool stacked_ = true;
  std::vector<TensorShape> shapes_;
};

class IpuCheckFeed : public OpKernel {
 public:
  explicit IpuCheckFeed(OpKernelConstruction* context) : OpKernel(context) {
    OP_REQUIRES_OK(context, context->GetAttr("kind", &kind_));
    OP_REQUIRES_OK(context, context->GetAttr("cause", &cause_));
  }

  void Compute(OpKernelContext* context) override {
    OP_REQUIRES(context, context->input(1).scalar<bool>()(),
                absl::NotFoundError(absl::StrCat(kind_, " with id=", Scalar(context, 0), " does not exist: ", cause_)));
  }

 private:
  std::string kind_;
  std::string cause_;
};

absl::Status UnknownShapes(InferenceContext* context) {
  for (int i = 0; i < context->num_outputs(); ++i) context->set_output(i, context->UnknownShape());
  return absl::OkStatus();
}

REGISTER_OP("IpuDequeue")
    .Input("feed: int32")
    .Input("replica: int32")
    .Output("components: output_types")
    .Attr("output_types: list(type) >= 1")
    .Attr("output_shapes: list(shape) >= 1")
    .Attr("replicas: int >= 1 = 1")
    .SetIsStateful()
    .SetShapeFn(OutputShapes)
    .Doc("Returns the next element of a replica from the infeed of number `feed`.");

REGISTER_OP("IpuEnqueue")
    .Input("feed: int32")
    .Input("replica: int32")
    .Input("tensors: T")
    .Attr("T: list(type) >= 1")
    .Attr("replicas: int >= 1 = 1")
    .SetIsStateful()
    .SetShapeFn([](InferenceContext*) { return absl::OkStatus(); })
    .Doc("Adds an element of a replica to the outfeed of number `feed`; with replica -1 the replicas take turns.");

REGISTER_OP("IpuOutfeedTake")
    .Input("feed: int64")
    .Output("components: T")
    .Attr("T: list(type) >= 1")
    .Attr("shapes: list(shape) >= 1")
    .Attr("limit: int = -1")
    .Attr("stacked: bool = true")
    .SetIsStateful()
    .SetShapeFn(UnknownShapes)
    .Doc("Moves elements out of an outfeed, stacked on a first axis, or the only one without that axis.");

REGISTER_OP("IpuCheckFeed")
    .Input("feed: int32")
    .Input("exists: bool")
    .Attr("kind: string")
    .Attr("cause: string")
    .SetIsStateful()
    .SetShapeFn([](InferenceContext*) { return absl::OkStatus(); })
    .Doc("Fails if a queue does not exist.");

REGISTER_KERNEL_BUILDER(Name("IpuDequeue").Device(DEVICE_CPU), IpuDequeue);
REGISTER_KERNEL_BUILDER(Name("IpuEnqueue").Device(DEVICE_CPU), IpuEnqueue);
REGISTER_KERNEL_BUILDER(Name("IpuOutfeedTake").Device(DEVICE_CPU), IpuOutfeedTake);
REGISTER_KERNEL_BUILDER(Name("IpuCheckFeed").Device(DEVICE_CPU), IpuCheckFeed);

}  // namespace
}  // namespace ipu_tf
