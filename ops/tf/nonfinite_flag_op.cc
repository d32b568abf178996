// IpuNonfiniteFlag: whether results are the first of a program to hold a NaN or an infinity.
#include <map>
#include <mutex>

#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/shape_inference.h"

#include "float_scan.h"

namespace ipu_tf {
namespace {

using tensorflow::DEVICE_CPU;
using tensorflow::OpInputList;
using tensorflow::OpKernelConstruction;
using tensorflow::OpKernelContext;
using tensorflow::Tensor;

// What is known of the runs of one program so far.
struct Runs {
  int64_t count = 0;
  bool nan = false;
  bool infinity = false;
};

class IpuNonfiniteFlag : public tensorflow::OpKernel {
 public:
  explicit IpuNonfiniteFlag(OpKernelConstruction* context) : OpKernel(context) {
    OP_REQUIRES_OK(context, context->GetAttr("program", &program_));
  }

  void Compute(OpKernelContext* context) override {
    OpInputList results;
    OP_REQUIRES_OK(context, context->input_list("results", &results));
    Tensor *is_first = nullptr, *run = nullptr;
    OP_REQUIRES_OK(context, context->allocate_output(0, {}, &is_first));
    OP_REQUIRES_OK(context, context->allocate_output(1, {}, &run));
    static std::mutex mutex;
    static std::map<int64_t, Runs> programs;
    bool nan_before, infinity_before;
    {
      const std::lock_guard<std::mutex> lock(mutex);
      Runs& runs = programs[program_];
      run->scalar<int64_t>()() = ++runs.count;
      nan_before = runs.nan;
      infinity_before = runs.infinity;
    }
    bool nan = false, infinity = false;
    for (int i = 0; i < results.size() && !nan_before; ++i) {
      const Found found = Scan(results[i]);
      nan = nan || found.nan;
      infinity = infinity || found.infinity;
    }
    is_first->scalar<bool>()() = nan || (infinity && !infinity_before);
    if (nan || infinity) {
      const std::lock_guard<std::mutex> lock(mutex);
      Runs& runs = programs[program_];
      runs.nan = runs.nan || nan;
      runs.infinity = runs.infinity || infinity;
    }
  }

 private:
  int64_t program_ = 0;
};

REGISTER_OP("IpuNonfiniteFlag")
    .Input("results: T")
    .Output("is_first: bool")
    .Output("run: int64")
    .Attr("T: list(type) >= 0")
    .Attr("program: int")
    .SetIsStateful()
    .SetShapeFn([](tensorflow::shape_inference::InferenceContext* context) {
      context->set_output(0, context->Scalar());
      context->set_output(1, context->Scalar());
      return absl::OkStatus();
    })
    .Doc(
        "Whether float32 or float16 `results` hold the first NaN of any run of `program`, or, before "
        "any NaN, its first infinity; and the number of the run, from 1.");

REGISTER_KERNEL_BUILDER(Name("IpuNonfiniteFlag").Device(DEVICE_CPU), IpuNonfiniteFlag);

}  // namespace
}  // namespace ipu_tf
