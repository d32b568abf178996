// Variables on several replicas: the first one uses the variable itself, the others a copy that a store keeps between
// runs. The state of a random generator is a copy on the first replica, too, unless that is the first of all instances.
#include <cstring>
#include <memory>
#include <mutex>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/resource_mgr.h"
#include "tensorflow/core/framework/resource_var.h"
#include "tensorflow/core/framework/tensor_util.h"

namespace ipu_tf {
namespace {

using tensorflow::DEVICE_CPU;
using tensorflow::OpKernelConstruction;
using tensorflow::OpKernelContext;
using tensorflow::ResourceHandle;
using tensorflow::Tensor;
using tensorflow::TensorShape;
using tensorflow::Var;
using VarPointer = tensorflow::core::RefCountPtr<Var>;

// A variable of the resource manager. TensorFlow's assignments look a variable up by its name there.
class NamedVariable {
 public:
  NamedVariable(OpKernelContext* context, tensorflow::DataType dtype)
      : manager_(context->resource_manager()),
        handle_(tensorflow::MakeResourceHandle<Var>(context, manager_->default_container(),
                                                    absl::StrCat("ipu_tf_replica_", ResourceHandle::GenerateUniqueId()),
                                                    tensorflow::HandleFromInput(context, 1).dtypes_and_shapes())),
        variable_(new Var(dtype)) {
    variable_->Ref();  // The manager's.
    TF_CHECK_OK(manager_->Create(handle_.container(), handle_.name(), variable_.get()));
  }
  ~NamedVariable() { manager_->Delete<Var>(handle_.container(), handle_.name()).IgnoreError(); }

  Var* operator->() const { return variable_.get(); }
  Var* get() const { return variable_.get(); }
  const ResourceHandle& handle() const { return handle_; }

 private:
  tensorflow::ResourceMgr* const manager_;
  const ResourceHandle handle_;
  const VarPointer variable_;
};

// The copies of one variable. Its lock is taken before those of the variables.
class ReplicaStore : public tensorflow::ResourceBase {
 public:
  std::string DebugString() const override { return "copies of a variable on replicas"; }

  std::mutex mutex;
  std::vector<std::unique_ptr<NamedVariable>> copies TF_GUARDED_BY(mutex);
  // The value of replica 0 after the last run. It shares the variable's memory where that is allowed; an assignment
  // then gives the variable other memory.
  Tensor kept TF_GUARDED_BY(mutex);
  bool has_kept TF_GUARDED_BY(mutex) = false;
};

using StorePointer = tensorflow::core::RefCountPtr<ReplicaStore>;

bool SameBytes(const Tensor& a, const Tensor& b) {
  if (a.dtype() != b.dtype() || a.shape() != b.shape()) return false;
  const auto left = a.tensor_data(), right = b.tensor_data();
  return left.data() == right.data() || std::memcmp(left.data(), right.data(), left.size()) == 0;
}

// Returns the value of a variable, whose lock is held; a variable that is read sparsely must not share its memory.
Tensor ValueOf(Var* variable) {
  if (!variable->is_initialized) return Tensor(variable->tensor()->dtype());
  return variable->copy_on_read_mode.load() ? tensorflow::tensor::DeepCopy(*variable->tensor()) : *variable->tensor();
}

// Whether a variable, whose lock is held, has another value than the kept one, or was assigned.
bool IsChanged(Var* variable, const Tensor& kept) {
  if (!variable->is_initialized) return kept.NumElements() > 0 && kept.IsInitialized();
  const Tensor& now = *variable->tensor();
  if (variable->copy_on_read_mode.load()) return !SameBytes(now, kept);
  return now.tensor_data().data() != kept.tensor_data().data() || now.shape() != kept.shape();
}

class VariableKernel : public tensorflow::OpKernel {
 public:
  using OpKernel::OpKernel;

 protected:
  static absl::Status LookUp(OpKernelContext* context, StorePointer* store, VarPointer* variable) {
    TF_RETURN_IF_ERROR(tensorflow::LookupResource(context, tensorflow::HandleFromInput(context, 0), store));
    return tensorflow::LookupResource(context, tensorflow::HandleFromInput(context, 1), variable);
  }
};

class IpuReplicaStore : public tensorflow::OpKernel {
 public:
  using OpKernel::OpKernel;

  void Compute(OpKernelContext* context) override {
    Tensor* handle = nullptr;
    OP_REQUIRES_OK(context, context->allocate_output(0, TensorShape({}), &handle));
    handle->scalar<ResourceHandle>()() =
        ResourceHandle::MakeRefCountingHandle(new ReplicaStore, context->device()->name());
  }
};

class IpuReplicaVariables : public VariableKernel {
 public:
  explicit IpuReplicaVariables(OpKernelConstruction* context) : VariableKernel(context) {
    OP_REQUIRES_OK(context, context->GetAttr("seed_stride", &seed_stride_));
    OP_REQUIRES_OK(context, context->GetAttr("seed_element", &seed_element_));
    OP_REQUIRES_OK(context, context->GetAttr("offset", &offset_));
  }

  void Compute(OpKernelContext* context) override {
    StorePointer store;
    VarPointer variable;
    OP_REQUIRES_OK(context, LookUp(context, &store, &variable));
    std::lock_guard<std::mutex> lock(store->mutex);
    OP_REQUIRES_OK(context, Refresh(context, store.get(), variable.get()));
    if (Shared() > 0) context->set_output(0, context->input(1));
    for (int replica = Shared(); replica < num_outputs(); ++replica) {
      Tensor* handle = nullptr;
      OP_REQUIRES_OK(context, context->allocate_output(replica, TensorShape({}), &handle));
      handle->scalar<ResourceHandle>()() = store->copies[replica - Shared()]->handle();
    }
  }

 private:
  // Replicas that use the variable itself.
  int Shared() const { return seed_stride_ != 0 && offset_ > 0 ? 0 : 1; }

  absl::Status Refresh(OpKernelContext* context, ReplicaStore* store, Var* variable)
      TF_EXCLUSIVE_LOCKS_REQUIRED(store->mutex) {
    const size_t wanted = num_outputs() - Shared();
    tensorflow::tf_shared_lock lock(*variable->mu());
    if (store->has_kept && store->copies.size() == wanted && !IsChanged(variable, store->kept)) {
      return absl::OkStatus();
    }
    store->copies.clear();
    for (size_t copy = 0; copy < wanted; ++copy) {
      store->copies.push_back(std::make_unique<NamedVariable>(context, variable->tensor()->dtype()));
      Var* made = store->copies.back()->get();
      *made->tensor() = ValueOf(variable);
      made->is_initialized = variable->is_initialized;
      if (seed_stride_ != 0 && made->is_initialized) {
        TF_RETURN_IF_ERROR(Offset(made, static_cast<uint64_t>(seed_stride_) * (offset_ + Shared() + copy)));
      }
    }
    return absl::OkStatus();
  }

  absl::Status Offset(Var* variable, uint64_t offset) {
    Tensor moved = tensorflow::tensor::DeepCopy(*variable->tensor());
    if (seed_element_ >= moved.NumElements()) {
      return absl::InternalError("The state of a random generator has fewer elements than its kind.");
    }
    switch (moved.dtype()) {
      case tensorflow::DT_INT32:
      case tensorflow::DT_UINT32:
        moved.bit_casted_tensor<uint32_t, 1>()(seed_element_) += offset;
        break;
      case tensorflow::DT_INT64:
      case tensorflow::DT_UINT64:
        moved.bit_casted_tensor<uint64_t, 1>()(seed_element_) += offset;
        break;
      default:
        return absl::InternalError("The state of a random generator holds no whole numbers.");
    }
    *variable->tensor() = moved;
    return absl::OkStatus();
  }

  int64_t seed_stride_ = 0, seed_element_ = 0, offset_ = 0;
};

class IpuKeepReplicaVariables : public VariableKernel {
 public:
  using VariableKernel::VariableKernel;

  void Compute(OpKernelContext* context) override {
    StorePointer store;
    VarPointer variable;
    OP_REQUIRES_OK(context, LookUp(context, &store, &variable));
    std::lock_guard<std::mutex> lock(store->mutex);
    bool differ = false;
    {
      tensorflow::tf_shared_lock variable_lock(*variable->mu());
      store->kept = ValueOf(variable.get());
      store->has_kept = true;
      for (const auto& named : store->copies) {
        Var* copy = named->get();
        tensorflow::tf_shared_lock copy_lock(*copy->mu());
        const bool is_same = copy->is_initialized == variable->is_initialized &&
                             (!copy->is_initialized || SameBytes(*copy->tensor(), *variable->tensor()));
        differ = differ || !is_same;
      }
    }
    Tensor* result = nullptr;
    OP_REQUIRES_OK(context, context->allocate_output(0, TensorShape({}), &result));
    result->scalar<bool>()() = differ;
  }
};

REGISTER_OP("IpuReplicaStore")
    .Output("store: resource")
    .SetIsStateful()
    .SetShapeFn(tensorflow::shape_inference::ScalarShape)
    .Doc("Returns a new store for the copies of a variable.");

REGISTER_OP("IpuReplicaVariables")
    .Input("store: resource")
    .Input("variable: resource")
    .Output("variables: count * resource")
    .Attr("count: int >= 1")
    .Attr("seed_stride: int = 0")
    .Attr("seed_element: int = 0")
    .Attr("offset: int >= 0 = 0")
    .SetIsStateful()
    .SetShapeFn(tensorflow::shape_inference::ScalarShape)
    .Doc(
        "Returns the variable of each replica. If the variable was assigned since the last run, all get its value; "
        "an element of the copies then moves on by the stride for each replica before. `offset` replicas are before "
        "the "
        "first, in other instances.");

REGISTER_OP("IpuKeepReplicaVariables")
    .Input("store: resource")
    .Input("variable: resource")
    .Output("differ: bool")
    .SetIsStateful()
    .SetShapeFn(tensorflow::shape_inference::ScalarShape)
    .Doc("Ends a run for a variable; returns whether the replicas have different values.");

REGISTER_KERNEL_BUILDER(Name("IpuReplicaStore").Device(DEVICE_CPU), IpuReplicaStore);
REGISTER_KERNEL_BUILDER(Name("IpuReplicaVariables").Device(DEVICE_CPU), IpuReplicaVariables);
REGISTER_KERNEL_BUILDER(Name("IpuKeepReplicaVariables").Device(DEVICE_CPU), IpuKeepReplicaVariables);

}  // namespace
}  // namespace ipu_tf
