// IpuCallApplication: a call of a program that runs on a thread of its own. It gives the program an element of its
// infeed and takes the next one of its outfeed.
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "feeds.h"
#include "output_shapes.h"
#include "tensorflow/core/framework/cancellation.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace ipu_tf {
namespace {

using tensorflow::AsyncOpKernel;
using tensorflow::OpKernelConstruction;
using tensorflow::OpKernelContext;
using tensorflow::PartialTensorShape;

// Asynchronous: the program needs TensorFlow's threads while the call waits, and there may be a single one.
class IpuCallApplication : public AsyncOpKernel {
 public:
  explicit IpuCallApplication(OpKernelConstruction* context) : AsyncOpKernel(context) {
    OP_REQUIRES_OK(context, context->GetAttr("infeed", &infeed_));
    OP_REQUIRES_OK(context, context->GetAttr("outfeed", &outfeed_));
    OP_REQUIRES_OK(context, context->GetAttr("output_shapes", &shapes_));
  }

  void ComputeAsync(OpKernelContext* context, DoneCallback done) override {
    const std::shared_ptr<Outfeed> outfeed = FindOutfeed(outfeed_);
    const std::shared_ptr<Infeed> infeed = FindInfeed(infeed_);
    OP_REQUIRES_ASYNC(context, outfeed != nullptr && (infeed != nullptr || context->num_inputs() == 0),
                      absl::NotFoundError("The application has ended."), done);
    Element element;
    for (int i = 0; i < context->num_inputs(); ++i) element.push_back(context->input(i));
    if (context->num_outputs() == 0) {  // Nothing tells when the program has used the element.
      OP_REQUIRES_OK_ASYNC(context, outfeed->end(), done);
      infeed->Add(std::move(element), [] {});
      done();
      return;
    }
    tensorflow::CancellationManager* manager = context->cancellation_manager();
    const auto token = manager == nullptr ? 0 : manager->get_cancellation_token();
    const int64_t number = outfeed->NumberOfAwait();
    if (manager != nullptr) {
      const bool runs = manager->RegisterCallback(token, [outfeed, number] { outfeed->Cancel(number); });
      OP_REQUIRES_ASYNC(context, runs, absl::CancelledError("The call of the application was cancelled."), done);
    }
    const auto enter = [&] {
      outfeed->Await(number, [this, context, manager, token, done](absl::StatusOr<Element> element) {
        if (manager != nullptr) manager->TryDeregisterCallback(token);
        const absl::Status status = element.ok() ? Give(context, *element) : element.status();
        if (!status.ok()) context->SetStatus(status);
        done();
      });
    };
    if (context->num_inputs() == 0) {
      enter();
    } else {
      infeed->Add(std::move(element), enter);  // Calls are answered in the order of their inputs.
    }
    outfeed->Answer();
  }

 private:
  absl::Status Give(OpKernelContext* context, const Element& element) const {
    for (int i = 0; i < context->num_outputs(); ++i) {
      if (!shapes_[i].IsCompatibleWith(element[i].shape())) {
        return absl::InvalidArgumentError(absl::StrCat("Output ", i, " of the application should have shape ",
                                                       shapes_[i].DebugString(),
                                                       ". Received: ", element[i].shape().DebugString(), "."));
      }
      context->set_output(i, element[i]);
    }
    return absl::OkStatus();
  }

  int64_t infeed_ = 0;
  int64_t outfeed_ = 0;
  std::vector<PartialTensorShape> shapes_;
};

REGISTER_OP("IpuCallApplication")
    .Input("inputs: input_types")
    .Output("outputs: output_types")
    .Attr("input_types: list(type) >= 0")
    .Attr("output_types: list(type) >= 0")
    .Attr("output_shapes: list(shape) >= 0")
    .Attr("infeed: int")
    .Attr("outfeed: int")
    .SetIsStateful()
    .SetShapeFn(OutputShapes)
    .Doc("Gives the program of an infeed and an outfeed, by their numbers, an element, and returns its next one.");

REGISTER_KERNEL_BUILDER(Name("IpuCallApplication").Device(tensorflow::DEVICE_CPU), IpuCallApplication);

}  // namespace
}  // namespace ipu_tf
