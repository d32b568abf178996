// What finds the first NaN or infinity of a program and runs the program once more: IpuNonfiniteFlag looks at the
// results of a run; IpuReplayRecord keeps what an op with effects gave and IpuReplayTake gives it again; IpuRewind sets
// the random bits of stochastic rounding back to the beginning of the run and forth.
#include <deque>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "../core/elements/random.h"
#include "../core/elements/replica_streams.h"
#include "absl/strings/str_cat.h"
#include "tensorflow/core/framework/common_shape_fns.h"
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

// One replica's replay may not begin within so many runs after that of another one began: it may still go on.
constexpr int64_t kRunsApart = 128;

// What is known of the runs of one program so far; its replicas count together.
struct Runs {
  int64_t count = 0;
  bool nan = false;
  bool infinity = false;
  int64_t last_replay = -kRunsApart, last_replica = 0;
};

// The calls of the streams of one replica of a program, at the beginning and at the end of its last run.
struct Calls {
  StreamCalls begin, end;
};

// All of it; a test of a program ends with a few of these.
struct Process {
  std::mutex mutex;
  std::map<int64_t, Runs> runs;                                 // By program.
  std::map<std::pair<int64_t, int64_t>, Calls> calls;           // By program and replica.
  std::map<int64_t, std::deque<std::vector<Tensor>>> recorded;  // By stream of the record.
};

Process& TheProcess() {
  static Process* process = new Process;
  return *process;
}

// The program of a kernel, and its replica.
struct Of {
  explicit Of(OpKernelConstruction* context) {
    OP_REQUIRES_OK(context, context->GetAttr("program", &program));
    OP_REQUIRES_OK(context, context->GetAttr("stream", &stream));
    OP_REQUIRES_OK(context, context->GetAttr("records", &records));
    OP_REQUIRES_OK(context, context->GetAttr("groups", &groups));
    const auto stride = static_cast<int64_t>(kReplicaStride);
    replica = stream / stride;
    for (int64_t& record : records) record += replica * stride;
    for (int64_t& group : groups) group += replica * (stride / kStreamsOfGroup);
  }

  // Forgets what ops with effects gave in a run.
  void Clear(Process& process) const {
    for (const int64_t record : records) process.recorded.erase(record);
  }

  int64_t program = 0, stream = 0, replica = 0;
  std::vector<int64_t> records, groups;
};

class IpuNonfiniteFlag : public tensorflow::OpKernel {
 public:
  explicit IpuNonfiniteFlag(OpKernelConstruction* context) : OpKernel(context), of_(context) {}

  void Compute(OpKernelContext* context) override {
    OpInputList results;
    OP_REQUIRES_OK(context, context->input_list("results", &results));
    Tensor *is_first = nullptr, *run = nullptr, *replica = nullptr;
    OP_REQUIRES_OK(context, context->allocate_output(0, {}, &is_first));
    OP_REQUIRES_OK(context, context->allocate_output(1, {}, &run));
    OP_REQUIRES_OK(context, context->allocate_output(2, {}, &replica));
    replica->scalar<int64_t>()() = of_.replica;
    Process& process = TheProcess();
    bool nan_before;
    {
      const std::lock_guard<std::mutex> lock(process.mutex);
      Runs& runs = process.runs[of_.program];
      run->scalar<int64_t>()() = ++runs.count;
      nan_before = runs.nan;
      if (!of_.groups.empty()) {
        Calls& calls = process.calls[{of_.program, of_.replica}];
        calls.begin = std::move(calls.end);
        calls.end = CallsOf(of_.groups);
        if (calls.begin.seeds != calls.end.seeds) calls.begin.calls.clear();
      }
    }
    bool nan = false, infinity = false;
    for (int i = 0; i < results.size() && !nan_before; ++i) {
      const Found found = Scan(results[i]);
      nan = nan || found.nan;
      infinity = infinity || found.infinity;
    }
    is_first->scalar<bool>()() = false;
    if (!nan && !infinity && of_.records.empty()) return;
    const std::lock_guard<std::mutex> lock(process.mutex);
    Runs& runs = process.runs[of_.program];
    const bool is_new = (nan && !runs.nan) || (infinity && !runs.infinity && !runs.nan);
    const bool alone = runs.last_replica == of_.replica || runs.count - runs.last_replay >= kRunsApart;
    if (!is_new || !alone) return of_.Clear(process);
    runs.nan = runs.nan || nan;
    runs.infinity = runs.infinity || infinity;
    runs.last_replay = runs.count;
    runs.last_replica = of_.replica;
    is_first->scalar<bool>()() = true;
  }

 private:
  const Of of_;
};

class IpuRewind : public tensorflow::OpKernel {
 public:
  explicit IpuRewind(OpKernelConstruction* context) : OpKernel(context), of_(context) {
    OP_REQUIRES_OK(context, context->GetAttr("back", &back_));
  }

  void Compute(OpKernelContext*) override {
    Process& process = TheProcess();
    const std::lock_guard<std::mutex> lock(process.mutex);
    if (!of_.groups.empty()) {
      const Calls& calls = process.calls[{of_.program, of_.replica}];
      SetCalls(of_.groups, back_ ? calls.begin : calls.end);
    }
    if (!back_) of_.Clear(process);
  }

 private:
  const Of of_;
  bool back_ = true;
};

class IpuReplayRecord : public tensorflow::OpKernel {
 public:
  explicit IpuReplayRecord(OpKernelConstruction* context) : OpKernel(context) {
    OP_REQUIRES_OK(context, context->GetAttr("stream", &stream_));
  }

  void Compute(OpKernelContext* context) override {
    std::vector<Tensor> values;
    for (int i = 0; i < context->num_inputs(); ++i) values.push_back(context->input(i));
    Process& process = TheProcess();
    const std::lock_guard<std::mutex> lock(process.mutex);
    process.recorded[stream_].push_back(std::move(values));
  }

 private:
  int64_t stream_ = 0;
};

class IpuReplayTake : public tensorflow::OpKernel {
 public:
  explicit IpuReplayTake(OpKernelConstruction* context) : OpKernel(context) {
    OP_REQUIRES_OK(context, context->GetAttr("stream", &stream_));
  }

  void Compute(OpKernelContext* context) override {
    Process& process = TheProcess();
    const std::lock_guard<std::mutex> lock(process.mutex);
    auto& recorded = process.recorded[stream_];
    OP_REQUIRES(context, !recorded.empty(),
                absl::InternalError(absl::StrCat("'", name(), "': the replay of simulator.trace_numerics takes more "
                                                 "values than the run had; please report this as a bug.")));
    for (int i = 0; i < context->num_outputs(); ++i) context->set_output(i, recorded.front()[i]);
    recorded.pop_front();
  }

 private:
  int64_t stream_ = 0;
};

absl::Status NoResult(tensorflow::shape_inference::InferenceContext*) { return absl::OkStatus(); }

REGISTER_OP("IpuNonfiniteFlag")
    .Input("results: T")
    .Output("is_first: bool")
    .Output("run: int64")
    .Output("replica: int64")
    .Attr("T: list(type) >= 0")
    .Attr("program: int")
    .Attr("stream: int = 0")
    .Attr("records: list(int)")
    .Attr("groups: list(int)")
    .SetIsStateful()
    .SetShapeFn([](tensorflow::shape_inference::InferenceContext* context) {
      for (int i = 0; i < 3; ++i) context->set_output(i, context->Scalar());
      return absl::OkStatus();
    })
    .Doc(
        "Whether float32 or float16 `results` hold the first NaN of any run of `program`, or, before "
        "any NaN, its first infinity; the number of the run, from 1; and the replica, which `stream` tells.");

REGISTER_OP("IpuRewind")
    .Attr("program: int")
    .Attr("stream: int = 0")
    .Attr("records: list(int)")
    .Attr("groups: list(int)")
    .Attr("back: bool")
    .SetIsStateful()
    .SetShapeFn(NoResult)
    .Doc("Sets groups of streams back to the beginning of the last run of `program`, or forth to its end.");

REGISTER_OP("IpuReplayRecord")
    .Input("values: T")
    .Attr("T: list(type) >= 1")
    .Attr("stream: int")
    .SetIsStateful()
    .SetShapeFn(NoResult)
    .Doc("Keeps what an op with effects gave, for a replay of the run.");

REGISTER_OP("IpuReplayTake")
    .Output("values: T")
    .Attr("T: list(type) >= 1")
    .Attr("stream: int")
    .SetIsStateful()
    .SetShapeFn(tensorflow::shape_inference::UnknownShape)
    .Doc("Gives, one after another, what IpuReplayRecord of the same `stream` kept.");

REGISTER_KERNEL_BUILDER(Name("IpuNonfiniteFlag").Device(DEVICE_CPU), IpuNonfiniteFlag);
REGISTER_KERNEL_BUILDER(Name("IpuRewind").Device(DEVICE_CPU), IpuRewind);
REGISTER_KERNEL_BUILDER(Name("IpuReplayRecord").Device(DEVICE_CPU), IpuReplayRecord);
REGISTER_KERNEL_BUILDER(Name("IpuReplayTake").Device(DEVICE_CPU), IpuReplayTake);

}  // namespace
}  // namespace ipu_tf
