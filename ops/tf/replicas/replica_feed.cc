// IpuReplicaGetNext: reads an iterator that the replicas of a program share. The k-th read of replica r gets element
// k * R + r. Elements are read when a replica needs them; those of slower replicas wait for them.
#include <deque>
#include <mutex>
#include <utility>
#include <vector>

#include "replica_group.h"
#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/resource_mgr.h"
#include "tensorflow/core/kernels/data/iterator_ops.h"
#include "tensorflow/core/platform/env.h"

namespace ipu_tf {
namespace {

using tensorflow::AsyncOpKernel;
using tensorflow::DEVICE_CPU;
using tensorflow::OpKernelConstruction;
using tensorflow::OpKernelContext;
using tensorflow::Tensor;
using tensorflow::data::IteratorResource;

using Element = std::vector<Tensor>;
template <typename T>
using Pointer = tensorflow::core::RefCountPtr<T>;

// The elements that were read from an iterator for replicas that have not asked for them yet.
class ReplicaFeed : public tensorflow::ResourceBase {
 public:
  struct Read {
    int replica;
    OpKernelContext* context;
    Pointer<IteratorResource> iterator;
    AsyncOpKernel::DoneCallback done;
  };

  std::string DebugString() const override { return "elements of an iterator for replicas"; }

  // Gives a replica its next element, on this thread if it is there, otherwise on another one.
  void Take(int replicas, Read read) {
    Element element;
    {
      std::lock_guard<std::mutex> lock(mutex_);
      if (static_cast<int>(ready_.size()) != replicas) {
        ready_.assign(replicas, {});
        next_ = 0;
      }
      if (ready_[read.replica].empty()) {
        waiting_.push_back(std::move(read));
        if (std::exchange(is_reading_, true)) return;
        Ref();  // The thread's.
        tensorflow::Env::Default()->SchedClosure([this] { Serve(); });
        return;
      }
      element = TakeReady(read.replica);
    }
    Finish(read, absl::OkStatus(), element);
  }

 private:
  Element TakeReady(int replica) TF_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    Element element = std::move(ready_[replica].front());
    ready_[replica].pop_front();
    return element;
  }

  // Reads elements until no replica waits.
  void Serve() {
    bool waits = true;
    while (waits) {
      OpKernelContext* context;
      IteratorResource* iterator;
      {
        std::lock_guard<std::mutex> lock(mutex_);
        context = waiting_.front().context;
        iterator = waiting_.front().iterator.get();
      }
      Element element;
      bool at_end = false;
      absl::Status status = iterator->GetNext(context, &element, &at_end);
      if (status.ok() && at_end) status = absl::OutOfRangeError("End of sequence");
      std::vector<std::pair<Read, Element>> served;
      {
        std::lock_guard<std::mutex> lock(mutex_);
        if (status.ok()) {
          ready_[next_].push_back(std::move(element));
          next_ = (next_ + 1) % static_cast<int>(ready_.size());
        } else {
          served.emplace_back(std::move(waiting_.front()), Element());
          waiting_.pop_front();
        }
        for (auto read = waiting_.begin(); read != waiting_.end();) {
          if (ready_[read->replica].empty()) {
            ++read;
            continue;
          }
          Element own = TakeReady(read->replica);
          served.emplace_back(std::move(*read), std::move(own));
          read = waiting_.erase(read);
        }
        waits = is_reading_ = !waiting_.empty();
      }
      for (auto& [read, own] : served) Finish(read, own.empty() ? status : absl::OkStatus(), own);
    }
    Unref();
  }

  static void Finish(Read& read, const absl::Status& status, const Element& element) {
    for (size_t i = 0; i < element.size(); ++i) read.context->set_output(i, element[i]);
    if (!status.ok()) read.context->SetStatus(status);
    read.iterator.reset();
    read.done();
  }

  std::mutex mutex_;
  std::vector<std::deque<Element>> ready_ TF_GUARDED_BY(mutex_);  // For each replica.
  std::deque<Read> waiting_ TF_GUARDED_BY(mutex_);
  int next_ TF_GUARDED_BY(mutex_) = 0;  // The replica of the next element.
  bool is_reading_ TF_GUARDED_BY(mutex_) = false;
};

class IpuReplicaGetNext : public AsyncOpKernel {
 public:
  using AsyncOpKernel::AsyncOpKernel;

  void ComputeAsync(OpKernelContext* context, DoneCallback done) override {
    Pointer<Replica> replica;
    OP_REQUIRES_OK_ASYNC(context, LookupResource(context, tensorflow::HandleFromInput(context, 0), &replica), done);
    const tensorflow::ResourceHandle& handle = tensorflow::HandleFromInput(context, 1);
    ReplicaFeed::Read read{replica->index, context, {}, std::move(done)};
    OP_REQUIRES_OK_ASYNC(context, LookupResource(context, handle, &read.iterator), read.done);
    tensorflow::ResourceMgr* manager = context->resource_manager();
    ReplicaFeed* feed = nullptr;
    OP_REQUIRES_OK_ASYNC(context,
                         manager->LookupOrCreate<ReplicaFeed>(manager->default_container(), handle.name(), &feed,
                                                              [](ReplicaFeed** made) {
                                                                *made = new ReplicaFeed;
                                                                return absl::OkStatus();
                                                              }),
                         read.done);
    tensorflow::core::ScopedUnref unref(feed);
    feed->Take(replica->group->count(), std::move(read));
  }
};

REGISTER_OP("IpuReplicaGetNext")
    .Input("replica: resource")
    .Input("iterator: resource")
    .Output("components: output_types")
    .Attr("output_types: list(type) >= 1")
    .Attr("output_shapes: list(shape) >= 1")
    .SetIsStateful()
    .SetShapeFn(tensorflow::shape_inference::DatasetIteratorShape)
    .Doc("Returns the next element of an iterator for a replica.");

REGISTER_KERNEL_BUILDER(Name("IpuReplicaGetNext").Device(DEVICE_CPU), IpuReplicaGetNext);

}  // namespace
}  // namespace ipu_tf
