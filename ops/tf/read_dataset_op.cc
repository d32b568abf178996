// IpuReadDataset: reads a dataset into an infeed, element by element, without TensorFlow's executor around each.
// IpuKeepDataset: keeps a dataset of a session until the process ends.
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "feeds.h"
#include "tensorflow/core/data/root_dataset.h"
#include "tensorflow/core/framework/cancellation.h"
#include "tensorflow/core/framework/dataset.h"
#include "tensorflow/core/framework/function_handle_cache.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/resource_mgr.h"
#include "tensorflow/core/framework/shape_inference.h"

namespace ipu_tf {
namespace {

using tensorflow::OpKernelContext;
using tensorflow::Tensor;
using tensorflow::data::DatasetBase;
using tensorflow::data::IteratorBase;
using tensorflow::data::IteratorContext;

constexpr char kEnd[] = "End of sequence: the dataset of the infeed has no more elements.";

// Blocks the thread that runs it until the dataset or the pass has ended, so it runs eagerly, on a thread of its own.
class IpuReadDataset : public tensorflow::OpKernel {
 public:
  using OpKernel::OpKernel;

  void Compute(OpKernelContext* context) override {
    const std::shared_ptr<Infeed> infeed = FindInfeed(context->input(1).scalar<int64_t>()());
    if (infeed == nullptr) return;  // Deleted before it was read.
    OP_REQUIRES_OK(context, Read(context, infeed.get(), context->input(2).scalar<int64_t>()()));
  }

 private:
  absl::Status Read(OpKernelContext* context, Infeed* infeed, int64_t pass) {
    if (!infeed->WaitUntilWanted(pass)) return absl::OkStatus();
    DatasetBase* given = nullptr;
    TF_RETURN_IF_ERROR(tensorflow::data::GetDatasetFromVariantTensor(context->input(0), &given));
    IteratorContext::Params params(context);
    tensorflow::FunctionHandleCache functions(params.flr);
    tensorflow::ResourceMgr resources;
    tensorflow::CancellationManager cancellation(context->cancellation_manager());
    params.function_handle_cache = &functions;
    params.resource_mgr = &resources;
    params.cancellation_manager = &cancellation;
    IteratorContext reading(std::move(params));
    DatasetBase* dataset = nullptr;
    TF_RETURN_IF_ERROR(tensorflow::data::FinalizeDataset(context, given, &dataset));
    const tensorflow::core::ScopedUnref unref(dataset);
    std::unique_ptr<IteratorBase> iterator;
    TF_RETURN_IF_ERROR(dataset->MakeIterator(&reading, /*parent=*/nullptr, "IpuReadDataset", &iterator));
    do {
      bool is_wanted = true;
      while (is_wanted) {
        std::vector<Tensor> components;
        bool at_end = false;
        const absl::Status status = iterator->GetNext(&reading, &components, &at_end);
        if (!status.ok() || at_end) {
          // Programs learn of it before the iterator ends, which may wait for threads of the dataset.
          infeed->End(pass, status.ok() ? absl::OutOfRangeError(kEnd) : status);
          return absl::OkStatus();
        }
        is_wanted = infeed->Push(pass, std::move(components));
      }
    } while (infeed->WaitUntilWanted(pass));
    return absl::OkStatus();
  }
};

REGISTER_OP("IpuReadDataset")
    .Input("dataset: variant")
    .Input("feed: int64")
    .Input("pass: int64")
    .SetIsStateful()
    .SetShapeFn([](tensorflow::shape_inference::InferenceContext*) { return absl::OkStatus(); })
    .Doc("Reads a dataset into the pass of an infeed, as far as programs take elements; returns at its end.");

REGISTER_KERNEL_BUILDER(Name("IpuReadDataset").Device(tensorflow::DEVICE_CPU), IpuReadDataset);

// A dataset that is freed deletes its caches and shuffles' seeds from the resources of the session that made it,
// without a look whether the session still exists. So one that leaves its session is never freed; its tensors are the
// session's.
class IpuKeepDataset : public tensorflow::OpKernel {
 public:
  using OpKernel::OpKernel;

  void Compute(OpKernelContext* context) override {
    DatasetBase* dataset = nullptr;
    OP_REQUIRES_OK(context, tensorflow::data::GetDatasetFromVariantTensor(context->input(0), &dataset));
    dataset->Ref();
  }
};

REGISTER_OP("IpuKeepDataset")
    .Input("dataset: variant")
    .SetIsStateful()
    .SetShapeFn([](tensorflow::shape_inference::InferenceContext*) { return absl::OkStatus(); })
    .Doc("Keeps a dataset until the process ends: one that leaves the session whose resources it uses.");

REGISTER_KERNEL_BUILDER(Name("IpuKeepDataset").Device(tensorflow::DEVICE_CPU), IpuKeepDataset);

}  // namespace
}  // namespace ipu_tf
