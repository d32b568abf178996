// The ops of programs that run on several replicas: the replicas themselves, and their collectives.
#include "replica_group.h"
#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/resource_mgr.h"

namespace ipu_tf {
namespace {

using tensorflow::DEVICE_CPU;
using tensorflow::OpKernelConstruction;
using tensorflow::OpKernelContext;
using tensorflow::ResourceHandle;
using tensorflow::Tensor;
using tensorflow::TensorShape;

using ReplicaPointer = tensorflow::core::RefCountPtr<Replica>;

absl::Status ReplicaOf(OpKernelContext* context, ReplicaPointer* replica) {
  return tensorflow::LookupResource(context, tensorflow::HandleFromInput(context, 0), replica);
}

class IpuReplicas : public tensorflow::OpKernel {
 public:
  explicit IpuReplicas(OpKernelConstruction* context) : OpKernel(context) {
    OP_REQUIRES_OK(context, context->GetAttr("offset", &offset_));
  }

  void Compute(OpKernelContext* context) override {
    auto group = std::make_shared<ReplicaGroup>(num_outputs(), offset_);
    for (int index = 0; index < num_outputs(); ++index) {
      Tensor* handle = nullptr;
      OP_REQUIRES_OK(context, context->allocate_output(index, TensorShape({}), &handle));
      handle->scalar<ResourceHandle>()() =
          ResourceHandle::MakeRefCountingHandle(new Replica(group, index), context->device()->name());
    }
  }

 private:
  int offset_ = 0;
};

class IpuReplicaHandles : public tensorflow::OpKernel {
 public:
  using OpKernel::OpKernel;

  void Compute(OpKernelContext* context) override {
    for (int index = 0; index < num_outputs(); ++index) context->set_output(index, context->input(0));
  }
};

class IpuReplicaIndex : public tensorflow::OpKernel {
 public:
  using OpKernel::OpKernel;

  void Compute(OpKernelContext* context) override {
    ReplicaPointer replica;
    OP_REQUIRES_OK(context, ReplicaOf(context, &replica));
    Tensor* index = nullptr;
    OP_REQUIRES_OK(context, context->allocate_output(0, TensorShape({}), &index));
    index->scalar<int32_t>()() = replica->number();
  }
};

class IpuReplicaEnd : public tensorflow::OpKernel {
 public:
  using OpKernel::OpKernel;

  void Compute(OpKernelContext* context) override {
    ReplicaPointer replica;
    OP_REQUIRES_OK(context, ReplicaOf(context, &replica));
    replica->group->End(replica->index);
  }
};

class IpuReplicaCollective : public tensorflow::AsyncOpKernel {
 public:
  explicit IpuReplicaCollective(OpKernelConstruction* context) : AsyncOpKernel(context) {
    OP_REQUIRES_OK(context, context->GetAttr("kind", &collective_.kind));
    OP_REQUIRES_OK(context, context->GetAttr("reduction", &collective_.reduction));
    OP_REQUIRES_OK(context, context->GetAttr("group_size", &collective_.group_size));
    OP_REQUIRES_OK(context, context->GetAttr("site", &collective_.site));
  }

  void ComputeAsync(OpKernelContext* context, DoneCallback done) override {
    ReplicaPointer replica;
    OP_REQUIRES_OK_ASYNC(context, ReplicaOf(context, &replica), done);
    replica->group->Join(replica->index, collective_, context, std::move(done));
  }

 private:
  Collective collective_;
};

REGISTER_OP("IpuReplicas")
    .Output("replicas: count * resource")
    .Attr("count: int >= 1")
    .Attr("offset: int >= 0 = 0")
    .SetIsStateful()
    .SetShapeFn(tensorflow::shape_inference::ScalarShape)
    .Doc("Returns the replicas of a new run; `offset` is the number of the first among those of all instances.");

REGISTER_OP("IpuReplicaHandles")
    .Input("handle: resource")
    .Output("handles: count * resource")
    .Attr("count: int >= 1")
    .SetIsStateful()
    .SetShapeFn(tensorflow::shape_inference::ScalarShape)
    .Doc(
        "Returns a handle once for each replica. Tensors of their own keep the users of each from waiting for others.");

REGISTER_OP("IpuReplicaIndex")
    .Input("replica: resource")
    .Output("index: int32")
    .Attr("output_shapes: list(shape) = [{}]")
    .SetShapeFn(tensorflow::shape_inference::ScalarShape)
    .Doc("Returns the number of a replica among those of all instances, from 0.");

REGISTER_OP("IpuReplicaEnd")
    .Input("replica: resource")
    .SetIsStateful()
    .SetShapeFn(tensorflow::shape_inference::NoOutputs)
    .Doc("Notes that the program of a replica has ended.");

REGISTER_OP("IpuReplicaCollective")
    .Input("replica: resource")
    .Input("x: T")
    .Output("y: T")
    .Attr("T: {half, bfloat16, float, double, int8, uint8, int32, uint32, int64, bool}")
    .Attr("kind: {'all-reduce', 'all-gather', 'reduce-scatter', 'all-to-all'}")
    .Attr("reduction: {'', 'add', 'mean', 'mul', 'min', 'max', 'square_add', 'logical_and', 'logical_or'} = ''")
    .Attr("group_size: int >= 1")
    .Attr("site: string")
    .Attr("output_shapes: list(shape)")
    .SetIsStateful()
    .SetShapeFn([](tensorflow::shape_inference::InferenceContext* context) {
      std::vector<tensorflow::PartialTensorShape> shapes;
      TF_RETURN_IF_ERROR(context->GetAttr("output_shapes", &shapes));
      tensorflow::shape_inference::ShapeHandle shape;
      TF_RETURN_IF_ERROR(context->MakeShapeFromPartialTensorShape(shapes.at(0), &shape));
      context->set_output(0, shape);
      return absl::OkStatus();
    })
    .Doc("Waits until all replicas of a group have come, then returns what the collective gives this one.");

REGISTER_KERNEL_BUILDER(Name("IpuReplicas").Device(DEVICE_CPU), IpuReplicas);
REGISTER_KERNEL_BUILDER(Name("IpuReplicaHandles").Device(DEVICE_CPU), IpuReplicaHandles);
REGISTER_KERNEL_BUILDER(Name("IpuReplicaIndex").Device(DEVICE_CPU), IpuReplicaIndex);
REGISTER_KERNEL_BUILDER(Name("IpuReplicaEnd").Device(DEVICE_CPU), IpuReplicaEnd);
REGISTER_KERNEL_BUILDER(Name("IpuReplicaCollective").Device(DEVICE_CPU), IpuReplicaCollective);

}  // namespace
}  // namespace ipu_tf
