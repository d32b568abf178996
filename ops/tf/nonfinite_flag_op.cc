// What finds the first NaN or infinity of a program and runs the program once more: IpuNonfiniteFlag looks at the
// results of a run; IpuNonfiniteReplay does, and calls the function that replays it; IpuReplayRecord keeps what an op
// with effects gave and IpuReplayTake gives it again; IpuRewind sets both and the random bits of stochastic rounding
// back to the beginning of the run, and the bits forth.
#include <atomic>
#include <deque>
#include <map>
#include <mutex>
#include <string>
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
#include "plain_tensors.h"

namespace ipu_tf {
namespace {

using tensorflow::DEVICE_CPU;
using tensorflow::OpInputList;
using tensorflow::OpKernelConstruction;
using tensorflow::OpKernelContext;
using tensorflow::Tensor;

// What is known of the runs of one replica of a program so far.
struct Runs {
  int64_t count = 0;
  bool nan = false;
  bool infinity = false;
  StreamCalls begin, end;  // The calls of its streams at the beginning and at the end of the last run.
};

// What is known of all programs.
struct Process {
  std::mutex mutex;
  std::map<std::pair<int64_t, int64_t>, Runs> runs;             // By program and replica.
  std::map<int64_t, std::deque<std::vector<Tensor>>> recorded;  // By stream of the record.
  std::map<int64_t, size_t> taken;                              // How many of them the replay has taken.
  std::map<int64_t, Found> given;                               // What left the program, by stream of the record.
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

  Runs& RunsIn(Process& process) const { return process.runs[{program, replica}]; }

  // Forgets what ops with effects gave in a run.
  void Clear(Process& process) const {
    for (const int64_t record : records) process.recorded.erase(record);
  }

  int64_t program = 0, stream = 0, replica = 0;
  std::vector<int64_t> records, groups;
};

// Counts a run, and returns whether its results are the first NaN of any, or, before any NaN, the first infinity.
bool IsFirst(const Of& of, const OpInputList& results, int64_t* run) {
  Process& process = TheProcess();
  bool nan_before, nan = false, infinity = false;
  {
    const std::lock_guard<std::mutex> lock(process.mutex);
    Runs& runs = of.RunsIn(process);
    *run = ++runs.count;
    nan_before = runs.nan;
    if (!of.groups.empty()) {
      runs.begin = std::move(runs.end);
      runs.end = CallsOf(of.groups);
      if (runs.begin.seeds != runs.end.seeds) runs.begin.calls.clear();
    }
    for (const int64_t record : of.records) {
      const auto given = process.given.find(record);
      if (given == process.given.end()) continue;
      nan = nan || given->second.nan;
      infinity = infinity || given->second.infinity;
      process.given.erase(given);
    }
  }
  for (int i = 0; i < results.size() && !nan_before; ++i) {
    const Found found = Scan(results[i]);
    nan = nan || found.nan;
    infinity = infinity || found.infinity;
  }
  if (!nan && !infinity && of.records.empty()) return false;
  const std::lock_guard<std::mutex> lock(process.mutex);
  Runs& runs = of.RunsIn(process);
  if (runs.nan || !(nan || (infinity && !runs.infinity))) {
    of.Clear(process);
    return false;
  }
  runs.nan = nan;
  runs.infinity = runs.infinity || infinity;
  return true;
}

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
    is_first->scalar<bool>()() = IsFirst(of_, results, &run->scalar<int64_t>()());
  }

 private:
  const Of of_;
};

// Replays run `run` of `program` on `replica`. `tensors` are what the run read: a TensorProto each, behind its size in
// 8 bytes.
using Replay = void (*)(int64_t program, int64_t replica, int64_t run, const char* tensors, int64_t size);
std::atomic<Replay> replay{nullptr};

class IpuNonfiniteReplay : public tensorflow::OpKernel {
 public:
  explicit IpuNonfiniteReplay(OpKernelConstruction* context) : OpKernel(context), of_(context) {}

  void Compute(OpKernelContext* context) override {
    OpInputList results, operands;
    OP_REQUIRES_OK(context, context->input_list("results", &results));
    OP_REQUIRES_OK(context, context->input_list("operands", &operands));
    int64_t run = 0;
    const Replay call = replay.load();
    if (!IsFirst(of_, results, &run) || call == nullptr) return;
    const std::string tensors = Serialized(operands);
    call(of_.program, of_.replica, run, tensors.data(), tensors.size());
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
      const Runs& runs = of_.RunsIn(process);
      SetCalls(of_.groups, back_ ? runs.begin : runs.end);
    }
    for (const int64_t record : of_.records) process.taken[record] = 0;
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
    OP_REQUIRES_OK(context, context->GetAttr("kept", &kept_));
  }

  void Compute(OpKernelContext* context) override {
    Process& process = TheProcess();
    if (!kept_) return Look(context, process);
    std::vector<Tensor> values;
    for (int i = 0; i < context->num_inputs(); ++i) values.push_back(context->input(i));
    const std::lock_guard<std::mutex> lock(process.mutex);
    process.recorded[stream_].push_back(std::move(values));
  }

 private:
  void Look(OpKernelContext* context, Process& process) const {
    for (int i = 0; i < context->num_inputs(); ++i) {
      const Found found = Scan(context->input(i));
      if (!found.nan && !found.infinity) continue;
      const std::lock_guard<std::mutex> lock(process.mutex);
      Found& given = process.given[stream_];
      given.nan = given.nan || found.nan;
      given.infinity = given.infinity || found.infinity;
    }
  }

  int64_t stream_ = 0;
  bool kept_ = true;
};

class IpuCheckNumber : public tensorflow::OpKernel {
 public:
  explicit IpuCheckNumber(OpKernelConstruction* context) : OpKernel(context) {
    OP_REQUIRES_OK(context, context->GetAttr("stream", &stream_));
  }

  void Compute(OpKernelContext* context) override {
    Tensor* number = nullptr;
    OP_REQUIRES_OK(context, context->allocate_output(0, {}, &number));
    number->scalar<int64_t>()() = stream_;
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
    const auto& recorded = process.recorded[stream_];
    const size_t number = process.taken[stream_]++;
    OP_REQUIRES(context, number < recorded.size(),
                absl::InternalError(absl::StrCat("'", name(),
                                                 "': the replay of simulator.trace_numerics takes more "
                                                 "values than the run had; please report this as a bug.")));
    for (int i = 0; i < context->num_outputs(); ++i) context->set_output(i, recorded[number][i]);
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

REGISTER_OP("IpuNonfiniteReplay")
    .Input("results: T")
    .Input("operands: S")
    .Attr("T: list(type) >= 0")
    .Attr("S: list(type) >= 0")
    .Attr("program: int")
    .Attr("stream: int = 0")
    .Attr("records: list(int)")
    .Attr("groups: list(int)")
    .SetIsStateful()
    .SetShapeFn(NoResult)
    .Doc(
        "Looks at `results` as IpuNonfiniteFlag does, and hands `operands`, what the run read, to the function that "
        "replays it. XLA can call it.");

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
    .Attr("kept: bool = true")
    .SetIsStateful()
    .SetShapeFn(NoResult)
    .Doc("Keeps what an op with effects gave, for a replay of the run; or only looks at what leaves the program.");

REGISTER_OP("IpuCheckNumber")
    .Output("output: int64")
    .Attr("stream: int")
    .SetShapeFn(tensorflow::shape_inference::ScalarShape)
    .Doc("The number of a check of a replay, with that of the replica.");

REGISTER_OP("IpuReplayTake")
    .Output("values: T")
    .Attr("T: list(type) >= 1")
    .Attr("stream: int")
    .SetIsStateful()
    .SetShapeFn(tensorflow::shape_inference::UnknownShape)
    .Doc("Gives, one after another, what IpuReplayRecord of the same `stream` kept.");

REGISTER_KERNEL_BUILDER(Name("IpuNonfiniteFlag").Device(DEVICE_CPU), IpuNonfiniteFlag);
REGISTER_KERNEL_BUILDER(Name("IpuNonfiniteReplay").Device(DEVICE_CPU), IpuNonfiniteReplay);
REGISTER_KERNEL_BUILDER(Name("IpuRewind").Device(DEVICE_CPU), IpuRewind);
REGISTER_KERNEL_BUILDER(Name("IpuReplayRecord").Device(DEVICE_CPU), IpuReplayRecord);
REGISTER_KERNEL_BUILDER(Name("IpuCheckNumber").Device(DEVICE_CPU), IpuCheckNumber);
REGISTER_KERNEL_BUILDER(Name("IpuReplayTake").Device(DEVICE_CPU), IpuReplayTake);

}  // namespace
}  // namespace ipu_tf

extern "C" __attribute__((visibility("default"))) void ipu_tf_replay_by(ipu_tf::Replay function) {
  ipu_tf::replay = function;
}
